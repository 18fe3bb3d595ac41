//! The `NUMPOOL.*` commands: one table entry for each.

use allot_core::numpool::{Number, Pool};

use super::writes::FORM;
use super::{reads, writes};
use crate::engine::command::{Command, command};
use crate::engine::parameter::{Kind, Parameter};
use crate::engine::replicated::apply_command;
use crate::ffi::command::{INSERT, RW, UPDATE};

const KEY: Parameter = Parameter::key("key");
const NUMBER: Parameter = Parameter::new("number", Kind::Like(Number::is_like, FORM));
const NUMBERS: Parameter = Parameter::new("number", Kind::Like(Number::is_like, FORM)).many();
const MISSING: Parameter = Parameter::word("missing", "MISSING").optional();
const TTL: Parameter = Parameter::integer("milliseconds").after("TTL");
const LEASE: Parameter = Parameter::name("token").after("LEASE");
const SWITCH: Parameter = Parameter::name("switch").after("SWITCH");
const COOLDOWN: Parameter = Parameter::integer("milliseconds").after("COOLDOWN").optional();
const COUNT: Parameter = Parameter::integer("n").after("COUNT").optional();
/// How many caps follow, and a window and a count for each.
const CAPS: Parameter = Parameter::counted(
    "caps",
    &[
        Parameter::integer("n"),
        Parameter::block("cap", &[Parameter::text("window"), Parameter::integer("count")]).optional().many(),
    ],
);
const PICK: Parameter = Parameter::one_of(
    "policy",
    &[
        Parameter::word("longest", "LONGEST"),
        Parameter::word("random", "RANDOM"),
        Parameter::word("leastused", "LEASTUSED"),
        Parameter::word("sticky", "STICKY"),
    ],
)
.after("PICK")
.optional();

