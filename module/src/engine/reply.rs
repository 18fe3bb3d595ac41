//! Replies that are records: maps of names and values, in the order of the documentation.

use allot_core::invariant;

use crate::ffi::Context;

/// A value of a record.
pub(crate) enum Field<'a> {
    Text(&'a [u8]),
    /// Text that was made for the reply.
    Made(String),
    Number(i64),
    Null,
    List(Vec<Self>),
    Record(Vec<(&'static str, Self)>),
}

impl<'a> Field<'a> {
    pub(crate) fn maybe(text: Option<&'a [u8]>) -> Self {
        text.map_or(Self::Null, Self::Text)
    }

    pub(crate) fn number(value: Option<i64>) -> Self {
        value.map_or(Self::Null, Self::Number)
    }

    pub(crate) fn list<T>(all: impl IntoIterator<Item = T>, field: impl Fn(T) -> Self) -> Self {
        Self::List(all.into_iter().map(field).collect())
    }
}

pub(crate) fn reply_field(ctx: Context<'_>, field: &Field<'_>) {
    match field {
        Field::Text(text) => ctx.reply_string(text),
        Field::Made(text) => ctx.reply_string(text.as_bytes()),
        Field::Number(value) => ctx.reply_integer(*value),
        Field::Null => ctx.reply_null(),
        Field::List(all) => {
            ctx.reply_array(all.len());
            all.iter().for_each(|field| reply_field(ctx, field));
        }
        Field::Record(fields) => reply_record(ctx, fields),
    }
}

pub(crate) fn reply_record(ctx: Context<'_>, fields: &[(&str, Field<'_>)]) {
    ctx.reply_map(fields.len());
    for (name, field) in fields {
        ctx.reply_string(name.as_bytes());
        reply_field(ctx, field);
    }
}

pub(crate) fn reply_list<L>(ctx: Context<'_>, all: L, reply: impl FnMut(L::Item))
where
    L: IntoIterator<IntoIter: ExactSizeIterator>,
{
    let all = all.into_iter();
    ctx.reply_array(all.len());
    all.for_each(reply);
}

/// Replies with a page of a list: the cursor of the next page, and the entries.
pub(crate) fn reply_page<L>(ctx: Context<'_>, next: &Field<'_>, all: L, reply: impl FnMut(L::Item))
where
    L: IntoIterator<IntoIter: ExactSizeIterator>,
{
    ctx.reply_array(2);
    reply_field(ctx, next);
    reply_list(ctx, all, reply);
}

/// Replies with the record of something that the state must hold, since the request has just found or made it.
pub(crate) fn reply_present<T>(ctx: Context<'_>, found: Option<T>, reply: impl FnOnce(T)) {
    match expect_present(found) {
        Some(found) => reply(found),
        None => ctx.reply_null(),
    }
}

/// Something that a reference in the state leads to, and that the state must hold for that reason.
pub(crate) fn expect_present<T>(found: Option<T>) -> Option<T> {
    invariant!(found.is_some(), "what a reply or a reference names is in the state");
    found
}
