//! How a command is registered, documented and called.

use redis_module::raw::{
    self, RedisModuleCommandArg, RedisModuleCommandArgType, RedisModuleCommandInfo,
    RedisModuleCommandInfoVersion, RedisModuleCommandKeySpec, RedisModuleCtx, RedisModuleString,
};
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::raw::{c_char, c_int};
use std::ptr::null;

use super::api::api;
use super::context::Context;
use super::guard::guard;
use super::register::{Registration, done};
use super::string::{Words, bytes_of};

pub(crate) use redis_module::raw::{
    REDISMODULE_CMD_KEY_ACCESS as ACCESS, REDISMODULE_CMD_KEY_DELETE as DELETE,
    REDISMODULE_CMD_KEY_INSERT as INSERT, REDISMODULE_CMD_KEY_RO as RO, REDISMODULE_CMD_KEY_RW as RW,
    REDISMODULE_CMD_KEY_UPDATE as UPDATE,
};

/// The function that the server calls for a command.
pub(crate) type Entry =
    unsafe extern "C" fn(*mut RedisModuleCtx, *mut *mut RedisModuleString, c_int) -> c_int;

/// The description of a command for the server.
pub(crate) struct CommandInfo {
    pub(crate) name: &'static CStr,
    pub(crate) entry: Entry,
    /// The server's flags: `write deny-oom fast` and the like.
    pub(crate) flags: String,
    /// ACL categories, on servers that have them for modules.
    pub(crate) categories: String,
    /// Number of arguments, the name included; negative: at least so many.
    pub(crate) arity: c_int,
    pub(crate) keys: Vec<KeySpec>,
    pub(crate) summary: &'static str,
    pub(crate) complexity: &'static str,
    pub(crate) since: &'static str,
    pub(crate) arguments: Vec<ArgumentInfo>,
}

/// The places of keys, and how the command uses them.
pub(crate) struct KeySpec {
    pub(crate) place: KeyPlace,
    /// `REDISMODULE_CMD_KEY_*`.
    pub(crate) flags: u32,
}

pub(crate) enum KeyPlace {
    /// The first argument.
    First,
    /// The first argument is the number of keys; the keys follow.
    Counted,
    /// After a keyword, which the server searches from this place on; with their number before them if they are counted.
    Behind { keyword: &'static str, from: c_int, counted: bool },
}

/// An argument in the documentation.
pub(crate) struct ArgumentInfo {
    pub(crate) name: &'static str,
    pub(crate) kind: ArgumentKind,
    /// The keyword before it.
    pub(crate) token: Option<&'static str>,
    pub(crate) optional: bool,
    pub(crate) many: bool,
}

pub(crate) enum ArgumentKind {
    /// A key, with the number of its key specification.
    Key(c_int),
    String,
    Integer,
    /// Only a keyword.
    Word,
    Block(Vec<ArgumentInfo>),
    OneOf(Vec<ArgumentInfo>),
}

/// Calls with at most so many words, their names included, take no memory for the list of them.
const FEW_WORDS: usize = 16;

/// Handles a call of a command: replies, or returns the line of an error.
type Run<'r> = dyn Fn(Context<'_>, Words<'_>) -> Result<(), String> + 'r;

/// Runs a command: hands its arguments to `run`, and replies the error line that `run` may return.
///
/// # Safety
/// Called by the server with its context and arguments.
// One function for all commands: the processor's instruction cache is the limit of a request.
pub(crate) unsafe fn run_command(
    ctx: *mut RedisModuleCtx,
    argv: *mut *mut RedisModuleString,
    argc: c_int,
    run: &Run<'_>,
) -> c_int {
    // SAFETY: the server lends its context for this call.
    let ctx = unsafe { Context::lent(ctx) };
    // SAFETY: the server hands over so many arguments, the command's name first.
    let strings: &[*mut RedisModuleString] =
        unsafe { std::slice::from_raw_parts(argv, argc.max(0) as usize) };
    let outcome = guard(None, || {
        let mut few = [const { MaybeUninit::uninit() }; FEW_WORDS];
        let mut many = Vec::new();
        let places = if let Some(few) = few.get_mut(..strings.len()) {
            few
        } else {
            many.resize_with(strings.len(), MaybeUninit::uninit);
            &mut many[..]
        };
        for (place, &string) in places.iter_mut().zip(strings) {
            // SAFETY: the arguments live until the call is over.
            place.write(unsafe { bytes_of(string) });
        }
        // SAFETY: there is a place for each string, and all were written.
        let words: &[&[u8]] = unsafe { std::slice::from_raw_parts(places.as_ptr().cast(), places.len()) };
        // SAFETY: the bytes are those of the strings.
        Some(run(ctx, unsafe { Words::lent(strings, words) }))
    });
    match outcome {
        Some(Ok(())) => {}
        Some(Err(line)) => ctx.reply_error(&line),
        None => ctx.reply_error("ERR internal error in allot; please report it with the server's log"),
    }
    raw::REDISMODULE_OK as c_int
}

impl Registration {
    /// Registers a command, its documentation, and on servers that have them its ACL categories.
    pub(crate) fn command(&self, command: &CommandInfo) -> Option<()> {
        // SAFETY: the context is that of the load. The server copies the texts and lists, which live until the end of this
        // function; all zero is the end of a list, and documentation of nothing.
        unsafe {
            // Servers that do not read key specifications know only the first key.
            let place =
                c_int::from(!matches!(command.keys.first().map(|key| &key.place), Some(KeyPlace::Counted)));
            let flags = CString::new(command.flags.as_str()).ok()?;
            let name = command.name.as_ptr();
            let entry = Some(command.entry);
            done(api!(RedisModule_CreateCommand(
                self.ctx,
                name,
                entry,
                flags.as_ptr(),
                place,
                place,
                place
            )))?;
            let registered = api!(RedisModule_GetCommand(self.ctx, name));
            if let Some(set_categories) = raw::RedisModule_SetCommandACLCategories {
                let categories = CString::new(command.categories.as_str()).ok()?;
                done(set_categories(registered, categories.as_ptr()))?;
            }
            let mut texts = Texts::default();
            let mut specs: Vec<RedisModuleCommandKeySpec> =
                command.keys.iter().map(|key| texts.key_spec(key)).collect();
            // An entry of zeros ends the list.
            specs.push(std::mem::zeroed());
            let version = RedisModuleCommandInfoVersion {
                version: 1,
                sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
                sizeof_keyspec: size_of::<RedisModuleCommandKeySpec>(),
                sizeof_arg: size_of::<RedisModuleCommandArg>(),
            };
            let mut documentation: RedisModuleCommandInfo = std::mem::zeroed();
            documentation.version = &raw const version;
            documentation.summary = texts.text(command.summary);
            documentation.complexity = texts.text(command.complexity);
            documentation.since = texts.text(command.since);
            documentation.arity = command.arity;
            documentation.key_specs = specs.as_mut_ptr();
            documentation.args = texts.arguments(&command.arguments);
            done(api!(RedisModule_SetCommandInfo(registered, &raw const documentation)))
        }
    }
}

/// Owns the data of a command's documentation while the server copies it.
#[derive(Default)]
struct Texts {
    texts: Vec<CString>,
    lists: Vec<Box<[RedisModuleCommandArg]>>,
}

impl Texts {
    fn text(&mut self, text: &str) -> *const c_char {
        let text = CString::new(text).unwrap_or_default();
        let pointer = text.as_ptr();
        self.texts.push(text);
        pointer
    }

