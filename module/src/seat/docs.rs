//! The `SEAT.*` commands as the server registers and documents them.

use redis_module::raw::{
    REDISMODULE_CMD_KEY_ACCESS as ACCESS, REDISMODULE_CMD_KEY_DELETE as DELETE,
    REDISMODULE_CMD_KEY_INSERT as INSERT, REDISMODULE_CMD_KEY_RO as RO, REDISMODULE_CMD_KEY_RW as RW,
    REDISMODULE_CMD_KEY_UPDATE as UPDATE,
};

use super::{reads, writes, zmpop};
use crate::command::{Arg, Command, Keys, Kind, entry};

const KEY: Arg = Arg::new("key", Kind::Key);
const USER: Arg = Arg::new("user", Kind::String);
const TOKEN: Arg = Arg::new("token", Kind::String);
const TTL: Arg = Arg::new("milliseconds", Kind::Integer).after("TTL");
const COUNT: Arg = Arg::new("n", Kind::Integer);
const SEATS: Arg = Arg::new("seat", Kind::String).many();
const COUNTED_SEATS: Arg = Arg::new("seats", Kind::Block(&[COUNT, SEATS])).after("SEATS");
const AREA: Arg = Arg::new("area", Kind::String);
const TIER: Arg = Arg::new("tier", Kind::String).after("TIER").maybe();
const ORDER: Arg = Arg::new("reference", Kind::String).after("ORDER").maybe();

const READ: &str = "readonly";
const WRITE: &str = "write deny-oom";
const FREE: &str = "write";

