//! A command: one table entry, from which its documentation (`COMMAND DOCS`), its arity, its key specifications, its
//! ACL categories and the parser of its arguments follow.

use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::text::quoted;
use std::ffi::CStr;

use super::argument::Argument;
use super::parameter::{Kind, Parameter, fewest, has_later_keys};
use super::parse::parse;
use super::syntax::Syntax;
use super::word::{integer, wrong_number};
use crate::ffi::command::{
    ACCESS, ArgumentInfo, ArgumentKind, CommandInfo, Entry, KeyPlace, KeySpec, RO, RW, UPDATE,
};
use crate::ffi::string::Words;
use crate::ffi::{Context, KeyName};

/// The result of a handler: it has replied, or it refuses before it has replied or changed anything.
pub(crate) type Done = Result<(), Refusal>;

/// The table entry of a command. Written with `command!`, which ties it to its handler.
pub(crate) struct Command {
    pub(crate) name: &'static CStr,
    pub(crate) entry: Entry,
    /// The server's flags: `write deny-oom fast` and the like. Without `fast` a command is slow.
    pub(crate) flags: &'static str,
    /// ACL categories in addition to those that follow from the flags.
    pub(crate) also: &'static str,
    /// How the command uses its keys: `REDISMODULE_CMD_KEY_*`.
    pub(crate) keys: u32,
    pub(crate) summary: &'static str,
    pub(crate) complexity: &'static str,
    /// Its parameters in order. Those that begin with a keyword may come in any order among their neighbours.
    pub(crate) parameters: &'static [Parameter],
}

/// A table entry: the documentation of a command, its parameters, and the handler, which takes the arguments of a call
/// in the order of the parameters. The number of parameters is checked at compile time.
///
/// `keys:` is only given for a command that does not read its keys, or does not change them in place. `by: self::handler`
/// instead of `run:` is for a handler that parses the words of the call itself.
macro_rules! command {
    (
        name: $name:literal, $how:ident: $handler:path, flags: $flags:literal, $(also: $also:literal,)?
        $(keys: $keys:expr,)? summary: $summary:literal, complexity: $complexity:literal,
        parameters: [$($parameter:expr),* $(,)?] $(,)?
    ) => {{
        const PARAMETERS: &[$crate::engine::parameter::Parameter] = &[$($parameter),*];
        static SYNTAX: $crate::engine::syntax::Syntax = $crate::engine::syntax::Syntax::of(PARAMETERS);

        #[allow(unsafe_code, reason = "the one shape in which the server calls a command")]
        unsafe extern "C" fn entry(
            ctx: *mut redis_module::raw::RedisModuleCtx,
            argv: *mut *mut redis_module::raw::RedisModuleString,
            argc: std::os::raw::c_int,
        ) -> std::os::raw::c_int {
            // SAFETY: the server calls this with its context and the arguments of a call.
            unsafe {
                $crate::ffi::command::run_command(ctx, argv, argc, &|ctx, words| {
                    let call = $crate::engine::command::Call::new(ctx, words);
                    if const { $crate::engine::parameter::has_later_keys(PARAMETERS) } && ctx.asks_for_keys() {
                        call.tell_keys(&SYNTAX);
                        return Ok(());
                    }
                    $crate::engine::command::command!(@$how call, $handler).map_err(|refusal| refusal.to_string())
                })
            }
        }
        $crate::engine::command::Command {
            name: $name,
            entry,
            flags: $flags,
            also: concat!("", $($also)?),
            keys: $crate::engine::command::command!(@keys $flags $($keys)?),
            summary: $summary,
            complexity: $complexity,
            parameters: PARAMETERS,
        }
    }};
    (@run $call:ident, $handler:path) => {
        {
            let mut arguments = [$crate::engine::argument::Argument::NONE; PARAMETERS.len()];
            $call.parse(&SYNTAX, &mut arguments).and_then(|()| $handler(&$call, &arguments))
        }
    };
    (@by $call:ident, $handler:path) => { $handler(&$call) };
    (@keys $flags:literal) => { $crate::engine::command::usual_keys($flags) };
    (@keys $flags:literal $keys:expr) => { $keys };
}
pub(crate) use command;

/// How a command with these flags uses its keys, unless its entry says otherwise.
pub(crate) const fn usual_keys(flags: &str) -> u32 {
    match flags.as_bytes() {
        [b'w', b'r', ..] => RW | ACCESS | UPDATE,
        _ => RO | ACCESS,
    }
}

impl Command {
    /// The description of the command for the server.
    pub(crate) fn info(&self) -> CommandInfo {
        let writes = self.flags.split(' ').any(|flag| flag == "write");
        let fast = self.flags.split(' ').any(|flag| flag == "fast");
        let categories =
            [if writes { "write" } else { "read" }, if fast { "fast" } else { "slow" }, self.also];
        let (words, exact) = fewest(self.parameters);
        let arity = 1 + words as i32;
        let mut flags = self.flags.to_owned();
        if has_later_keys(self.parameters) {
            flags.push_str(" getkeys-api");
        }
        CommandInfo {
            name: self.name,
            entry: self.entry,
            flags,
            categories: categories.join(" ").trim_end().to_owned(),
            arity: if exact { arity } else { -arity },
            keys: self.key_specs(),
            summary: self.summary,
            complexity: self.complexity,
            since: "0.1.0",
            arguments: documented(self.parameters, &mut 0),
        }
    }

