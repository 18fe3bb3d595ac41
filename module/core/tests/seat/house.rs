//! A show and its clock, for the tests of sentences of docs/seats.md.

use allot_core::seat::plan::{self, Plan, PlanPart};
use allot_core::seat::request::{Adjacent, Hold, Orphans, Pick, Request, Wish};
use allot_core::seat::{Reply, Show, decide, decide_due};
use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::token::TokenChoice;
use serde_json::{Value, json};

/// A show and its clock.
pub(super) struct House {
    pub(super) show: Show,
    pub(super) now: i64,
    next: u32,
}

/// A hold request with the defaults of `SEAT.HOLD`.
pub(super) fn wish(user: &str, count: u32) -> Hold<'_> {
    Hold {
        user: user.as_bytes(),
        ttl: 1000,
        replace: None,
        exchange: vec![],
        token: TokenChoice { token: b"", chosen: false },
        wish: Wish {
            count,
            tier: None,
            areas: vec![],
            adjacent: Adjacent::Prefer,
            orphans: Orphans::Avoid,
            flags: vec![],
            needs: vec![],
            preferred: vec![],
            from: None,
        },
    }
}

impl House {
    pub(super) fn new(plan: &Value) -> Self {
        Self { show: Show::open(&plan.to_string(), 0).unwrap(), now: 1, next: 0 }
    }

    /// One area `a` with these rows; `.` a seat, a space a break. No user limits.
    pub(super) fn rows(rule: &str, rows: &[&str]) -> Self {
        Self::new(&json!({"areas": [area("a", 1, rule, rows)], "limits": {"holds_per_user": 0}}))
    }

    pub(super) fn ask(&mut self, request: &Request<'_>) -> Result<Reply, Refusal> {
        for event in decide_due(&self.show, self.now, usize::MAX) {
            self.show.apply(self.now, &event);
        }
        let decision = decide(&self.show, self.now, request)?;
        for event in &decision.events {
            self.show.admits(event).unwrap();
            self.show.apply(self.now, event);
        }
        Ok(decision.reply)
    }

    /// The seats that a hold gets, `none`, or the code of its refusal.
    pub(super) fn hold(&mut self, hold: Hold<'_>) -> String {
        self.next += 1;
        let token = format!("t{}", self.next);
        let token = if hold.token.chosen {
            hold.token
        } else {
            TokenChoice { token: token.as_bytes(), chosen: false }
        };
        match self.ask(&Request::Hold(Hold { token, ..hold })) {
            Ok(Reply::Hold(record)) => {
                record.seats.iter().map(|&seat| self.show.venue().id(seat)).collect::<Vec<_>>().join(" ")
            }
            Ok(_) => "none".into(),
            Err(refusal) => refusal.code.word().into(),
        }
    }

    pub(super) fn pick(&mut self, user: &str, token: &str, seats: &[&str]) -> Result<Reply, Refusal> {
        let token = TokenChoice { token: token.as_bytes(), chosen: true };
        let seats = seats.iter().map(|seat| seat.as_bytes()).collect();
        self.ask(&Request::Pick(Pick {
            user: user.as_bytes(),
            ttl: 1000,
            token,
            orphans: None,
            from: None,
            seats,
            exchange: vec![],
        }))
    }

    /// Takes seats away: what is left is what the test is about.
    pub(super) fn block(&mut self, seats: &[&str]) {
        self.ask(&Request::Block {
            name: None,
            until: None,
            per_user: None,
            seats: seats.iter().map(|seat| seat.as_bytes()).collect(),
        })
        .unwrap();
    }

    pub(super) fn confirm(&mut self, token: &str, order: Option<&str>) -> Result<Reply, Refusal> {
        self.ask(&Request::Confirm { token: token.as_bytes(), user: None, order: order.map(str::as_bytes) })
    }

    pub(super) fn release(&mut self, token: &str) -> Result<Reply, Refusal> {
        self.ask(&Request::Release { token: token.as_bytes(), seats: None, into: None })
    }

    pub(super) fn alter(&mut self, part: &Value) -> Result<Reply, Refusal> {
        let part: PlanPart = plan::parse(part.to_string().as_bytes()).unwrap();
        self.ask(&Request::Alter(part))
    }

    /// The rows as `SEAT.MAP` draws them.
    pub(super) fn map(&self) -> String {
        let venue = self.show.venue();
        let rows = (0..venue.areas().len() as u32).flat_map(|area| venue.rows_in_plan(area));
        let rows = rows.map(|row| {
            let mut line = String::new();
            self.show.write_map_row(row, &mut line);
            line
        });
        rows.collect::<Vec<_>>().join("/")
    }
}

pub(super) fn area(id: &str, priority: i32, rule: &str, rows: &[&str]) -> Value {
    let rows: Vec<Value> = rows
        .iter()
        .enumerate()
        .map(|(number, row)| {
            let mut label = 0;
            let seats: Vec<Value> = row
                .chars()
                .map(|seat| {
                    label += i32::from(seat != ' ');
                    match seat {
                        ' ' => Value::Null,
                        '.' => json!({"label": label.to_string()}),
                        'w' => json!({"label": label.to_string(), "flags": ["wheelchair"]}),
                        tier => json!({"label": label.to_string(), "tier": tier.to_string()}),
                    }
                })
                .collect();
            json!({"label": (number + 1).to_string(), "rank": number, "tier": "gold", "seats": seats})
        })
        .collect();
    json!({"id": id, "priority": priority, "rule": rule, "rows": rows})
}

pub(super) fn code(outcome: Result<Reply, Refusal>) -> Code {
    outcome.unwrap_err().code
}

pub(super) fn plan_error(plan: &Value) -> String {
    let parsed = plan::parse::<Plan>(plan.to_string().as_bytes());
    parsed.and_then(|plan| Show::new(&plan, 0)).unwrap_err().to_string()
}

// Show.