/// Every command of the family.
pub(crate) static COMMANDS: &[Command] = &[
    Command {
        name: c"SEAT.CREATE",
        entry: entry!(writes::create),
        flags: WRITE,
        categories: "write slow",
        arity: 3,
        keys: Keys::First,
        key_flags: RW | INSERT,
        summary: "Opens a show with the areas, rows, seats and limits of a plan. The same plan again is OK",
        complexity: "O(N) with N seats in the plan",
        arguments: &[KEY, Arg::new("plan", Kind::String)],
    },
    Command {
        name: c"SEAT.ALTER",
        entry: entry!(writes::alter),
        flags: WRITE,
        categories: "write slow",
        arity: 3,
        keys: Keys::First,
        key_flags: RW | UPDATE,
        summary: "Changes limits, names, priorities, order rules, tiers or the event stream of a show",
        complexity: "O(N) with N seats in the show",
        arguments: &[KEY, Arg::new("plan-part", Kind::String)],
    },
    Command {
        name: c"SEAT.HOLD",
        entry: entry!(writes::hold),
        flags: "write deny-oom fast",
        categories: "write fast",
        arity: -6,
        keys: Keys::First,
        key_flags: RW | ACCESS | UPDATE,
        summary: "Holds the best free seats for a user until a deadline",
        complexity: "O(C * log(R) + A) with C seats asked for, R rows and A areas",
        arguments: &[
            KEY,
            USER,
            Arg::new("count", Kind::Integer),
            TTL,
            TIER,
            Arg::new("areas", Kind::Block(&[COUNT, Arg::new("area", Kind::String).many()]))
                .after("AREAS")
                .maybe(),
            Arg::new(
                "adjacent",
                Kind::OneOf(&[
                    Arg::word("prefer", "PREFER"),
                    Arg::word("require", "REQUIRE"),
                    Arg::word("area", "AREA"),
                    Arg::word("ignore", "IGNORE"),
                ]),
            )
            .after("ADJACENT")
            .maybe(),
            Arg::new(
                "orphans",
                Kind::OneOf(&[
                    Arg::word("avoid", "AVOID"),
                    Arg::word("allow", "ALLOW"),
                    Arg::word("forbid", "FORBID"),
                ]),
            )
            .after("ORPHANS")
            .maybe(),
            Arg::new("flags", Kind::Block(&[COUNT, Arg::new("flag", Kind::String).many()]))
                .after("FLAGS")
                .maybe(),
            Arg::new(
                "replace",
                Kind::Block(&[
                    Arg::new("old-token", Kind::String).after("REPLACE"),
                    Arg::word("other", "OTHER").maybe(),
                ]),
            )
            .maybe(),
            TOKEN.after("TOKEN").maybe(),
        ],
    },
    Command {
        name: c"SEAT.PICK",
        entry: entry!(writes::pick),
        flags: "write deny-oom fast",
        categories: "write fast",
        arity: -8,
        keys: Keys::First,
        key_flags: RW | ACCESS | UPDATE,
        summary: "Holds just these seats for a user until a deadline",
        complexity: "O(C * log(R)) with C seats named and R rows",
        arguments: &[KEY, USER, TTL, TOKEN.after("TOKEN").maybe(), COUNTED_SEATS],
    },
    Command {
        name: c"SEAT.EXTEND",
        entry: entry!(writes::extend),
        flags: "write fast",
        categories: "write fast",
        arity: 5,
        keys: Keys::First,
        key_flags: RW | ACCESS | UPDATE,
        summary: "Gives a hold another deadline, counted from now",
        complexity: "O(log(H)) with H live holds",
        arguments: &[KEY, TOKEN, TTL],
    },
    Command {
        name: c"SEAT.CONFIRM",
        entry: entry!(writes::confirm),
        flags: "write fast",
        categories: "write fast",
        arity: -3,
        keys: Keys::First,
        key_flags: RW | ACCESS | UPDATE,
        summary: "Sells the seats of a hold. The same token and order again give the same reply",
        complexity: "O(C) with C seats of the hold",
        arguments: &[KEY, TOKEN, USER.after("USER").maybe(), ORDER],
    },
    Command {
        name: c"SEAT.RELEASE",
        entry: entry!(writes::release),
        flags: "write fast",
        categories: "write fast",
        arity: -3,
        keys: Keys::First,
        key_flags: RW | ACCESS | UPDATE,
        summary: "Gives back a hold, or some of its seats",
        complexity: "O(C * log(R)) with C seats given back and R rows",
        arguments: &[KEY, TOKEN, COUNTED_SEATS.maybe()],
    },
    Command {
        name: c"SEAT.REFUND",
        entry: entry!(writes::refund),
        flags: FREE,
        categories: "write slow",
        arity: -4,
        keys: Keys::First,
        key_flags: RW | ACCESS | UPDATE,
        summary: "Makes sold seats free again",
        complexity: "O(C * log(R)) with C seats named and R rows",
        arguments: &[KEY, ORDER, COUNT, SEATS],
    },
    Command {
        name: c"SEAT.BLOCK",
        entry: entry!(writes::block),
        flags: WRITE,
        categories: "write slow",
        arity: -4,
        keys: Keys::First,
        key_flags: RW | ACCESS | UPDATE,
        summary: "Keeps free seats for the house",
        complexity: "O(C * log(R)) with C seats named and R rows",
        arguments: &[KEY, COUNT, SEATS],
    },
    Command {
        name: c"SEAT.UNBLOCK",
        entry: entry!(writes::unblock),
        flags: FREE,
        categories: "write slow",
        arity: -4,
        keys: Keys::First,
        key_flags: RW | ACCESS | UPDATE,
        summary: "Makes blocked seats free again",
        complexity: "O(C * log(R)) with C seats named and R rows",
        arguments: &[KEY, COUNT, SEATS],
    },
    Command {
        name: c"SEAT.GET",
        entry: entry!(reads::get),
        flags: "readonly fast",
        categories: "read fast",
        arity: 3,
        keys: Keys::First,
        key_flags: RO | ACCESS,
        summary: "Shows one seat",
        complexity: "O(1)",
        arguments: &[KEY, Arg::new("seat", Kind::String)],
    },
    Command {
        name: c"SEAT.HOLDS",
        entry: entry!(reads::holds),
        flags: "readonly fast",
        categories: "read fast",
        arity: 3,
        keys: Keys::First,
        key_flags: RO | ACCESS,
        summary: "Lists the live holds of a user",
        complexity: "O(H * log(H)) with H live holds of the user",
        arguments: &[KEY, USER],
    },
    Command {
        name: c"SEAT.ORDER",
        entry: entry!(reads::order),
        flags: "readonly fast",
        categories: "read fast",
        arity: 3,
        keys: Keys::First,
        key_flags: RO | ACCESS,
        summary: "Lists the seats of an order",
        complexity: "O(C * log(C)) with C seats of the order",
        arguments: &[KEY, Arg::new("reference", Kind::String)],
    },
    Command {
        name: c"SEAT.STAT",
        entry: entry!(reads::stat),
        flags: READ,
        categories: "read slow",
        arity: -2,
        keys: Keys::First,
        key_flags: RO | ACCESS,
        summary: "Counts seats by area and tier: free, held, sold, blocked, and the longest free run",
        complexity: "O(B) with B pairs of area and tier",
        arguments: &[KEY, TIER, AREA.after("AREA").maybe()],
    },
    Command {
        name: c"SEAT.MAP",
        entry: entry!(reads::map),
        flags: READ,
        categories: "read slow",
        arity: 3,
        keys: Keys::First,
        key_flags: RO | ACCESS,
        summary: "Draws the rows of an area: . free, h held, s sold, x blocked, space a break",
        complexity: "O(N) with N positions of the area",
        arguments: &[KEY, AREA],
    },
    Command {
        name: c"SEAT.PLAN",
        entry: entry!(reads::plan),
        flags: READ,
        categories: "read slow",
        arity: 2,
        keys: Keys::First,
        key_flags: RO | ACCESS,
        summary: "Gives the plan of a show as JSON, from which an equal empty show can be made",
        complexity: "O(N) with N seats",
        arguments: &[KEY],
    },
    Command {
        name: c"SEAT.ZMPOP",
        entry: entry!(zmpop::zmpop),
        flags: "write getkeys-api",
        categories: "write sortedset slow",
        arity: -4,
        keys: Keys::Counted,
        key_flags: RW | ACCESS | DELETE,
        summary: "As ZMPOP; with ADJACENT pops only members whose scores follow one another",
        complexity: "O(K + M * log(N)) as ZMPOP; with ADJACENT O(N) at worst",
        arguments: &[
            Arg::new("numkeys", Kind::Integer),
            KEY.many(),
            Arg::new("where", Kind::OneOf(&[Arg::word("min", "MIN"), Arg::word("max", "MAX")])),
            Arg::new("count", Kind::Integer).after("COUNT").maybe(),
            Arg::new(
                "adjacent",
                Kind::Block(&[
                    Arg::word("adjacent", "ADJACENT"),
                    Arg::new("stride", Kind::Integer).after("STRIDE").maybe(),
                ]),
            )
            .maybe(),
        ],
    },
    Command {
        name: c"SEAT.APPLY",
        entry: entry!(writes::apply),
        flags: FREE,
        categories: "write slow dangerous",
        arity: 3,
        keys: Keys::First,
        key_flags: RW | UPDATE,
        summary: "Internal: carries what a master decided to replicas and the AOF",
        complexity: "O(N) with N seats of the events",
        arguments: &[KEY, Arg::new("payload", Kind::String)],
    },
];
