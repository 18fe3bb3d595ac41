//! A command: one table entry, from which its documentation (`COMMAND DOCS`), its arity, its key specifications, its ACL
//! categories and the parser of its arguments follow.

use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::text::quoted;
use std::ffi::CStr;

use super::parse::{Argument, parse};
use crate::ffi::command::{ArgumentInfo, ArgumentKind, CommandInfo, Entry, KeyPlace, KeySpec};
use crate::ffi::string::Names;
use crate::ffi::{Context, KeyName};

/// What a handler returns: it has replied, or refuses before it has replied or changed anything.
pub(crate) type Done = Result<(), Refusal>;

/// The table entry of a command. Written with `command!`, which ties it to its handler.
pub(crate) struct Command {
    pub(crate) name: &'static CStr,
    pub(crate) entry: Entry,
    /// The server's flags: `write deny-oom fast` and the like. Without `fast` a command is slow.
    pub(crate) flags: &'static str,
    /// ACL categories beyond those that follow from the flags.
    pub(crate) also: &'static str,
    /// What the command does with its keys: `REDISMODULE_CMD_KEY_*`.
    pub(crate) keys: u32,
    pub(crate) summary: &'static str,
    pub(crate) complexity: &'static str,
    /// Its parameters in order. Those that begin with a keyword may come in any order among their neighbours.
    pub(crate) parameters: &'static [Parameter],
}

/// What may be given in a call.
#[derive(Clone, Copy)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The keyword before it.
    pub(crate) token: Option<&'static str>,
    pub(crate) optional: bool,
    /// Whether it may be repeated.
    pub(crate) many: bool,
    /// Whether its keyword must be at its place, and not just anywhere among its neighbours.
    pub(crate) in_place: bool,
    /// The message where it, or the second word of a pair, is missing; empty: a plain one.
    pub(crate) missing: &'static str,
}