    /// A list of arguments, ended by one without a name.
    fn arguments(&mut self, arguments: &[ArgumentInfo]) -> *mut RedisModuleCommandArg {
        let mut list = Vec::with_capacity(arguments.len() + 1);
        for argument in arguments {
            // SAFETY: all zero is an argument without anything.
            let mut raw: RedisModuleCommandArg = unsafe { std::mem::zeroed() };
            raw.name = self.text(argument.name);
            raw.type_ = type_of(&argument.kind);
            raw.key_spec_index = if let ArgumentKind::Key(spec) = argument.kind { spec } else { -1 };
            raw.token = argument.token.map_or(null(), |token| self.text(token));
            let optional = if argument.optional { raw::REDISMODULE_CMD_ARG_OPTIONAL } else { 0 };
            let many = if argument.many { raw::REDISMODULE_CMD_ARG_MULTIPLE } else { 0 };
            raw.flags = (optional | many) as c_int;
            if let ArgumentKind::Block(inner) | ArgumentKind::OneOf(inner) = &argument.kind {
                raw.subargs = self.arguments(inner);
            }
            list.push(raw);
        }
        // SAFETY: as above.
        list.push(unsafe { std::mem::zeroed() });
        let mut list = list.into_boxed_slice();
        let pointer = list.as_mut_ptr();
        self.lists.push(list);
        pointer
    }

    fn key_spec(&mut self, key: &KeySpec) -> RedisModuleCommandKeySpec {
        // SAFETY: all zero is a specification of nothing, and every field that its kind reads is filled below.
        let mut spec: RedisModuleCommandKeySpec = unsafe { std::mem::zeroed() };
        spec.flags = u64::from(key.flags);
        spec.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
        spec.bs.index.pos = 1;
        spec.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
        spec.fk.range.lastkey = 0;
        spec.fk.range.keystep = 1;
        spec.fk.range.limit = 0;
        match key.place {
            KeyPlace::First => {}
            KeyPlace::Counted => spec_of_counted(&mut spec),
            KeyPlace::Behind { keyword, from, counted } => {
                if counted {
                    spec_of_counted(&mut spec);
                }
                spec.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_KEYWORD;
                spec.bs.keyword.keyword = self.text(keyword);
                spec.bs.keyword.startfrom = from;
            }
        }
        spec
    }
}

/// The keys follow their number.
fn spec_of_counted(spec: &mut RedisModuleCommandKeySpec) {
    spec.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_KEYNUM;
    spec.fk.keynum.keynumidx = 0;
    spec.fk.keynum.firstkey = 1;
    spec.fk.keynum.keystep = 1;
}

fn type_of(kind: &ArgumentKind) -> RedisModuleCommandArgType {
    match kind {
        ArgumentKind::Key(_) => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY,
        ArgumentKind::String => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING,
        ArgumentKind::Integer => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER,
        ArgumentKind::Word => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN,
        ArgumentKind::Block(_) => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK,
        ArgumentKind::OneOf(_) => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF,
    }
}
