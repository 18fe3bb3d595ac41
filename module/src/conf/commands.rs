//! The `CONF.*` and `CMU.*` commands: one table entry for each.

use allot_core::conf::Realm;

use super::{reads, units, writes};
use crate::engine::command::{Command, command};
use crate::engine::parameter::Parameter;
use crate::engine::replicated::apply_command;
use crate::ffi::command::{RW, UPDATE};

const KEY: Parameter = Parameter::key("key");
const E164: Parameter = Parameter::name("e164");
const CMU: Parameter = Parameter::name("cmu");
const EPOCH: Parameter = Parameter::natural("epoch");
/// What a unit knows about a conference that it runs.
const COPY: &[Parameter; 5] = &[
    E164,
    Parameter::text("end"),
    Parameter::text("size"),
    Parameter::text("priority"),
    Parameter::text("request"),
];
const FIELD: Parameter = Parameter::text("field");
const ZONE: Parameter = Parameter::name("zone").after("ZONE").optional();
const COUNTED_TAGS: &[Parameter; 2] = &[Parameter::integer("n"), Parameter::name("tag").optional().many()];
const HOST: Parameter = Parameter::name("host").after("UNIT").optional();
const ZONEFALL: Parameter = integer("milliseconds", "ZONEFALL");
const REQUIRE: Parameter = tags("require", "REQUIRE");
const PREFER: Parameter = tags("prefer", "PREFER");
const TERM: Parameter = Parameter::natural("term").after("TERM").optional();

/// An optional number that follows its keyword.
const fn integer(name: &'static str, token: &'static str) -> Parameter {
    Parameter::integer(name).after(token).optional()
}

/// An optional list of tags that follows its keyword and its length.
const fn tags(name: &'static str, token: &'static str) -> Parameter {
    Parameter::counted(name, COUNTED_TAGS).after(token).optional()
}

