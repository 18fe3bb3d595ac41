//! The `ACCOUNT.*` commands: one table entry for each.

use allot_core::account::Book;

use super::{inventory, reads, writes};
use crate::engine::command::{Command, command};
use crate::engine::parameter::Parameter;
use crate::engine::replicated::apply_command;

const KEY: Parameter = Parameter::key("key");
const MODULE: Parameter = Parameter::name("module");
const INSTANCE: Parameter = Parameter::name("instance");
const ACCOUNT: Parameter = Parameter::name("account");
const ACCOUNTS: Parameter = Parameter::name("account").many();
const NUMBER: Parameter = Parameter::integer("n");
const EPOCH: Parameter = Parameter::natural("epoch");
const TERM: Parameter = Parameter::natural("term").after("TERM").optional();
const TTL: Parameter = Parameter::integer("milliseconds")
    .after("TTL")
    .in_place()
    .or_error("TTL is missing: say for how many milliseconds the login shall last unless it is renewed");
const COUNTED_ACCOUNTS: Parameter = Parameter::counted("accounts", &[NUMBER, ACCOUNTS]);
const COUNT: Parameter = Parameter::integer("n").after("COUNT").optional();
const CURSOR: Parameter = Parameter::natural("cursor").after("CURSOR").optional();

const TIER: Parameter = Parameter::block("tier", &[Parameter::natural("upto"), Parameter::text("price")]);
const TIERS: Parameter =
    Parameter::counted("tiers", &[NUMBER, TIER.optional().many()]).after("TIERS").optional();
const ADD_MISSES: &str =
    "QUOTA and ACCOUNTS must be given: how much the flat price covers, and which accounts";
const MODULE_MISSES: &str = "DEPARTMENT and INSTANCES must be given: whose module it is, and how many of its instances \
                             hold a share at once";

/// An optional number that follows its keyword.
const fn integer(name: &'static str, token: &'static str) -> Parameter {
    Parameter::integer(name).after(token).optional()
}

/// The day on which the own month of accounts begins.
const TURN: Parameter = integer("day", "TURN");

