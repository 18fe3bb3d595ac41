//! What a command is: its name and flags, its documentation, its handler, and the arguments of a call.

use allot_core::shared::MAX_IDENTIFIER;
use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::text::quoted;
use redis_module::raw;
use std::ffi::CStr;
use std::os::raw::c_int;

use crate::sys::string::Names;
use crate::sys::{Context, KeyName};

/// What a command does. It replies itself, or refuses before it has replied or changed anything.
pub(crate) type Handler = fn(&Call<'_>) -> Result<(), Refusal>;

/// What the server calls.
pub(crate) type Entry =
    unsafe extern "C" fn(*mut raw::RedisModuleCtx, *mut *mut raw::RedisModuleString, c_int) -> c_int;

/// A command as it is registered and documented (`COMMAND DOCS`).
pub(crate) struct Command {
    pub(crate) name: &'static CStr,
    pub(crate) entry: Entry,
    /// The server's flags: `write deny-oom fast` and the like.
    pub(crate) flags: &'static str,
    /// ACL categories, on servers that have them for modules.
    pub(crate) categories: &'static str,
    /// Number of arguments, the name included; negative: at least so many.
    pub(crate) arity: c_int,
    pub(crate) keys: Keys,
    /// `REDISMODULE_CMD_KEY_*`.
    pub(crate) key_flags: u32,
    pub(crate) summary: &'static str,
    pub(crate) complexity: &'static str,
    pub(crate) arguments: &'static [Arg],
}

/// Where a command's keys stand.
#[derive(Clone, Copy)]
pub(crate) enum Keys {
    /// The first argument.
    First,
    /// The first argument says how many, then they follow.
    Counted,
    /// The first argument, and another one behind a word.
    FirstAndBehind(&'static CStr),
}

/// An argument in the documentation.
#[derive(Clone, Copy)]
pub(crate) struct Arg {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The keyword before it.
    pub(crate) token: Option<&'static str>,
    pub(crate) occurs: Occurs,
}

#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Key,
    String,
    Integer,
    /// A keyword that stands for itself.
    Word,
    Block(&'static [Arg]),
    OneOf(&'static [Arg]),
}

#[derive(Clone, Copy)]
pub(crate) enum Occurs {
    Once,
    Maybe,
    Many,
    /// Any number of times, or never.
    Any,
}

impl Arg {
    pub(crate) const fn new(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, token: None, occurs: Occurs::Once }
    }

    /// A keyword that stands for itself.
    pub(crate) const fn word(word: &'static str, token: &'static str) -> Self {
        Self { name: word, kind: Kind::Word, token: Some(token), occurs: Occurs::Once }
    }

    pub(crate) const fn after(self, token: &'static str) -> Self {
        Self { token: Some(token), ..self }
    }

    pub(crate) const fn maybe(self) -> Self {
        Self { occurs: Occurs::Maybe, ..self }
    }

    pub(crate) const fn many(self) -> Self {
        let occurs = if matches!(self.occurs, Occurs::Maybe) { Occurs::Any } else { Occurs::Many };
        Self { occurs, ..self }
    }
}

/// The server's entry for a handler.
macro_rules! entry {
    ($handler:path) => {{
        #[allow(unsafe_code, reason = "the one shape in which the server calls a command")]
        unsafe extern "C" fn entry(
            ctx: *mut redis_module::raw::RedisModuleCtx,
            argv: *mut *mut redis_module::raw::RedisModuleString,
            argc: std::os::raw::c_int,
        ) -> std::os::raw::c_int {
            unsafe { $crate::sys::register::run_command(ctx, argv, argc, $handler) }
        }
        entry
    }};
}
pub(crate) use entry;

/// One call of a command.
pub(crate) struct Call<'a> {
    pub(crate) ctx: Context<'a>,
    arguments: &'a [&'a [u8]],
    names: Names<'a>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(ctx: Context<'a>, arguments: &'a [&'a [u8]], names: Names<'a>) -> Self {
        Self { ctx, arguments, names }
    }

    /// The key, for commands whose key is the first argument.
    pub(crate) fn key(&self) -> Result<KeyName<'a>, Refusal> {
        self.name(1)
    }

    /// The argument at that place as the name of a key.
    pub(crate) fn name(&self, place: usize) -> Result<KeyName<'a>, Refusal> {
        self.names.get(place).ok_or_else(|| self.wrong_number())
    }

    /// Number of arguments, the command's name included.
    pub(crate) fn len(&self) -> usize {
        self.arguments.len()
    }

    /// Reads the arguments from that place on; 0 is the command's name.
    pub(crate) fn arguments(&self, from: usize) -> Arguments<'a> {
        Arguments {
            command: self.arguments.first().copied().unwrap_or_default(),
            all: self.arguments,
            next: from,
            seen: 0,
        }
    }

    fn wrong_number(&self) -> Refusal {
        wrong_number(self.arguments.first().copied().unwrap_or_default())
    }
}

fn wrong_number(command: &[u8]) -> Refusal {
    let command = String::from_utf8_lossy(command).to_lowercase();
    Refusal::new(Code::Err, format!("wrong number of arguments for {} command", quoted(command)))
}

/// Reads arguments one by one; every fault names the word that is wrong.
pub(crate) struct Arguments<'a> {
    command: &'a [u8],
    all: &'a [&'a [u8]],
    next: usize,
    /// Options already met, as bits.
    seen: u32,
}

fn fault(text: impl Into<String>) -> Refusal {
    Refusal::new(Code::Err, text)
}