/// The commands of conferences.
pub(crate) static CONF_COMMANDS: &[Command] = &[
    command! {
        name: c"CONF.REALM",
        run: writes::realm,
        flags: "write deny-oom",
        also: "dangerous",
        summary: "Creates a realm of conferences, or changes its settings; replies its record",
        complexity: "O(1); O(N) with N conferences where settings change",
        parameters: [
            KEY,
            integer("count", "LICENCES"),
            integer("milliseconds", "RETRY"),
            integer("milliseconds", "WINDOW"),
            Parameter::one_of("policy", &[Parameter::word("earliest", "EARLIEST"), Parameter::word("keep", "KEEP")])
                .after("POLICY")
                .optional(),
            integer("milliseconds", "CREATETIMEOUT"),
            integer("milliseconds", "RELEASETIMEOUT"),
            integer("milliseconds", "WAITTIMEOUT"),
            integer("milliseconds", "TOMBSTONE"),
            Parameter::one_of("place", &[Parameter::word("share", "SHARE"), Parameter::word("load", "LOAD")])
                .after("PLACE")
                .optional(),
            integer("n", "TRIES"),
            integer("n", "FAILURES"),
            integer("milliseconds", "WARN"),
            integer("milliseconds", "RAMP"),
            Parameter::word("drop", "DROP").optional(),
        ],
    },
    command! {
        name: c"CONF.TERM",
        run: writes::claim,
        flags: "write",
        summary: "Claims the realm for an elected scheduler; a lower term is refused",
        complexity: "O(N) with N units",
        parameters: [
            KEY,
            Parameter::natural("term"),
            Parameter::name("leader"),
            Parameter::word("force", "FORCE").optional(),
        ],
    },
    command! {
        name: c"CONF.CREATE",
        run: writes::create,
        flags: "write deny-oom fast blocking",
        also: "blocking",
        summary: "Creates a conference: chooses a unit, reserves room and licences, and tells the unit; its number may be called from a pool; with WAIT as soon as a unit has room; with START reserves them for a start in the future",
        complexity: "O(log(N) + U) with N conferences and U units passed over; calling a number as `NUMPOOL.CALL`; with WAIT O(log(W)) more with W creations that wait; while conferences are scheduled O(A) more with A combinations of their zones and tags, and O(A N) if what they reserve does not fit at once beside the new one, or the combination is new",
        parameters: [
            KEY,
            E164,
            integer("start", "START"),
            integer("end", "END"),
            integer("size", "SIZE"),
            integer("count", "LICENCES"),
            integer("priority", "PRIORITY"),
            ZONE,
            ZONEFALL,
            HOST,
            REQUIRE,
            PREFER,
            Parameter::word("norecover", "NORECOVER").optional(),
            Parameter::name("request").after("REQUEST").optional(),
            Parameter::key("pool").after("FROM").optional(),
            Parameter::integer("milliseconds").after("WAIT").optional(),
        ],
    },
    command! {
        name: c"CONF.ACK",
        run: units::ack,
        flags: "write fast",
        summary: "Reports that a unit has opened a conference; the reply RELEASE means that the unit no longer owns it",
        complexity: "O(log(N)) with N conferences",
        parameters: [KEY, E164, CMU, EPOCH],
    },
    command! {
        name: c"CONF.NACK",
        run: units::nack,
        flags: "write fast",
        summary: "Reports that a unit cannot open a conference",
        complexity: "O(log(N)) with N conferences",
        parameters: [KEY, E164, CMU, EPOCH, Parameter::name("reason").optional()],
    },
    command! {
        name: c"CONF.FAILED",
        run: units::failed,
        flags: "write fast",
        summary: "Reports that the program of a conference failed on its unit; the conference is recovered on another",
        complexity: "O(log(N)) with N conferences",
        parameters: [KEY, E164, CMU, EPOCH, Parameter::name("reason").optional()],
    },
    command! {
        name: c"CONF.ENDED",
        run: units::ended,
        flags: "write fast",
        summary: "Reports that people ended a conference on its unit; with RELEASED, that the unit ended its copy because of a RELEASE",
        complexity: "O(log(N)) with N conferences",
        parameters: [KEY, E164, CMU, EPOCH, Parameter::word("released", "RELEASED").optional()],
    },
    command! {
        name: c"CONF.RELEASE",
        run: writes::release,
        flags: "write fast",
        summary: "Ends a conference",
        complexity: "O(log(N)) with N conferences",
        parameters: [KEY, E164],
    },
    command! {
        name: c"CONF.EXTEND",
        run: writes::extend,
        flags: "write fast",
        summary: "Changes the end time of a conference; with DRYRUN, only says whether it would",
        complexity: "O(log(N)) with N conferences",
        parameters: [KEY, E164, Parameter::integer("end")
                .after("END")
                .in_place()
                .or_error("END is missing: say when the conference shall end, in milliseconds"),
            Parameter::word("dryrun", "DRYRUN").optional()],
    },
    command! {
        name: c"CONF.RESIZE",
        run: writes::resize,
        flags: "write fast",
        summary: "Changes the room that a conference takes; room on its unit is reserved at once",
        complexity: "O(log(N)) with N conferences",
        parameters: [KEY, E164, Parameter::integer("size")],
    },
    command! {
        name: c"CONF.ALTER",
        run: writes::alter,
        flags: "write deny-oom fast",
        summary: "Changes which units may take a conference; a conference that has its unit stays there",
        complexity: "O(log(N)) with N conferences",
        parameters: [
            KEY,
            E164,
            ZONE,
            Parameter::word("nozone", "NOZONE").optional(),
            ZONEFALL,
            HOST,
            Parameter::word("nounit", "NOUNIT").optional(),
            REQUIRE,
            PREFER,
        ],
    },
    command! {
        name: c"CONF.SET",
        run: writes::set,
        flags: "write deny-oom fast",
        keys: RW | UPDATE,
        summary: "Writes details of a conference if the unit owns it at this epoch; a field only if its seq is newer",
        complexity: "O(F * log(D)) with F fields written and D fields there",
        parameters: [
            KEY,
            E164,
            CMU,
            EPOCH,
            Parameter::natural("seq"),
            Parameter::block("data", &[FIELD, Parameter::text("value")])
                .many()
                .or_error("fields and values come by turns, and the last value is missing"),
        ],
    },
    command! {
        name: c"CONF.GET",
        run: reads::get,
        flags: "readonly fast",
        summary: "Gives all or some details of a conference",
        complexity: "O(F * log(D)) with F fields asked for and D fields there",
        parameters: [KEY, E164, FIELD.optional().many()],
    },
    command! {
        name: c"CONF.INFO",
        run: reads::info,
        flags: "readonly fast",
        summary: "Gives the record of a conference, also for some time after its end",
        complexity: "O(1)",
        parameters: [KEY, E164],
    },
    command! {
        name: c"CONF.HISTORY",
        run: reads::history,
        flags: "readonly fast",
        summary: "Gives every assignment of a conference and how it ended",
        complexity: "O(A) with A assignments",
        parameters: [KEY, E164],
    },
    command! {
        name: c"CONF.LIST",
        run: reads::list,
        flags: "readonly",
        summary: "Lists conferences, page by page",
        complexity: "O(log(N) + M) with M conferences looked at",
        parameters: [
            KEY,
            Parameter::text("state").after("STATE").optional(),
            Parameter::name("cmu").after("CMU").optional(),
            Parameter::natural("cursor").after("CURSOR").optional(),
            integer("n", "COUNT"),
        ],
    },
    command! {
        name: c"CONF.STAT",
        run: reads::stat,
        flags: "readonly",
        summary: "Gives totals of a realm",
        complexity: "O(U + D) with U units and D drained hosts",
        parameters: [KEY],
    },
    command! {
        name: c"CONF.RECOVER",
        run: writes::recover,
        flags: "write",
        summary: "Places conferences that wait for recovery and whose time has come",
        complexity: "O(U + M * log(N)) with U units and M conferences placed or passed over",
        parameters: [KEY, integer("n", "COUNT"), TERM],
    },
    command! {
        name: c"CONF.RESTART",
        run: writes::restart,
        flags: "write",
        also: "dangerous",
        summary: "Begins the work of a new scheduler: units that it did not find are down, open conferences of the others wait for a report",
        complexity: "O(N * log(N)) with N conferences",
        parameters: [
            KEY,
            Parameter::counted("live", &[Parameter::integer("n"), CMU.optional().many()])
                .after("LIVE")
                .or_error("LIVE is missing: name the units that are alive, or LIVE 0"),
            TERM,
        ],
    },
    command! {
        name: c"CONF.MOVE",
        run: writes::move_,
        flags: "write fast",
        summary: "Moves a conference to another unit; the old unit keeps it until the new one has opened it. Places a pending conference",
        complexity: "O(log(N) + U) with N conferences and U units passed over",
        parameters: [KEY, E164, Parameter::name("cmu").after("TO").optional(), TERM],
    },
    command! {
        name: c"CONF.REBALANCE",
        run: writes::rebalance,
        flags: "write",
        also: "dangerous",
        summary: "Begins the moves that even out the used share of the units, the most useful first; with DRYRUN, only says which",
        complexity: "O(N + M * U) with N conferences, M moves and U units",
        parameters: [
            KEY,
            integer("n", "MAXMOVES"),
            Parameter::word("dryrun", "DRYRUN").optional(),
            TERM,
        ],
    },
    command! {
        name: c"CONF.PLAN",
        run: reads::plan,
        flags: "readonly",
        also: "dangerous",
        summary: "Says which conferences wait and why, or where each would go if a unit died now; for ANY, how many of each unit would find room",
        complexity: "O(N * log(U)) with N conferences and U units; for ANY O(U + N * log(U)) with N at most 4000, and the pending conferences and those of one unit",
        parameters: [
            KEY,
            Parameter::name("cmu").after("DOWN").optional(),
            Parameter::natural("cursor").after("CURSOR").optional(),
        ],
    },
    apply_command!(c"CONF.APPLY", Realm),
];