/// Every command of the family.
pub(crate) static COMMANDS: &[Command] = &[
    command! {
        name: c"ACCOUNT.BOOK",
        run: inventory::book,
        flags: "write deny-oom",
        summary: "Creates a book of accounts, or changes its settings; replies its record",
        complexity: "O(1)",
        parameters: [
            KEY,
            integer("n", "CAP"),
            integer("milliseconds", "DWELL"),
            integer("n", "MAXMOVES"),
            Parameter::text("cost").after("MARGIN").optional(),
            integer("n", "LENDLEVEL"),
            integer("n", "EVENTS"),
            Parameter::word("months", "MONTHS").optional(),
            TERM,
            Parameter::integer("turn").after("TURNS").optional().many(),
        ],
    },
    command! {
        name: c"ACCOUNT.TERM",
        run: inventory::claim,
        flags: "write",
        summary: "Claims the book for an elected leader; a lower term is refused",
        complexity: "O(1)",
        parameters: [
            KEY,
            Parameter::natural("term"),
            Parameter::name("leader"),
            Parameter::word("force", "FORCE").optional(),
        ],
    },
    command! {
        name: c"ACCOUNT.MODULE",
        run: inventory::module,
        flags: "write deny-oom",
        also: "dangerous",
        summary: "Defines or changes a module; replies its record",
        complexity: "O(N) with N instances",
        parameters: [
            KEY,
            MODULE,
            Parameter::name("department").after("DEPARTMENT").or_error(MODULE_MISSES),
            Parameter::integer("n").after("INSTANCES").or_error(MODULE_MISSES),
            integer("weight", "WEIGHT"),
            integer("n", "RESERVE"),
            integer("n", "MIN"),
            Parameter::one_of("share", &[
                    Parameter::word("places", "PLACES"),
                    Parameter::word("present", "PRESENT"),
                ])
            .after("SHARE")
            .optional(),
            integer("milliseconds", "LEND"),
            integer("n", "CAP"),
            integer("n", "NEED"),
            TERM,
        ],
    },
    command! {
        name: c"ACCOUNT.DELMODULE",
        run: inventory::remove_module,
        flags: "write",
        summary: "Deletes a module that has neither accounts nor instances",
        complexity: "O(log N) with N modules",
        parameters: [KEY, MODULE, TERM],
    },
    command! {
        name: c"ACCOUNT.DEPARTMENT",
        run: inventory::department,
        flags: "write deny-oom",
        summary: "Sets the most instructions of a department in a month, with all departments in it; replies its record",
        complexity: "O(N) with N modules",
        parameters: [
            KEY,
            Parameter::name("department"),
            Parameter::integer("n").after("CAP").or_error("CAP is missing: say how many instructions; 0 is no limit"),
            TERM,
        ],
    },
    command! {
        name: c"ACCOUNT.TARIFF",
        run: inventory::tariff,
        flags: "write deny-oom",
        also: "dangerous",
        summary: "Gives accounts another tariff; their use remains",
        complexity: "O(N log M) with N accounts named and M in the book",
        parameters: [
            KEY,
            Parameter::natural("n").after("QUOTA").or_error(ADD_MISSES),
            TIERS,
            COUNTED_ACCOUNTS.after("ACCOUNTS").or_error(ADD_MISSES),
            TERM,
        ],
    },
    command! {
        name: c"ACCOUNT.ADD",
        run: inventory::add,
        flags: "write deny-oom",
        also: "dangerous",
        summary: "Adds accounts to a module; with *, distributes their quotas over all modules, or those of a department, by need and weight",
        complexity: "O(N log M) with N accounts named and M in the book",
        parameters: [
            KEY,
            MODULE,
            Parameter::name("department").after("DEPARTMENT").optional(),
            Parameter::natural("n").after("QUOTA").or_error(ADD_MISSES),
            TIERS,
            TURN,
            COUNTED_ACCOUNTS.after("ACCOUNTS").or_error(ADD_MISSES),
            TERM,
        ],
    },
    command! {
        name: c"ACCOUNT.DEL",
        run: inventory::del,
        flags: "write",
        also: "dangerous",
        summary: "Deletes accounts; an account with a live login is deleted when the login ends",
        complexity: "O(N log M) with N accounts named and M in the book",
        parameters: [KEY, COUNTED_ACCOUNTS, TERM],
    },
    command! {
        name: c"ACCOUNT.MOVE",
        run: inventory::move_to,
        flags: "write",
        also: "dangerous",
        summary: "Moves accounts to another module; an account with a live login moves when the login ends",
        complexity: "O(N log M) with N accounts named and M in the book",
        parameters: [KEY, MODULE, COUNTED_ACCOUNTS, TERM],
    },
    command! {
        name: c"ACCOUNT.FREEZE",
        run: inventory::freeze,
        flags: "write",
        summary: "Records that the platform froze an account, for good or until a time; OFF: that it can be used again",
        complexity: "O(log N) with N accounts",
        parameters: [KEY, ACCOUNT, Parameter::word("off", "OFF").optional(), integer("milliseconds-unix-time", "UNTIL"), TERM],
    },
    command! {
        name: c"ACCOUNT.LIMIT",
        run: inventory::limit,
        flags: "write deny-oom",
        also: "dangerous",
        summary: "Sets the most instructions of accounts in a month, or the day on which their month begins",
        complexity: "O(N log M) with N accounts named and M in the book",
        parameters: [
            KEY,
            integer("n", "CAP"),
            TURN,
            COUNTED_ACCOUNTS.after("ACCOUNTS").or_error("ACCOUNTS is missing: say how many accounts, and which"),
            TERM,
        ],
    },
    command! {
        name: c"ACCOUNT.ATTACH",
        run: writes::attach,
        flags: "write deny-oom",
        summary: "Records that an instance has appeared or come back; it gets its share of accounts, or waits for a place",
        complexity: "O(N log M) with N accounts assigned and M in the book",
        parameters: [KEY, MODULE, INSTANCE, TERM],
    },
    command! {
        name: c"ACCOUNT.DETACH",
        run: writes::detach,
        flags: "write",
        summary: "Records that an instance leaves; after GRACE its accounts are assigned to the other instances",
        complexity: "O(N log M) with N accounts assigned and M in the book",
        parameters: [KEY, MODULE, INSTANCE, integer("milliseconds", "GRACE"), TERM],
    },
    command! {
        name: c"ACCOUNT.LOGIN",
        run: writes::login,
        flags: "write deny-oom fast",
        summary: "Logs a terminal in with an account, exclusively and until a deadline; replies epoch and deadline",
        complexity: "O(log N) with N accounts; O(M log M) with M accounts of the instance, the first time in a month",
        parameters: [KEY, ACCOUNT, INSTANCE, Parameter::name("terminal"), TTL],
    },
    command! {
        name: c"ACCOUNT.RENEW",
        run: writes::renew,
        flags: "write fast",
        summary: "Extends a login to a later deadline",
        complexity: "O(log N) with N accounts; O(M log M) with M accounts of the instance, the first time in a month",
        parameters: [KEY, ACCOUNT, EPOCH, TTL],
    },
    command! {
        name: c"ACCOUNT.LOGOUT",
        run: writes::logout,
        flags: "write fast",
        summary: "Ends a login, or returns a revoked account; BACK: returns an account that was not revoked",
        complexity: "O(log N) with N accounts; O(M log M) with M accounts of the instance, the first time in a month",
        parameters: [KEY, ACCOUNT, EPOCH, Parameter::word("back", "BACK").optional(), TERM],
    },
    command! {
        name: c"ACCOUNT.USE",
        run: writes::usage,
        flags: "write fast",
        summary: "Counts instructions before they are sent; replies how many are used and left, and the cost",
        complexity: "O(log N) with N accounts; O(M log M) with M accounts of the instance, the first time in a month",
        parameters: [KEY, ACCOUNT, EPOCH, COUNT],
    },
    command! {
        name: c"ACCOUNT.PICK",
        run: writes::pick,
        flags: "write fast",
        summary: "Gives accounts of an instance that have no live login, the cheapest next instruction first; moves one there if there is none",
        complexity: "O(log N + C) with N accounts and C picked; O(A log A) with A of the instance until it is first worked with in a month; O(I + A) with I instances if there is none",
        parameters: [KEY, MODULE, INSTANCE, COUNT],
    },
    command! {
        name: c"ACCOUNT.REPORT",
        run: writes::report,
        flags: "write fast",
        summary: "Counts the instructions since an assignment that were not counted before; replies as ACCOUNT.USE",
        complexity: "O(log N) with N accounts; O(M log M) with M accounts of the instance, the first time in a month",
        parameters: [KEY, ACCOUNT, EPOCH, Parameter::natural("total")],
    },
    command! {
        name: c"ACCOUNT.RAISE",
        run: writes::raise,
        flags: "write fast",
        summary: "Makes later epochs greater than one that a failover has lost; an account gets a new epoch",
        complexity: "O(log N) with N accounts",
        parameters: [KEY, EPOCH, ACCOUNT.after("ACCOUNT").optional(), TERM],
    },
    command! {
        name: c"ACCOUNT.REBALANCE",
        run: writes::rebalance,
        flags: "write",
        also: "dangerous",
        summary: "Moves accounts to the instances that will need them by the end of the month",
        complexity: "O(N) with N accounts",
        parameters: [KEY, Parameter::word("dryrun", "DRYRUN").optional(), integer("n", "MAXMOVES"), TERM],
    },
    command! {
        name: c"ACCOUNT.INFO",
        run: reads::info,
        flags: "readonly",
        summary: "Gives the record of the book, of a module, or of an account",
        complexity: "O(1); O(N * P) with N instances of a module and P prices in their tariffs; O(N * P + S log S) with S steps of their tariffs until they work again after a change of CAP",
        parameters: [
            KEY,
            Parameter::one_of("name", &[
                    MODULE.after("MODULE"),
                    ACCOUNT.after("ACCOUNT"),
                    Parameter::text("module-or-account"),
                ])
            .optional(),
        ],
    },
    command! {
        name: c"ACCOUNT.LIST",
        run: reads::list,
        flags: "readonly",
        summary: "Lists accounts of the book, of a module or of an instance",
        complexity: "O(N) with N accounts examined",
        parameters: [
            KEY,
            MODULE.after("MODULE").optional(),
            INSTANCE.after("INSTANCE").optional(),
            Parameter::text("state").after("STATE").optional(),
            CURSOR,
            COUNT,
        ],
    },
    command! {
        name: c"ACCOUNT.USAGE",
        run: reads::usage,
        flags: "readonly",
        summary: "Gives use and cost of a month of the book, or by department, module or account",
        complexity: "O(M * P) with M modules and instances and P prices in their tariffs; O(M * P + S log S) with S steps of their tariffs until they work again after a change of CAP; by account O(C) with C of them",
        parameters: [
            KEY,
            Parameter::one_of("by", &[
                    Parameter::word("book", "BOOK"),
                    Parameter::word("department", "DEPARTMENT"),
                    Parameter::word("module", "MODULE"),
                    Parameter::word("account", "ACCOUNT"),
                ])
            .after("BY")
            .optional(),
            Parameter::natural("months").after("AGO").optional(),
            CURSOR,
            COUNT,
        ],
    },
    command! {
        name: c"ACCOUNT.HISTORY",
        run: reads::history,
        flags: "readonly",
        summary: "Gives the last assignments of an account",
        complexity: "O(1)",
        parameters: [KEY, ACCOUNT],
    },
    apply_command!(c"ACCOUNT.APPLY", Book),
];
