//! The `ACCOUNT.*` commands as the server registers and documents them.

use redis_module::raw::{
    REDISMODULE_CMD_KEY_ACCESS as ACCESS, REDISMODULE_CMD_KEY_RO as RO, REDISMODULE_CMD_KEY_RW as RW,
    REDISMODULE_CMD_KEY_UPDATE as UPDATE,
};

use super::{inventory, reads, writes};
use crate::command::{Arg, Command, Keys, Kind, entry};

const KEY: Arg = Arg::new("key", Kind::Key);
const MODULE: Arg = Arg::new("module", Kind::String);
const INSTANCE: Arg = Arg::new("instance", Kind::String);
const ACCOUNT: Arg = Arg::new("account", Kind::String);
const ACCOUNTS: Arg = Arg::new("account", Kind::String).many();
const NUMBER: Arg = Arg::new("n", Kind::Integer);
const EPOCH: Arg = Arg::new("epoch", Kind::Integer);
const TERM: Arg = Arg::new("term", Kind::Integer).after("TERM").maybe();
const TTL: Arg = Arg::new("milliseconds", Kind::Integer).after("TTL");
const COUNT: Arg = Arg::new("n", Kind::Integer).after("COUNT").maybe();
const CURSOR: Arg = Arg::new("cursor", Kind::Integer).after("CURSOR").maybe();

/// An optional number behind its word.
const fn integer(name: &'static str, token: &'static str) -> Arg {
    Arg::new(name, Kind::Integer).after(token).maybe()
}

/// What all of the family's commands have in common.
const COMMON: Command = Command {
    name: c"",
    entry: entry!(writes::attach),
    flags: "write",
    categories: "write slow",
    arity: -2,
    keys: Keys::First,
    key_flags: RW | ACCESS | UPDATE,
    summary: "",
    complexity: "O(log N) with N accounts",
    arguments: &[],
};

/// A command of those who work with accounts.
const FAST: Command = Command {
    flags: "write fast",
    categories: "write fast",
    complexity: "O(log N) with N accounts; O(M log M) with M accounts of the instance, the first time in a month",
    ..COMMON
};

/// A command that only looks.
const READ: Command =
    Command { flags: "readonly", categories: "read slow", key_flags: RO | ACCESS, ..COMMON };

