//! The `SEAT.*` commands: one table entry for each.

use allot_core::seat::Show;

use super::{listing, reads, waiting, writes, zmpop};
use crate::engine::command::{Command, command};
use crate::engine::parameter::Parameter;
use crate::engine::replicated::apply_command;
use crate::ffi::command::{ACCESS, DELETE, INSERT, RW, UPDATE};

const KEY: Parameter = Parameter::key("key");
const USER: Parameter = Parameter::name("user");
const TOKEN: Parameter = Parameter::name("token");
const TTL: Parameter = Parameter::integer("milliseconds")
    .after("TTL")
    .or_error("TTL is missing: say how long the hold shall live, in milliseconds");
const COUNT: Parameter = Parameter::integer("n");
const SEATS: Parameter = Parameter::name("seat").many();
const COUNTED_SEATS: Parameter = Parameter::counted("seats", &[COUNT, SEATS]);
const NAMED_SEATS: Parameter = COUNTED_SEATS.after("SEATS");
const AREA: Parameter = Parameter::name("area");
const TIER: Parameter = Parameter::name("tier").after("TIER").optional();
const ORDER: Parameter = Parameter::name("reference").after("ORDER").optional();
const AREAS: Parameter =
    Parameter::counted("areas", &[COUNT, Parameter::name("area").many()]).after("AREAS").optional();
const ADJACENT: Parameter = Parameter::one_of(
    "adjacent",
    &[
        Parameter::word("prefer", "PREFER"),
        Parameter::word("require", "REQUIRE"),
        Parameter::word("area", "AREA"),
        Parameter::word("ignore", "IGNORE"),
    ],
)
.after("ADJACENT")
.optional();
const ORPHANS: Parameter = Parameter::one_of(
    "orphans",
    &[
        Parameter::word("avoid", "AVOID"),
        Parameter::word("allow", "ALLOW"),
        Parameter::word("forbid", "FORBID"),
    ],
)
.after("ORPHANS")
.optional();
const FLAGS: Parameter =
    Parameter::counted("flags", &[COUNT, Parameter::name("flag").many()]).after("FLAGS").optional();
const NEEDS: Parameter =
    Parameter::block("need", &[Parameter::integer("n").after("NEED"), Parameter::name("flag")])
        .optional()
        .many();
const PREFERRED: Parameter =
    Parameter::block("wish", &[Parameter::name("flag").after("WISH")]).optional().many();

const INTO: Parameter = Parameter::name("block").after("INTO").optional();
const SHOWS: &[Parameter; 2] = &[COUNT, Parameter::key("key").many()];
const ALSO: Parameter = Parameter::counted("also", SHOWS).after("ALSO").optional();
const BESIDE: Parameter = Parameter::counted("beside", SHOWS).after("BESIDE").optional();
const EXCHANGE: Parameter = Parameter::counted("exchange", &[COUNT, SEATS]).after("EXCHANGE").optional();
const ADD: Parameter = Parameter::word("add", "ADD").optional();
const FROM: Parameter = Parameter::name("block").after("FROM").optional();