/// What the words of a parameter are.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Key,
    /// Any bytes.
    Text,
    /// An identifier: 1 to 256 bytes.
    Name,
    /// Text of a form by which it can be told from a keyword, and that form in words. The handler checks it in full.
    Like(fn(&[u8]) -> bool, &'static str),
    /// A whole number that fits 64 bits.
    Integer,
    /// A whole number from 0 to 2^53: an epoch, a sequence number, a term, a cursor.
    Natural,
    /// A keyword that is all there is of it.
    Word,
    /// Several in a row.
    Block(&'static [Parameter]),
    /// How many, then so many of the second. Where the second is optional there may be none.
    Counted(&'static [Parameter; 2]),
    /// One of several.
    OneOf(&'static [Parameter]),
}

impl Parameter {
    pub(crate) const fn new(name: &'static str, kind: Kind) -> Self {
        let (token, optional, many, in_place, missing) = (None, false, false, false, "");
        Self { name, kind, token, optional, many, in_place, missing }
    }

    pub(crate) const fn key(name: &'static str) -> Self {
        Self::new(name, Kind::Key)
    }

    pub(crate) const fn text(name: &'static str) -> Self {
        Self::new(name, Kind::Text)
    }

    pub(crate) const fn name(name: &'static str) -> Self {
        Self::new(name, Kind::Name)
    }

    pub(crate) const fn integer(name: &'static str) -> Self {
        Self::new(name, Kind::Integer)
    }

    pub(crate) const fn natural(name: &'static str) -> Self {
        Self::new(name, Kind::Natural)
    }

    /// A keyword that is all there is of the parameter.
    pub(crate) const fn word(name: &'static str, token: &'static str) -> Self {
        Self::new(name, Kind::Word).after(token)
    }

    pub(crate) const fn block(name: &'static str, parameters: &'static [Self]) -> Self {
        Self::new(name, Kind::Block(parameters))
    }

    pub(crate) const fn counted(name: &'static str, parameters: &'static [Self; 2]) -> Self {
        Self::new(name, Kind::Counted(parameters))
    }

    pub(crate) const fn one_of(name: &'static str, parameters: &'static [Self]) -> Self {
        Self::new(name, Kind::OneOf(parameters))
    }

    /// Behind that keyword.
    pub(crate) const fn after(self, token: &'static str) -> Self {
        Self { token: Some(token), ..self }
    }

    pub(crate) const fn optional(self) -> Self {
        Self { optional: true, ..self }
    }

    /// Any number of times; at least once, unless it is optional.
    pub(crate) const fn many(self) -> Self {
        Self { many: true, ..self }
    }

    /// With its keyword at just that place.
    pub(crate) const fn in_place(self) -> Self {
        Self { in_place: true, ..self }
    }

    /// With that message where it is missing.
    pub(crate) const fn or_error(self, missing: &'static str) -> Self {
        Self { missing, ..self }
    }

    /// The fewest words that it takes, and whether it never takes more.
    pub(crate) fn fewest(&self) -> (usize, bool) {
        if self.optional {
            return (0, false);
        }
        let (words, exact) = match self.kind {
            Kind::Word => (0, true),
            Kind::Block(inner) => fewest(inner),
            Kind::Counted(inner) => (fewest(inner).0, false),
            Kind::OneOf(inner) => {
                let words = inner.iter().map(|one| one.fewest().0);
                let (few, most) = (words.clone().min().unwrap_or(0), words.max().unwrap_or(0));
                (few, few == most && inner.iter().all(|one| one.fewest().1))
            }
            _ => (1, true),
        };
        (words + usize::from(self.token.is_some()), exact && !self.many)
    }
}

/// The fewest words that several take together, and whether they never take more.
pub(crate) fn fewest(parameters: &[Parameter]) -> (usize, bool) {
    let all = parameters.iter().map(Parameter::fewest);
    all.fold((0, true), |(sum, exact), (words, one_exact)| (sum + words, exact && one_exact))
}

/// A table entry: what the server and its users are told of a command, its parameters, and the handler, which takes the
/// arguments of a call in the order of the parameters. How many they are is checked at compile time.
///
/// `by: self::handler` instead of `run:` is for a handler that reads its words itself.
macro_rules! command {
    (
        name: $name:literal, $how:ident: $handler:path, flags: $flags:literal, $(also: $also:literal,)?
        keys: $keys:expr, summary: $summary:literal, complexity: $complexity:literal,
        parameters: [$($parameter:expr),* $(,)?] $(,)?
    ) => {{
        const PARAMETERS: &[$crate::engine::command::Parameter] = &[$($parameter),*];

        #[allow(unsafe_code, reason = "the one shape in which the server calls a command")]
        unsafe extern "C" fn entry(
            ctx: *mut redis_module::raw::RedisModuleCtx,
            argv: *mut *mut redis_module::raw::RedisModuleString,
            argc: std::os::raw::c_int,
        ) -> std::os::raw::c_int {
            unsafe {
                $crate::ffi::command::run_command(ctx, argv, argc, |ctx, words, names| {
                    let call = $crate::engine::command::Call::new(ctx, words, names);
                    $crate::engine::command::command!(@$how call, $handler).map_err(|refusal| refusal.to_string())
                })
            }
        }
        $crate::engine::command::Command {
            name: $name,
            entry,
            flags: $flags,
            also: concat!("", $($also)?),
            keys: $keys,
            summary: $summary,
            complexity: $complexity,
            parameters: PARAMETERS,
        }
    }};
    (@run $call:ident, $handler:path) => {
        $call.arguments::<{ PARAMETERS.len() }>(PARAMETERS).and_then(|arguments| $handler(&$call, arguments))
    };
    (@by $call:ident, $handler:path) => { $handler(&$call) };
}
pub(crate) use command;

impl Command {
    /// What the server is told.
    pub(crate) fn info(&self) -> CommandInfo {
        let writes = self.flags.split(' ').any(|flag| flag == "write");
        let fast = self.flags.split(' ').any(|flag| flag == "fast");
        let categories =
            [if writes { "write" } else { "read" }, if fast { "fast" } else { "slow" }, self.also];
        let (words, exact) = fewest(self.parameters);
        let arity = 1 + words as i32;
        CommandInfo {
            name: self.name,
            entry: self.entry,
            flags: self.flags.to_owned(),
            categories: categories.join(" ").trim_end().to_owned(),
            arity: if exact { arity } else { -arity },
            keys: self.key_specs(),
            summary: self.summary,
            complexity: self.complexity,
            since: "0.1.0",
            arguments: documented(self.parameters),
        }
    }

    fn key_specs(&self) -> Vec<KeySpec> {
        let keys = self.parameters.iter().filter(|parameter| matches!(parameter.kind, Kind::Key));
        let options_from = 1 + self.parameters.iter().take_while(|parameter| !parameter.is_option()).count();
        let place = |key: &Parameter| match key.token {
            Some(keyword) => KeyPlace::Behind { keyword, from: options_from as i32 },
            None if key.many => KeyPlace::Counted,
            None => KeyPlace::First,
        };
        keys.map(|key| KeySpec { place: place(key), flags: self.keys }).collect()
    }
}

/// Parameters as `COMMAND DOCS` tells them.
fn documented(parameters: &[Parameter]) -> Vec<ArgumentInfo> {
    let mut documented_ones = Vec::new();
    for parameter in parameters {
        let kind = match parameter.kind {
            // The count and the list are two arguments where no keyword holds them together.
            Kind::Counted(inner) if parameter.token.is_none() => {
                documented_ones.extend(documented(inner));
                continue;
            }
            Kind::Counted(inner) => ArgumentKind::Block(documented(inner)),
            Kind::Block(inner) => ArgumentKind::Block(documented(inner)),
            Kind::OneOf(inner) => ArgumentKind::OneOf(documented(inner)),
            Kind::Key => ArgumentKind::Key(i32::from(parameter.token.is_some())),
            Kind::Text | Kind::Name | Kind::Like(..) => ArgumentKind::String,
            Kind::Integer | Kind::Natural => ArgumentKind::Integer,
            Kind::Word => ArgumentKind::Word,
        };
        let &Parameter { name, token, optional, many, .. } = parameter;
        documented_ones.push(ArgumentInfo { name, kind, token, optional, many });
    }
    documented_ones
}

/// One call of a command.
pub(crate) struct Call<'a> {
    pub(crate) ctx: Context<'a>,
    words: &'a [&'a [u8]],
    names: Names<'a>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(ctx: Context<'a>, words: &'a [&'a [u8]], names: Names<'a>) -> Self {
        Self { ctx, words, names }
    }

    /// The arguments of this call, parameter by parameter.
    pub(crate) fn arguments<const N: usize>(
        &self,
        parameters: &'static [Parameter],
    ) -> Result<[Argument<'a>; N], Refusal> {
        let mut arguments = [Argument::NONE; N];
        parse(parameters, self.words, &mut arguments)?;
        Ok(arguments)
    }

    /// The key, for commands whose key is the first argument.
    pub(crate) fn key(&self) -> Result<KeyName<'a>, Refusal> {
        self.key_at(1)
    }

    /// The word at that place as the name of a key.
    pub(crate) fn key_at(&self, place: usize) -> Result<KeyName<'a>, Refusal> {
        self.names.get(place).ok_or_else(|| wrong_number(self.words))
    }

    /// All words, the command's name included.
    pub(crate) fn words(&self) -> &'a [&'a [u8]] {
        self.words
    }
}

/// A refusal because words are missing.
pub(crate) fn wrong_number(words: &[&[u8]]) -> Refusal {
    let command = String::from_utf8_lossy(words.first().copied().unwrap_or_default()).to_lowercase();
    Refusal::new(Code::Err, format!("wrong number of arguments for {} command", quoted(command)))
}