impl<'a> Arguments<'a> {
    /// The next argument, which must be there.
    pub(crate) fn any(&mut self) -> Result<&'a [u8], Refusal> {
        let argument = self.all.get(self.next).copied().ok_or_else(|| wrong_number(self.command))?;
        self.next += 1;
        Ok(argument)
    }

    /// The next argument as an identifier: 1 to 256 bytes.
    pub(crate) fn identifier(&mut self, what: &str) -> Result<&'a [u8], Refusal> {
        let argument = self.any()?;
        if (1..=MAX_IDENTIFIER).contains(&argument.len()) {
            return Ok(argument);
        }
        Err(fault(format!("{what} must have 1 to {MAX_IDENTIFIER} bytes, not {}", argument.len())))
    }

    /// The next argument as a whole number.
    pub(crate) fn integer(&mut self, what: &str) -> Result<i64, Refusal> {
        let argument = self.any()?;
        integer(argument)
            .ok_or_else(|| fault(format!("{what} must be a whole number, not {}", quoted(argument))))
    }

    /// The next option's word, if there are arguments left.
    pub(crate) fn option(&mut self) -> Option<&'a [u8]> {
        let option = self.all.get(self.next).copied()?;
        self.next += 1;
        Some(option)
    }

    /// Notes that an option was met; `number` tells the options of a command apart.
    pub(crate) fn once(&mut self, number: u32, option: &[u8]) -> Result<(), Refusal> {
        if self.seen >> number & 1 == 1 {
            return Err(fault(format!("option {} is given twice", quoted(option))));
        }
        self.seen |= 1 << number;
        Ok(())
    }

    /// The value of an option.
    pub(crate) fn value(&mut self, option: &[u8]) -> Result<&'a [u8], Refusal> {
        let value = self.all.get(self.next).copied();
        self.next += 1;
        value.ok_or_else(|| fault(format!("option {} has no value", quoted(option))))
    }

    /// The place of the last argument read.
    pub(crate) fn place(&self) -> usize {
        self.next.saturating_sub(1)
    }

    /// The value of an option as an identifier.
    pub(crate) fn identifier_of(&mut self, option: &[u8]) -> Result<&'a [u8], Refusal> {
        let value = self.value(option)?;
        if (1..=MAX_IDENTIFIER).contains(&value.len()) {
            return Ok(value);
        }
        Err(fault(format!("{} must have 1 to {MAX_IDENTIFIER} bytes, not {}", quoted(option), value.len())))
    }

    /// The value of an option as a whole number.
    pub(crate) fn integer_of(&mut self, option: &[u8]) -> Result<i64, Refusal> {
        let value = self.value(option)?;
        integer(value)
            .ok_or_else(|| fault(format!("{} takes a whole number, not {}", quoted(option), quoted(value))))
    }

    /// A counted list: a number, then so many words.
    pub(crate) fn list(&mut self, what: &[u8]) -> Result<Vec<&'a [u8]>, Refusal> {
        let count = self.integer_of(what)?;
        let left = self.all.get(self.next..).unwrap_or_default();
        let count = usize::try_from(count).ok().filter(|&count| count >= 1);
        let Some(count) = count else {
            return Err(fault(format!("{}: the number of words must be 1 or more", quoted(what))));
        };
        let Some(words) = left.get(..count) else {
            return Err(fault(format!(
                "{}: {count} words are announced and {} follow",
                quoted(what),
                left.len()
            )));
        };
        if let Some(word) = words.iter().find(|word| !(1..=MAX_IDENTIFIER).contains(&word.len())) {
            let what = quoted(what);
            return Err(fault(format!(
                "{what}: each word must have 1 to {MAX_IDENTIFIER} bytes, not {}",
                word.len()
            )));
        }
        self.next += count;
        Ok(words.to_vec())
    }

    /// Whether there is a next argument of that kind.
    pub(crate) fn next_is(&self, kind: impl FnOnce(&[u8]) -> bool) -> bool {
        self.all.get(self.next).is_some_and(|next| kind(next))
    }

    /// Whether the next argument is that word; then it is taken.
    pub(crate) fn takes(&mut self, word: &str) -> bool {
        let found = self.all.get(self.next).is_some_and(|next| is(next, word));
        self.next += usize::from(found);
        found
    }

    /// All arguments left over, which are taken.
    pub(crate) fn rest(&mut self) -> &'a [&'a [u8]] {
        let rest = self.all.get(self.next..).unwrap_or_default();
        self.next = self.all.len();
        rest
    }

    /// Refuses arguments left over.
    pub(crate) fn finish(self) -> Result<(), Refusal> {
        match self.all.get(self.next) {
            None => Ok(()),
            Some(word) => Err(unknown(word)),
        }
    }
}

/// A word that is none of the command's options.
pub(crate) fn unknown(word: &[u8]) -> Refusal {
    fault(format!("syntax error: {} is not expected here", quoted(word)))
}

/// A value that is none of an option's.
pub(crate) fn not_one_of(option: &[u8], value: &[u8], values: &str) -> Refusal {
    fault(format!("{} takes {values}, not {}", quoted(option), quoted(value)))
}

/// Whether an argument is that keyword, in any case.
pub(crate) fn is(argument: &[u8], keyword: &str) -> bool {
    argument.eq_ignore_ascii_case(keyword.as_bytes())
}

/// A whole number as Redis reads one: decimal, no space, no plus, no leading zero.
pub(crate) fn integer(argument: &[u8]) -> Option<i64> {
    let (negative, digits) = match argument.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, argument),
    };
    match *digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    // Downwards, since there is one more number below 0 than above.
    let value = digits.iter().try_fold(0i64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit < 10 { value.checked_mul(10)?.checked_sub(digit.into()) } else { None }
    })?;
    if negative { Some(value) } else { value.checked_neg() }
}