/// Every command of the family.
pub(crate) static COMMANDS: &[Command] = &[
    Command {
        name: c"ACCOUNT.BOOK",
        entry: entry!(inventory::book),
        flags: "write deny-oom",
        summary: "Makes a book of accounts, or changes its settings; replies its record",
        complexity: "O(1)",
        arguments: &[
            KEY,
            integer("n", "CAP"),
            integer("milliseconds", "DWELL"),
            integer("n", "MAXMOVES"),
            Arg::new("turn", Kind::Integer).after("TURNS").maybe().many(),
        ],
        ..COMMON
    },
    Command {
        name: c"ACCOUNT.TERM",
        entry: entry!(inventory::claim),
        arity: -4,
        summary: "Claims the book for an elected leader; a lower term is refused",
        complexity: "O(1)",
        arguments: &[
            KEY,
            Arg::new("term", Kind::Integer),
            Arg::new("leader", Kind::String),
            Arg::word("force", "FORCE").maybe(),
        ],
        ..COMMON
    },
    Command {
        name: c"ACCOUNT.MODULE",
        entry: entry!(inventory::module),
        flags: "write deny-oom",
        arity: -7,
        summary: "Defines a module, or changes it; replies its record",
        complexity: "O(N) with N instances",
        arguments: &[
            KEY,
            MODULE,
            Arg::new("department", Kind::String).after("DEPARTMENT"),
            Arg::new("n", Kind::Integer).after("INSTANCES"),
            integer("weight", "WEIGHT"),
            integer("n", "RESERVE"),
            TERM,
        ],
        ..COMMON
    },
    Command {
        name: c"ACCOUNT.ADD",
        entry: entry!(inventory::add),
        flags: "write deny-oom",
        arity: -8,
        summary: "Adds accounts to a module, or with * distributes them over the modules by weight",
        complexity: "O(N log M) with N accounts named and M in the book",
        arguments: &[
            KEY,
            MODULE,
            Arg::new("n", Kind::Integer).after("QUOTA"),
            Arg::new(
                "tiers",
                Kind::Block(&[
                    NUMBER,
                    Arg::new(
                        "tier",
                        Kind::Block(&[Arg::new("upto", Kind::Integer), Arg::new("price", Kind::String)]),
                    )
                    .many(),
                ]),
            )
            .after("TIERS")
            .maybe(),
            Arg::new("accounts", Kind::Block(&[NUMBER, ACCOUNTS])).after("ACCOUNTS"),
            TERM,
        ],
        ..COMMON
    },
    Command {
        name: c"ACCOUNT.DEL",
        entry: entry!(inventory::del),
        arity: -4,
        summary: "Deletes accounts; those that somebody is logged in with as soon as nobody is",
        complexity: "O(N log M) with N accounts named and M in the book",
        arguments: &[KEY, NUMBER, ACCOUNTS, TERM],
        ..COMMON
    },
    Command {
        name: c"ACCOUNT.MOVE",
        entry: entry!(inventory::move_to),
        arity: -5,
        summary: "Moves accounts to another module; those that somebody is logged in with as soon as nobody is",
        complexity: "O(N log M) with N accounts named and M in the book",
        arguments: &[KEY, MODULE, NUMBER, ACCOUNTS, TERM],
        ..COMMON
    },
    Command {
        name: c"ACCOUNT.FREEZE",
        entry: entry!(inventory::freeze),
        arity: -3,
        summary: "Notes that the platform froze an account, which is replaced at once; OFF: it can be used again",
        arguments: &[KEY, ACCOUNT, Arg::word("off", "OFF").maybe(), TERM],
        ..COMMON
    },
    Command {
        name: c"ACCOUNT.ATTACH",
        entry: entry!(writes::attach),
        flags: "write deny-oom",
        arity: -4,
        summary: "An instance comes, or is back: it gets its share, or stands by; replies its record",
        complexity: "O(N log M) with N accounts dealt and M in the book",
        arguments: &[KEY, MODULE, INSTANCE, TERM],
        ..COMMON
    },
    Command {
        name: c"ACCOUNT.DETACH",
        entry: entry!(writes::detach),
        arity: -4,
        summary: "An instance goes: its accounts wait for it, then are dealt to the others",
        complexity: "O(N log M) with N accounts dealt and M in the book",
        arguments: &[KEY, MODULE, INSTANCE, integer("milliseconds", "GRACE"), TERM],
        ..COMMON
    },
    Command {
        name: c"ACCOUNT.LOGIN",
        entry: entry!(writes::login),
        flags: "write deny-oom fast",
        arity: 7,
        summary: "Logs in with an account, exclusively and until a deadline; replies epoch and deadline",
        arguments: &[KEY, ACCOUNT, INSTANCE, Arg::new("terminal", Kind::String), TTL],
        ..FAST
    },
    Command {
        name: c"ACCOUNT.RENEW",
        entry: entry!(writes::renew),
        arity: 6,
        summary: "Puts a login's deadline off",
        arguments: &[KEY, ACCOUNT, EPOCH, TTL],
        ..FAST
    },
    Command {
        name: c"ACCOUNT.LOGOUT",
        entry: entry!(writes::logout),
        arity: -4,
        summary: "Ends a login by its epoch, or gives a revoked account back by that of its deal; BACK: one that is dealt",
        arguments: &[KEY, ACCOUNT, EPOCH, Arg::word("back", "BACK").maybe(), TERM],
        ..FAST
    },
    Command {
        name: c"ACCOUNT.USE",
        entry: entry!(writes::usage),
        arity: -4,
        summary: "Counts instructions before they are sent; replies what is used and left, and what it costs",
        arguments: &[KEY, ACCOUNT, EPOCH, COUNT],
        ..FAST
    },
    Command {
        name: c"ACCOUNT.PICK",
        entry: entry!(reads::pick),
        flags: "readonly fast",
        categories: "read fast",
        arity: -4,
        summary: "Which accounts of an instance to use now: most left at the flat price, nobody logged in",
        complexity: "O(log N + C) with N accounts and C picked; O(A log A) with A of the instance until it is first worked with in a month",
        arguments: &[KEY, MODULE, INSTANCE, COUNT],
        ..READ
    },
    Command {
        name: c"ACCOUNT.REBALANCE",
        entry: entry!(writes::rebalance),
        arity: -2,
        summary: "Moves accounts to where they will be needed by the end of the month",
        complexity: "O(N) with N accounts",
        arguments: &[KEY, Arg::word("dryrun", "DRYRUN").maybe(), integer("n", "MAXMOVES"), TERM],
        ..COMMON
    },
    Command {
        name: c"ACCOUNT.INFO",
        entry: entry!(reads::info),
        arity: -2,
        summary: "The record of the book, of a module, or of an account",
        complexity: "O(1); O(N) with N instances for a module",
        arguments: &[
            KEY,
            Arg::new(
                "name",
                Kind::OneOf(&[
                    MODULE.after("MODULE"),
                    ACCOUNT.after("ACCOUNT"),
                    Arg::new("module-or-account", Kind::String),
                ]),
            )
            .maybe(),
        ],
        ..READ
    },
    Command {
        name: c"ACCOUNT.LIST",
        entry: entry!(reads::list),
        arity: -2,
        summary: "Lists accounts of the book, of a module or of an instance",
        complexity: "O(N) with N accounts passed over",
        arguments: &[
            KEY,
            MODULE.after("MODULE").maybe(),
            INSTANCE.after("INSTANCE").maybe(),
            Arg::new("state", Kind::String).after("STATE").maybe(),
            CURSOR,
            COUNT,
        ],
        ..READ
    },
    Command {
        name: c"ACCOUNT.USAGE",
        entry: entry!(reads::usage),
        arity: -2,
        summary: "Use and cost of a month by department, module or account",
        complexity: "O(M) with M modules and instances; by account O(C) with C of them; of a past month O(N) with N accounts",
        arguments: &[
            KEY,
            Arg::new(
                "by",
                Kind::OneOf(&[
                    Arg::word("department", "DEPARTMENT"),
                    Arg::word("module", "MODULE"),
                    Arg::word("account", "ACCOUNT"),
                ]),
            )
            .after("BY")
            .maybe(),
            integer("months", "AGO"),
            CURSOR,
            COUNT,
        ],
        ..READ
    },
    Command {
        name: c"ACCOUNT.HISTORY",
        entry: entry!(reads::history),
        arity: 3,
        summary: "Who held an account when",
        complexity: "O(1)",
        arguments: &[KEY, ACCOUNT],
        ..READ
    },
    Command {
        name: c"ACCOUNT.APPLY",
        entry: entry!(writes::apply),
        categories: "write slow dangerous",
        arity: 3,
        key_flags: RW | UPDATE,
        summary: "Internal: carries what a master decided to replicas and the AOF",
        complexity: "O(N log M) with N accounts of the events and M in the book",
        arguments: &[KEY, Arg::new("payload", Kind::String)],
        ..COMMON
    },
];