/// Every command of the family.
pub(crate) static COMMANDS: &[Command] = &[
    command! {
        name: c"SEAT.CREATE",
        run: writes::create,
        flags: "write deny-oom",
        also: "dangerous",
        keys: RW | INSERT,
        summary: "Opens a show with the areas, rows, seats and limits of a plan. The same plan again is OK",
        complexity: "O(N) with N seats in the plan",
        parameters: [KEY, Parameter::text("plan")],
    },
    command! {
        name: c"SEAT.ALTER",
        run: writes::alter,
        flags: "write deny-oom",
        also: "dangerous",
        keys: RW | UPDATE,
        summary: "Changes limits, names, priorities, order rules, tiers or the event stream of a show; adds, removes and reorders areas, rows and seats",
        complexity: "O(N) with N seats in the show",
        parameters: [KEY, Parameter::text("plan-part")],
    },
    command! {
        name: c"SEAT.HOLD",
        run: writes::hold,
        flags: "write deny-oom fast",
        summary: "Holds the best free seats for a user until a deadline, or adds them to a live hold",
        complexity: "O(C * log(R) + A) with C seats asked for, R rows and A areas; with FROM also O(B) with B seats of the block; with ADD O(R * log(R)) at worst",
        parameters: [
            KEY,
            USER,
            Parameter::integer("count"),
            TTL,
            TIER,
            AREAS,
            ADJACENT,
            ORPHANS,
            FLAGS,
            NEEDS,
            PREFERRED,
            FROM,
            Parameter::block("replace", &[
                    Parameter::name("old-token").after("REPLACE"),
                    Parameter::word("other", "OTHER").optional(),
                ])
            .optional(),
            TOKEN.after("TOKEN").optional(),
            ADD,
            Parameter::name("id").after("ONCE").optional(),
            EXCHANGE,
            ALSO,
            BESIDE,
        ],
    },
    command! {
        name: c"SEAT.PICK",
        run: writes::pick,
        flags: "write deny-oom fast",
        summary: "Holds exactly these seats for a user until a deadline, or adds them to a live hold",
        complexity: "O(C * log(R)) with C seats named and R rows",
        parameters: [
            KEY,
            USER,
            TTL,
            ORPHANS,
            FROM,
            TOKEN.after("TOKEN").optional(),
            ADD,
            NAMED_SEATS.or_error("SEATS is missing: name the seats to pick"),
            EXCHANGE,
            ALSO,
        ],
    },
    command! {
        name: c"SEAT.WAIT",
        run: waiting::wait,
        flags: "write deny-oom",
        summary: "Holds the best free seats now, or as soon as they are free",
        complexity: "O(C * log(R) + A) with C seats asked for, R rows and A areas; O(W) with W waiters of equal wish for a wait with a priority",
        parameters: [
            KEY,
            USER,
            Parameter::integer("count"),
            TTL,
            Parameter::integer("milliseconds")
                .after("OFFER")
                .or_error("OFFER is missing: say how long an offered hold shall live, in milliseconds"),
            TIER,
            AREAS,
            Parameter::one_of("adjacent", &[
                    Parameter::word("prefer", "PREFER"),
                    Parameter::word("require", "REQUIRE"),
                    Parameter::word("area", "AREA"),
                ])
            .after("ADJACENT")
            .optional(),
            ORPHANS,
            FLAGS,
            NEEDS,
            PREFERRED,
            FROM,
            Parameter::integer("priority").after("PRIORITY").optional(),
            TOKEN.after("TOKEN").optional(),
        ],
    },
    command! {
        name: c"SEAT.UNWAIT",
        run: waiting::unwait,
        flags: "write fast",
        summary: "Leaves the waiting list",
        complexity: "O(log(W)) with W waiters",
        parameters: [KEY, TOKEN],
    },
    command! {
        name: c"SEAT.WAITING",
        run: waiting::waiting,
        flags: "readonly",
        summary: "Shows a wait: its state and its position",
        complexity: "O(W) with W waiters of equal wish",
        parameters: [KEY, TOKEN],
    },
    command! {
        name: c"SEAT.EXTEND",
        run: writes::extend,
        flags: "write fast",
        summary: "Gives a hold another deadline, counted from now",
        complexity: "O(log(H)) with H live holds",
        parameters: [KEY, TOKEN, TTL, ALSO],
    },
    command! {
        name: c"SEAT.CONFIRM",
        run: writes::confirm,
        flags: "write fast",
        summary: "Sells the seats of a hold, perhaps in exchange for others. The same token and order again give the same reply",
        complexity: "O(C) with C seats of the hold; with EXCHANGE O(C * log(R)) with C seats sold and refunded and R rows",
        parameters: [
            KEY,
            TOKEN,
            USER.after("USER").optional(),
            ORDER,
            Parameter::block("exchange", &[
                    Parameter::name("old-reference").after("EXCHANGE"),
                    COUNTED_SEATS,
                ])
            .optional(),
            ALSO,
        ],
    },
    command! {
        name: c"SEAT.RELEASE",
        run: writes::release,
        flags: "write fast",
        summary: "Gives back a hold, or some of its seats, perhaps into a block",
        complexity: "O(C * log(R)) with C seats given back and R rows",
        parameters: [KEY, TOKEN, NAMED_SEATS.optional(), INTO, ALSO],
    },
    command! {
        name: c"SEAT.REFUND",
        run: writes::refund,
        flags: "write",
        summary: "Makes sold seats or a whole order free again, or puts them into a block",
        complexity: "O(C * log(R)) with C seats refunded and R rows; with INTO also O(B) with B seats of the block",
        parameters: [KEY, ORDER, INTO, ALSO, COUNTED_SEATS.optional()],
    },
    command! {
        name: c"SEAT.MOVE",
        run: writes::move_sales,
        flags: "write deny-oom",
        summary: "Moves sales to other seats, or swaps them",
        complexity: "O(C * log(R)) with C pairs of seats and R rows",
        parameters: [
            KEY,
            Parameter::word("anytier", "ANYTIER").optional(),
            Parameter::counted("pairs", &[
                    COUNT,
                    Parameter::block("pair", &[Parameter::name("from"), Parameter::name("to")]).many(),
                ]),
        ],
    },
    command! {
        name: c"SEAT.TRANSFER",
        run: writes::transfer,
        flags: "write deny-oom",
        summary: "Gives sold seats to another user",
        complexity: "O(C * log(R)) with C seats named and R rows",
        parameters: [
            KEY,
            USER,
            ORDER,
            Parameter::block("to-order", &[
                    Parameter::word("to", "TO"),
                    Parameter::name("new-reference").after("ORDER"),
                ])
            .optional(),
            NAMED_SEATS.or_error("SEATS is missing: name the sold seats"),
        ],
    },
    command! {
        name: c"SEAT.BLOCK",
        run: writes::block,
        flags: "write deny-oom",
        summary: "Takes free seats or those of a hold off sale, perhaps in a block with a name or an end",
        complexity: "O(C * log(R) + B) with C seats named, R rows and B seats of the block",
        parameters: [
            KEY,
            Parameter::name("block").after("NAME").optional(),
            Parameter::integer("unix-time-milliseconds").after("UNTIL").optional(),
            Parameter::integer("most").after("PERUSER").optional(),
            Parameter::one_of("which", &[Parameter::counted("n", &[COUNT, SEATS]), TOKEN.after("HOLD")]),
        ],
    },
    command! {
        name: c"SEAT.BLOCKS",
        run: reads::blocks,
        flags: "readonly",
        summary: "Lists the blocks that have a name or an end, with their seats and limits",
        complexity: "O(B * log(B) + S) with B blocks that have S seats",
        parameters: [KEY],
    },
    command! {
        name: c"SEAT.UNBLOCK",
        run: writes::unblock,
        flags: "write",
        summary: "Puts blocked seats on sale again, or all seats of a block",
        complexity: "O(C * log(R) + B) with C seats named or unblocked, R rows and B seats of their blocks",
        parameters: [
            KEY,
            Parameter::one_of("which", &[Parameter::counted("n", &[COUNT, SEATS]), Parameter::name("block").after("NAME")]),
        ],
    },
    command! {
        name: c"SEAT.GET",
        run: reads::get,
        flags: "readonly fast",
        summary: "Shows one seat",
        complexity: "O(1)",
        parameters: [KEY, Parameter::name("seat")],
    },
    command! {
        name: c"SEAT.HOLDS",
        run: reads::holds,
        flags: "readonly fast",
        summary: "Lists the live holds of a user",
        complexity: "O(H * log(H)) with H live holds of the user",
        parameters: [KEY, USER],
    },
    command! {
        name: c"SEAT.FIND",
        run: listing::find,
        flags: "readonly",
        summary: "Shows the seats that SEAT.HOLD would choose, without holding them",
        complexity: "O(K * (C * log(R) + A)) with K offers, C seats asked for, R rows and A areas",
        parameters: [
            KEY,
            Parameter::integer("count"),
            TIER,
            AREAS,
            ADJACENT,
            ORPHANS,
            FLAGS,
            NEEDS,
            PREFERRED,
            FROM,
            Parameter::integer("k").after("BEST").optional(),
            ALSO,
            BESIDE,
        ],
    },
    command! {
        name: c"SEAT.LIST",
        run: listing::list,
        flags: "readonly",
        summary: "Lists seats, holds, sales or waiters in parts",
        complexity: "O(N) with N places that one call examines (COUNT)",
        parameters: [
            KEY,
            Parameter::one_of("what", &[
                    Parameter::word("seats", "SEATS"),
                    Parameter::word("holds", "HOLDS"),
                    Parameter::word("orders", "ORDERS"),
                    Parameter::word("waiting", "WAITING"),
                ]),
            Parameter::text("state").after("STATE").optional(),
            TIER,
            AREA.after("AREA").optional(),
            USER.after("USER").optional(),
            Parameter::name("block").after("BLOCK").optional(),
            Parameter::natural("cursor").after("CURSOR").optional(),
            Parameter::integer("n").after("COUNT").optional(),
        ],
    },
    command! {
        name: c"SEAT.ORDER",
        run: reads::order,
        flags: "readonly fast",
        summary: "Lists the seats of an order",
        complexity: "O(C * log(C)) with C seats of the order",
        parameters: [KEY, Parameter::name("reference")],
    },
    command! {
        name: c"SEAT.STAT",
        run: reads::stat,
        flags: "readonly",
        summary: "Counts seats by area and tier: free, held, sold, blocked, and the longest free run",
        complexity: "O(B) with B pairs of area and tier",
        parameters: [KEY, TIER, AREA.after("AREA").optional()],
    },
    command! {
        name: c"SEAT.MAP",
        run: reads::map,
        flags: "readonly",
        summary: "Draws the rows of an area: . free, h held, s sold, x blocked, q queued, space a break. Counts the places of a standing area",
        complexity: "O(N) with N positions of the area",
        parameters: [KEY, AREA],
    },
    command! {
        name: c"SEAT.PLAN",
        run: reads::plan,
        flags: "readonly",
        also: "dangerous",
        summary: "Gives the plan of a show as JSON, from which an equal empty show can be made",
        complexity: "O(N) with N seats",
        parameters: [KEY],
    },
    command! {
        name: c"SEAT.ZMPOP",
        by: zmpop::zmpop,
        flags: "write",
        also: "sortedset dangerous",
        keys: RW | ACCESS | DELETE,
        summary: "As ZMPOP; with ADJACENT pops only members whose scores follow one another",
        complexity: "O(K + M * log(N)) as ZMPOP; with ADJACENT O(N) at worst",
        parameters: [
            Parameter::integer("numkeys"),
            KEY.many(),
            Parameter::one_of("where", &[Parameter::word("min", "MIN"), Parameter::word("max", "MAX")]),
            Parameter::integer("count").after("COUNT").optional(),
            Parameter::block("adjacent", &[
                    Parameter::word("adjacent", "ADJACENT"),
                    Parameter::integer("stride").after("STRIDE").optional(),
                ])
            .optional(),
        ],
    },
    apply_command!(c"SEAT.APPLY", Show),
];