/// Every command of the family.
pub(crate) static COMMANDS: &[Command] = &[
    command! {
        name: c"NUMPOOL.ADD",
        run: writes::add,
        flags: "write deny-oom fast",
        keys: RW | INSERT,
        summary: "Adds numbers to a pool; creates the pool if there is none",
        complexity: "O(N) with N numbers named",
        parameters: [KEY, NUMBERS],
    },
    command! {
        name: c"NUMPOOL.DEL",
        run: writes::del,
        flags: "write fast",
        summary: "Deletes numbers from a pool; with DRAIN, a number that carries a call is deleted when the call ends",
        complexity: "O(N) with N numbers named",
        parameters: [KEY, NUMBERS, Parameter::word("drain", "DRAIN").optional()],
    },
    command! {
        name: c"NUMPOOL.REG",
        run: writes::reg,
        flags: "write fast",
        summary: "Registers numbers so that they can be called; repeat it before the time-out",
        complexity: "O(N) with N numbers named; O(N * log(M)) with M registrations that time out",
        parameters: [KEY, NUMBERS, TTL.optional(), SWITCH.optional(), MISSING],
    },
    command! {
        name: c"NUMPOOL.UNREG",
        run: writes::unreg,
        flags: "write blocking",
        also: "blocking",
        summary: "Ends the registrations of these numbers, or of all numbers of a switch",
        complexity: "O(N) with N numbers named or registered",
        parameters: [KEY, Parameter::one_of("which", &[NUMBERS, SWITCH]), MISSING],
    },
    command! {
        name: c"NUMPOOL.SUSPEND",
        run: writes::suspend,
        flags: "write deny-oom fast",
        summary: "Takes numbers out of service, whatever registers them; a call in progress goes on",
        complexity: "O(N * log(M)) with N numbers named and M suspensions that end by themselves",
        parameters: [
            KEY,
            Parameter::text("word").after("CAUSE").optional(),
            Parameter::integer("milliseconds").after("FOR").optional(),
            NUMBERS,
            MISSING.in_place(),
        ],
    },
    command! {
        name: c"NUMPOOL.RESUME",
        run: writes::resume,
        flags: "write fast",
        summary: "Puts numbers into service again, and ends their quarantine",
        complexity: "O(N * log(M)) with N numbers named and M suspensions that end by themselves",
        parameters: [KEY, NUMBERS, MISSING],
    },
    command! {
        name: c"NUMPOOL.CALL",
        run: writes::call,
        flags: "write deny-oom fast blocking",
        also: "blocking",
        summary: "Gives a free number for a call, until it is hung up or its lease ends; with WAIT as soon as one is free",
        complexity: "O(1); O(log(N)) with N numbers in pools that ever picked by prefix or use; their first time O(N * log(N)); with WAIT O(log(W)) more with W calls that wait",
        parameters: [
            KEY,
            NUMBER.optional(),
            TTL.optional(),
            LEASE.optional(),
            SWITCH.optional(),
            Parameter::name("callee").after("PEER").optional(),
            Parameter::counted("prefixes", &[Parameter::integer("n"), Parameter::text("prefix").many()])
                .after("PREFIX")
                .optional(),
            PICK,
            Parameter::integer("milliseconds").after("WAIT").optional(),
            Parameter::integer("priority").after("PRIORITY").optional(),
        ],
    },
    command! {
        name: c"NUMPOOL.HANGUP",
        run: writes::hangup,
        flags: "write fast",
        summary: "Ends the call of a number; with LEASE only that call, however late it comes",
        complexity: "O(1); O(log(N)) with N deadlines",
        parameters: [KEY, NUMBER, LEASE.optional(), COOLDOWN, Parameter::text("word").after("CAUSE").optional()],
    },
    command! {
        name: c"NUMPOOL.RENEW",
        run: writes::renew,
        flags: "write fast",
        summary: "Gives a live lease another deadline, counted from now",
        complexity: "O(log(N)) with N deadlines",
        parameters: [KEY, NUMBER, LEASE, TTL],
    },
    command! {
        name: c"NUMPOOL.BEAT",
        run: writes::beat,
        flags: "write fast",
        summary: "Says that a switch is alive: its calls without a deadline of their own live until the switch's deadline",
        complexity: "O(log(N)) with N switches",
        parameters: [KEY, Parameter::name("switch"), TTL],
    },
    command! {
        name: c"NUMPOOL.SWITCHES",
        run: reads::switches,
        flags: "readonly",
        summary: "Lists switches with their deadlines, a part at a time",
        complexity: "O(N) with N the COUNT",
        parameters: [KEY, Parameter::integer("cursor").after("CURSOR").optional(), COUNT],
    },
    command! {
        name: c"NUMPOOL.RECONCILE",
        run: writes::reconcile,
        flags: "write blocking",
        also: "blocking dangerous",
        summary: "Ends the leases of a switch, or of no switch, that are not listed",
        complexity: "O(N) with N leases of the switch and tokens named",
        parameters: [
            KEY,
            SWITCH.optional(),
            Parameter::word("noswitch", "NOSWITCH").optional(),
            Parameter::integer("time").after("BEFORE").optional(),
            Parameter::block("leases", &[Parameter::word("lease", "LEASE"), Parameter::name("token").many()])
            .optional(),
        ],
    },
    command! {
        name: c"NUMPOOL.LEASES",
        run: reads::leases,
        flags: "readonly",
        summary: "Lists live leases, a part at a time",
        complexity: "O(N) with N the COUNT",
        parameters: [KEY, SWITCH.optional(), Parameter::integer("cursor").after("CURSOR").optional(), COUNT],
    },
    command! {
        name: c"NUMPOOL.GET",
        run: reads::get,
        flags: "readonly fast",
        summary: "Shows one number",
        complexity: "O(1)",
        parameters: [KEY, NUMBER],
    },
    command! {
        name: c"NUMPOOL.INFO",
        run: reads::info,
        flags: "readonly fast",
        summary: "Counts the numbers of a pool by state, and shows its settings",
        complexity: "O(1)",
        parameters: [KEY],
    },
    command! {
        name: c"NUMPOOL.SCAN",
        run: reads::scan,
        flags: "readonly",
        summary: "Lists numbers, a part at a time",
        complexity: "O(N) with N the COUNT",
        parameters: [
            KEY,
            Parameter::integer("cursor"),
            Parameter::text("state").after("STATE").optional(),
            COUNT,
        ],
    },
    command! {
        name: c"NUMPOOL.CONFIG",
        run: writes::configure,
        flags: "write deny-oom",
        also: "dangerous",
        keys: RW | UPDATE,
        summary: "Sets what a pool does where a command does not say; makes the pool if there is none",
        complexity: "O(1); O(N) to change CAPS, with N numbers that called within their windows",
        parameters: [
            KEY,
            Parameter::integer("milliseconds").after("LEASE").optional(),
            COOLDOWN,
            Parameter::integer("milliseconds").after("REGTTL").optional(),
            PICK,
            Parameter::integer("n").after("EVENTS").optional(),
            CAPS.after("CAPS").optional(),
            Parameter::block("rate", &[Parameter::integer("count"), Parameter::integer("milliseconds")])
                .after("RATE")
                .optional(),
            Parameter::integer("n").after("PEERS").optional(),
            Parameter::integer("milliseconds").after("PEERTTL").optional(),
            Parameter::block("daystart", &[Parameter::integer("time"), Parameter::integer("milliseconds")])
                .after("DAYSTART")
                .optional(),
        ],
    },
    command! {
        name: c"NUMPOOL.CAPS",
        run: writes::caps,
        flags: "write deny-oom fast",
        also: "dangerous",
        keys: RW | UPDATE,
        summary: "Sets how many calls a number may begin within windows of time, instead of the caps of its pool",
        complexity: "O(N) with N calls that the number began within the windows",
        parameters: [KEY, NUMBER, CAPS],
    },
    command! {
        name: c"NUMPOOL.CAUSE",
        run: writes::cause,
        flags: "write deny-oom",
        also: "dangerous",
        keys: RW | UPDATE,
        summary: "Says when calls that end with a cause send their number into quarantine",
        complexity: "O(1); O(N) to remove a rule, with N numbers whose calls are counted",
        parameters: [
            KEY,
            Parameter::text("word"),
            Parameter::integer("milliseconds").after("COOLDOWN").or_error("COOLDOWN is missing"),
            Parameter::integer("n").after("AFTER").optional(),
            Parameter::integer("milliseconds").after("WITHIN").optional(),
        ],
    },
    apply_command!(c"NUMPOOL.APPLY", Pool),
];