/// The commands of units.
pub(crate) static CMU_COMMANDS: &[Command] = &[
    command! {
        name: c"CMU.JOIN",
        run: units::join,
        flags: "write deny-oom",
        also: "dangerous",
        summary: "Registers a media unit, or renews its lease; replaces another incarnation on the same host, but not a live one on another machine",
        complexity: "O(log(U)); O(C * log(N)) with C conferences of the one replaced",
        parameters: [
            KEY,
            CMU,
            Parameter::integer("n")
                .after("CAPACITY")
                .or_error("CAPACITY is missing: say how many conferences the unit has room for"),
            ZONE,
            tags("tags", "TAGS"),
            integer("milliseconds", "LEASE"),
            Parameter::name("machine").after("MACHINE").optional(),
        ],
    },
    command! {
        name: c"CMU.BEAT",
        run: units::beat,
        flags: "write fast",
        summary: "Renews a unit's lease, and reports its load in percent",
        complexity: "O(log(U)) with U units",
        parameters: [KEY, CMU, integer("n", "LOAD")],
    },
    command! {
        name: c"CMU.REPORT",
        run: units::report,
        flags: "write",
        also: "dangerous",
        summary: "Compares a unit's list of conferences with the realm; replies which ones the unit keeps, owns again and must end",
        complexity: "O(C * log(N)) with C conferences of the unit",
        parameters: [
            KEY,
            CMU,
            Parameter::natural("epoch").after("HIGHEST").in_place().or_error(
                "HIGHEST is missing: say which epoch was the highest that the unit had handled, or 0",
            ),
            Parameter::counted("ended", &[Parameter::integer("n"), Parameter::block("row", &[E164, EPOCH]).optional().many()])
                .after("ENDED")
                .in_place()
                .optional(),
            Parameter::counted("starting", &[Parameter::integer("n"), Parameter::block("row", &[E164, EPOCH]).optional().many()])
                .after("STARTING")
                .in_place()
                .optional(),
            Parameter::counted("params", &[Parameter::integer("n"), Parameter::block("row", COPY).optional().many()])
                .after("PARAMS")
                .in_place()
                .optional(),
            Parameter::block("list", &[E164, EPOCH])
                .optional()
                .many()
                .or_error("conferences and epochs come by turns, and the last epoch is missing"),
        ],
    },
    command! {
        name: c"CMU.ASK",
        run: units::ask,
        flags: "write",
        summary: "Asks one unit or all units to send their list or all details again",
        complexity: "O(U) with U units",
        parameters: [
            KEY,
            CMU.optional(),
            Parameter::one_of("what", &[Parameter::word("list", "LIST"), Parameter::word("details", "DETAILS")]),
        ],
    },
    command! {
        name: c"CMU.DRAIN",
        run: units::drain,
        flags: "write",
        summary: "Keeps new conferences away from a host, or from the host of a unit; with MOVE also moves its conferences away",
        complexity: "O(log(U)); with MOVE O(C * log(N)) with C conferences of the unit",
        parameters: [
            KEY,
            Parameter::one_of("which", &[Parameter::name("host").after("HOST"), CMU]),
            Parameter::one_of("how", &[Parameter::word("off", "OFF"), Parameter::word("move", "MOVE")]).optional(),
            TERM,
        ],
    },
    command! {
        name: c"CMU.LEAVE",
        run: units::leave,
        flags: "write",
        summary: "Reports that a unit is about to end: nothing new is placed on it, and its conferences move away",
        complexity: "O(C * log(N)) with C conferences of the unit",
        parameters: [KEY, CMU],
    },
    command! {
        name: c"CMU.DOWN",
        run: units::down,
        flags: "write",
        also: "dangerous",
        summary: "Declares a unit down; its conferences wait for recovery",
        complexity: "O(C * log(N)) with C conferences of the unit",
        parameters: [KEY, CMU, TERM],
    },
    command! {
        name: c"CMU.LIST",
        run: reads::units,
        flags: "readonly",
        summary: "Gives the records of all units",
        complexity: "O(U) with U units",
        parameters: [KEY],
    },
];