    fn key_specs(&self) -> Vec<KeySpec> {
        let is_key =
            |parameter: &&Parameter| matches!(parameter.kind, Kind::Key) || parameter.is_list_of_keys();
        let keys = self.parameters.iter().filter(is_key);
        let options_from = 1 + self.parameters.iter().take_while(|parameter| !parameter.is_option).count();
        let place = |key: &Parameter| match key.token {
            Some(keyword) => {
                let counted = key.is_list_of_keys();
                KeyPlace::Behind { keyword, from: options_from as i32, counted }
            }
            None if key.many => KeyPlace::Counted,
            None => KeyPlace::First,
        };
        keys.map(|key| KeySpec { place: place(key), flags: self.keys }).collect()
    }
}

/// Parameters in the form of `COMMAND DOCS`. A count and its list without a keyword in front are two arguments. `keys`
/// counts the keys and lists of keys, each of which has a specification.
fn documented(parameters: &[Parameter], keys: &mut i32) -> Vec<ArgumentInfo> {
    let mut arguments = Vec::new();
    for parameter in parameters {
        match parameter.kind {
            Kind::Counted(inner) if parameter.token.is_none() => arguments.extend(documented(inner, keys)),
            _ => arguments.push(argument(parameter, keys)),
        }
    }
    arguments
}

fn argument(parameter: &Parameter, keys: &mut i32) -> ArgumentInfo {
    let kind = match parameter.kind {
        Kind::Counted(inner) => ArgumentKind::Block(documented(inner, keys)),
        Kind::Block(inner) => ArgumentKind::Block(documented(inner, keys)),
        Kind::OneOf(inner) => ArgumentKind::OneOf(inner.iter().map(|one| argument(one, keys)).collect()),
        Kind::Key => {
            *keys += 1;
            ArgumentKind::Key(*keys - 1)
        }
        Kind::Text | Kind::Name | Kind::Like(..) => ArgumentKind::String,
        Kind::Integer | Kind::Natural => ArgumentKind::Integer,
        Kind::Word => ArgumentKind::Word,
    };
    let &Parameter { name, token, optional, many, .. } = parameter;
    ArgumentInfo { name, kind, token, optional, many }
}

/// One call of a command.
pub(crate) struct Call<'a> {
    pub(crate) ctx: Context<'a>,
    words: Words<'a>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(ctx: Context<'a>, words: Words<'a>) -> Self {
        Self { ctx, words }
    }

    /// Reads the arguments of this call, parameter by parameter.
    pub(crate) fn parse(&self, syntax: &'static Syntax, arguments: &mut [Argument<'a>]) -> Done {
        parse(syntax, self.words(), arguments)
    }

    /// Tells the server which arguments are keys. A call whose words cannot be read has the first argument as its only
    /// key, and is refused when it runs.
    pub(crate) fn tell_keys(&self, syntax: &'static Syntax) {
        match syntax.parameters {
            [_, Parameter { kind: Kind::Key, many: true, .. }, ..] => self.tell_counted_keys(),
            _ => self.tell_keys_by_name(syntax),
        }
    }

    /// The first argument says how many keys follow it.
    fn tell_counted_keys(&self) {
        let count =
            self.words().get(1).and_then(|word| integer(word)).and_then(|count| usize::try_from(count).ok());
        let end = count.and_then(|count| count.checked_add(2)).filter(|&end| end <= self.words().len());
        (2..end.unwrap_or(2)).for_each(|place| self.ctx.key_is_at(place));
    }

    fn tell_keys_by_name(&self, syntax: &'static Syntax) {
        let parameters = syntax.parameters;
        let mut arguments = vec![Argument::NONE; parameters.len()];
        if parse(syntax, self.words(), &mut arguments).is_err() {
            self.ctx.key_is_at(1);
            return;
        }
        for (parameter, argument) in parameters.iter().zip(&arguments).filter(|(_, given)| given.is_given()) {
            match parameter.kind {
                Kind::Key => argument.place_of_key().into_iter().for_each(|place| self.ctx.key_is_at(place)),
                _ if parameter.is_list_of_keys() => {
                    argument.places_of_keys().for_each(|place| self.ctx.key_is_at(place));
                }
                _ => {}
            }
        }
    }

    /// The key, and those of these lists, all different.
    ///
    /// # Errors
    /// A key is named twice.
    pub(crate) fn keys_with(&self, lists: &[&Argument<'_>]) -> Result<Vec<KeyName<'a>>, Refusal> {
        let mut names = vec![self.key()?];
        for place in lists.iter().flat_map(|list| list.places_of_keys()) {
            let name = self.key_at(place)?;
            if names.iter().any(|other| other.as_bytes() == name.as_bytes()) {
                let text = format!("key {} is named twice", quoted(name.as_bytes()));
                return Err(Refusal::new(Code::Err, text));
            }
            names.push(name);
        }
        Ok(names)
    }

    /// The key, for commands whose key is the first argument.
    pub(crate) fn key(&self) -> Result<KeyName<'a>, Refusal> {
        self.key_at(1)
    }

    /// The word at this place, as the name of a key.
    pub(crate) fn key_at(&self, place: usize) -> Result<KeyName<'a>, Refusal> {
        self.words.name(place).ok_or_else(|| wrong_number(self.words()))
    }

    /// All words, the command's name included.
    pub(crate) fn words(&self) -> &'a [&'a [u8]] {
        self.words.bytes()
    }
}
