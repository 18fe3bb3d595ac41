//! Reads the words of a call by the parameters of its command, and says which word is wrong.
//!
//! The words are walked once and nothing is allocated. Parameters without a keyword are read in their order; those with
//! one (options) in any order, each at most once unless it may be repeated.

use allot_core::invariant;
use allot_core::shared::MAX_IDENTIFIER;
use allot_core::shared::invariant::Expected;
use allot_core::shared::refusal::Refusal;
use allot_core::shared::text::quoted;

use super::argument::{Argument, Places};
use super::parameter::{Kind, Parameter, fewest, position, tokens};
use super::syntax::Syntax;
use super::word::{fault, integer, is_identifier, not_natural, not_one_of, wrong_number};

/// How an error message names a parameter.
#[derive(Clone, Copy)]
enum Label<'a> {
    Name(&'static str),
    /// The option as the caller has written it.
    Option(&'a [u8]),
}

/// The position of a walk over the words.
struct Parser<'a> {
    words: &'a [&'a [u8]],
    next: usize,
}

/// The argument of these words, the first of which is at `from`.
#[inline]
fn given<'a>(parameter: &'static Parameter, words: &'a [&'a [u8]], from: usize, number: i64) -> Argument<'a> {
    // The handler of a key needs the server's string, and finds it by the place of the word.
    let is_key = matches!(parameter.kind, Kind::Key) || parameter.is_list_of_keys();
    let number = if is_key { from as i64 } else { number };
    Argument { parameter: Some(parameter), words, number }
}

/// Reads the arguments of a call, parameter by parameter.
pub(crate) fn parse<'a>(
    syntax: &'static Syntax,
    words: &'a [&'a [u8]],
    arguments: &mut [Argument<'a>],
) -> Result<(), Refusal> {
    let mut parser = Parser { words, next: 1 };
    let mut at = 0;
    while let (Some(parameter), Some(argument)) = (syntax.parameters.get(at), arguments.get_mut(at)) {
        if at == syntax.options.start {
            parser.options(syntax, arguments)?;
            at = syntax.options.end;
            continue;
        }
        at += 1;
        if parameter.is_plain && !parameter.optional && parameter.token.is_none() {
            parser.plain(parameter, Label::Name(parameter.name), argument)?;
        } else {
            let later = syntax.parameters.get(at..).unwrap_or_default();
            parser.positional(parameter, later, argument)?;
        }
    }
    if let Some(word) = parser.peek() {
        return Err(unexpected(word));
    }
    // The parameters that are no options are there, or are optional.
    if !syntax.needs_option {
        return Ok(());
    }
    let mut pairs = syntax.parameters.iter().zip(arguments);
    match pairs.find(|(parameter, argument)| !parameter.optional && !argument.is_given()) {
        Some((parameter, _)) => Err(missing(parameter)),
        None => Ok(()),
    }
}

impl<'a> Parser<'a> {
    #[inline]
    fn peek(&self) -> Option<&'a [u8]> {
        self.words.get(self.next).copied()
    }

    fn left(&self) -> usize {
        self.words.len().saturating_sub(self.next)
    }

    /// Records the words from `from` up to here as the argument for a parameter.
    #[inline]
    fn give(&self, parameter: &'static Parameter, from: usize, number: i64) -> Argument<'a> {
        given(parameter, self.words.get(from..self.next).unwrap_or_default(), from, number)
    }

    /// Reads options in any order, up to the first word that is none of them.
    fn options(&mut self, syntax: &'static Syntax, arguments: &mut [Argument<'a>]) -> Result<(), Refusal> {
        while let Some(word) = self.peek() {
            let Some((at, option, which)) = syntax.option(word) else { break };
            let Some(argument) = arguments.get_mut(at).expected("each parameter has an argument") else {
                break;
            };
            let before = Places(if option.many { argument.number as u64 } else { 0 });
            if argument.is_given() && !option.many {
                // Two different alternatives exclude each other.
                let again = option.token.is_some() || argument.number == which;
                let twice = || fault(format!("option {} is given twice", quoted(word)));
                return Err(if again { twice() } else { unexpected(word) });
            }
            self.next += 1;
            if option.is_plain {
                self.plain(option, Label::Option(word), argument)?;
            } else {
                *argument = self.behind(option, which, word, before)?;
            }
        }
        Ok(())
    }

    /// Reads the words after the keyword of an option. The keyword was just read. `before` are the places of an option that
    /// was given before.
    fn behind(
        &mut self,
        option: &'static Parameter,
        which: i64,
        keyword: &'a [u8],
        before: Places,
    ) -> Result<Argument<'a>, Refusal> {
        let label = Label::Option(keyword);
        match option.kind {
            Kind::Word => Ok(self.give(option, self.next - 1, 0)),
            Kind::OneOf(_) if option.token.is_none() => Ok(self.give(option, self.next - 1, which)),
            Kind::Block(inner) => self.block(option, inner, keyword, before),
            _ => self.value(option, label),
        }
    }

    /// Reads the rest of a block that begins with a keyword: a value and perhaps a word, a value and a counted list, two
    /// values, a list up to the end, a second keyword and a value, or values if it may be given several times.
    fn block(
        &mut self,
        option: &'static Parameter,
        inner: &'static [Parameter],
        keyword: &'a [u8],
        before: Places,
    ) -> Result<Argument<'a>, Refusal> {
        let label = Label::Option(keyword);
        match inner {
            [first, list] if matches!(first.kind, Kind::Word) && list.many => {
                let from = self.next;
                self.one(list, label)?;
                while self.peek().is_some() {
                    self.one(list, label)?;
                }
                Ok(self.give(option, from, 0))
            }
            values if option.many => {
                let place = self.next;
                for value in values {
                    self.one(value, label)?;
                }
                let places = before.with(place).ok_or_else(|| too_often(keyword))?;
                Ok(Argument { parameter: Some(option), words: self.words, number: places.0 as i64 })
            }
            [value, list] if matches!(list.kind, Kind::Counted(_)) => {
                let from = self.next;
                self.value(value, label)?;
                self.value(list, label)?;
                Ok(self.give(option, from, 0))
            }
            [first, value] if matches!(first.kind, Kind::Word) => {
                let second = self.peek().filter(|next| value.begins_with(next).is_some());
                let Some(second) = second else { return Err(missing(value)) };
                self.next += 1;
                Ok(Argument { parameter: Some(option), ..self.value(value, Label::Option(second))? })
            }
            [value, word] if matches!(word.kind, Kind::Word) => {
                let argument = self.value(value, label)?;
                let more = self.peek().is_some_and(|next| word.begins_with(next).is_some());
                self.next += usize::from(more);
                Ok(Argument { parameter: Some(option), number: more.into(), ..argument })
            }
            [first, second] => {
                let from = self.next;
                self.one(first, label)?;
                self.one(second, label)?;
                Ok(self.give(option, from, 0))
            }
            _ => {
                invariant!(
                    "a block with a keyword is a value with a word, a list, a value or a keyword, or a list"
                );
                Err(unexpected(keyword))
            }
        }
    }

    /// Reads a parameter without a keyword. `later` are the parameters that follow it.
    fn positional(
        &mut self,
        parameter: &'static Parameter,
        later: &'static [Parameter],
        argument: &mut Argument<'a>,
    ) -> Result<(), Refusal> {
        let next = self.peek();
        if parameter.token.is_some() {
            match next.filter(|next| parameter.begins_with(next).is_some()) {
                Some(keyword) => {
                    self.next += 1;
                    *argument = self.behind(parameter, 0, keyword, Places(0))?;
                }
                None if parameter.optional => {}
                None => return Err(missing(parameter)),
            }
            return Ok(());
        }
        if parameter.optional {
            // The parameters that follow need the remaining words.
            let taken = next.is_some_and(|next| parameter.takes(next)) && self.left() > fewest(later).0;
            if !taken {
                return Ok(());
            }
        }
        *argument = match parameter.kind {
            Kind::Block(inner) => self.rows(parameter, inner.len())?,
            Kind::OneOf(inner) => self.one_of(parameter, inner)?,
            Kind::Counted([count, _]) => self.value(parameter, Label::Option(count.name.as_bytes()))?,
            _ => self.value(parameter, Label::Name(parameter.name))?,
        };
        Ok(())
    }

    /// Reads all remaining words, which form rows of this length.
    fn rows(&mut self, parameter: &'static Parameter, length: usize) -> Result<Argument<'a>, Refusal> {
        let from = self.next;
        if !self.left().is_multiple_of(length) {
            return Err(missing(parameter));
        }
        self.next = self.words.len();
        Ok(self.give(parameter, from, 0))
    }

    /// Reads one of several alternatives: one with a keyword if the next word is this keyword, otherwise the one
    /// without.
    fn one_of(
        &mut self,
        parameter: &'static Parameter,
        inner: &'static [Parameter],
    ) -> Result<Argument<'a>, Refusal> {
        let word = self.peek().ok_or_else(|| wrong_number(self.words))?;
        let bare = inner.iter().find(|one| one.token.is_none());
        let by_keyword = inner.iter().find(|one| {
            let enough = self.left() >= one.fewest().0 || !bare.is_some_and(|bare| bare.takes(word));
            enough && one.begins_with(word).is_some()
        });
        let argument = match (by_keyword, bare) {
            (Some(one), _) => {
                self.next += 1;
                self.behind(one, 0, word, Places(0))?
            }
            (None, Some(bare)) => self.value(bare, Label::Name(bare.name))?,
            (None, None) => {
                let command = self.words.first().copied().unwrap_or_default();
                return Err(not_one_of(command, word, tokens(inner)));
            }
        };
        let which = position(inner, |one| argument.parameter.is_some_and(|given| std::ptr::eq(one, given)));
        Ok(Argument { parameter: Some(parameter), number: which.unwrap_or_default(), ..argument })
    }

    /// Reads the value of a parameter: one word or number, several of them, a counted list, or one of some words.
    #[inline]
    fn value(&mut self, parameter: &'static Parameter, label: Label<'a>) -> Result<Argument<'a>, Refusal> {
        let from = self.next;
        let number = match parameter.kind {
            Kind::Counted(inner) => return self.counted(parameter, inner, label),
            Kind::OneOf(inner) => {
                let word = self.word(label)?;
                let which = position(inner, |one| one.begins_with(word).is_some());
                which.ok_or_else(|| not_one_of(label.text(), word, tokens(inner)))?
            }
            _ => self.one(parameter, label)?,
        };
        while parameter.many && self.peek().is_some_and(|next| parameter.takes(next)) {
            self.one(parameter, Label::Name(parameter.token.unwrap_or(parameter.name)))?;
        }
        Ok(self.give(parameter, from, number))
    }

    /// Reads the value of a parameter that is one word, as most are.
    #[inline]
    fn plain(
        &mut self,
        parameter: &'static Parameter,
        label: Label<'a>,
        argument: &mut Argument<'a>,
    ) -> Result<(), Refusal> {
        let from = self.next;
        let read = self.words.get(from).and_then(|word| Some((word, parameter.read(word)?)));
        let Some((word, number)) = read else { return Err(self.unread(parameter, label)) };
        self.next += 1;
        *argument = given(parameter, std::slice::from_ref(word), from, number);
        Ok(())
    }

    /// Reads one word; its number, if it is one.
    fn one(&mut self, parameter: &Parameter, label: Label<'a>) -> Result<i64, Refusal> {
        match self.peek().and_then(|word| parameter.read(word)) {
            Some(number) => {
                self.next += 1;
                Ok(number)
            }
            None => Err(self.unread(parameter, label)),
        }
    }

    /// The reason why the next word cannot be read for this parameter.
    #[cold]
    fn unread(&self, parameter: &Parameter, label: Label<'a>) -> Refusal {
        match self.peek() {
            Some(word) => unsound(parameter, label, word),
            None => self.no_word(label),
        }
    }

    /// Reads a number, and then so many words, or so many rows of words.
    fn counted(
        &mut self,
        parameter: &'static Parameter,
        [_, list]: &'static [Parameter; 2],
        label: Label<'a>,
    ) -> Result<Argument<'a>, Refusal> {
        let word = self.word(label)?;
        let count = integer(word).ok_or_else(|| not_a_number(label, word))?;
        let fewest = usize::from(!list.optional);
        let Some(count) = usize::try_from(count).ok().filter(|&count| count >= fewest) else {
            return Err(fault(format!("{}: the number of words must be {fewest} or more", label.shown())));
        };
        let (row, things) = if let Kind::Block(row) = list.kind { (row.len(), "rows") } else { (1, "words") };
        let (from, left) = (self.next, self.left());
        let Some(words) = count.checked_mul(row).filter(|&words| words <= left) else {
            let text = format!("{count} {things} are announced and {} follow", left / row.max(1));
            return Err(fault(format!("{}: {text}", label.shown())));
        };
        self.next += words;
        let argument = self.give(parameter, from, count as i64);
        match argument.words.iter().find(|word| matches!(list.kind, Kind::Name) && !is_identifier(word)) {
            Some(word) => {
                let text = format!("each word must have 1 to {MAX_IDENTIFIER} bytes, not {}", word.len());
                Err(fault(format!("{}: {text}", label.shown())))
            }
            None => Ok(argument),
        }
    }

    /// The next word, which must be there.
    #[inline]
    fn word(&mut self, label: Label<'_>) -> Result<&'a [u8], Refusal> {
        let Some(word) = self.peek() else { return Err(self.no_word(label)) };
        self.next += 1;
        Ok(word)
    }

    #[cold]
    fn no_word(&self, label: Label<'_>) -> Refusal {
        match label {
            Label::Name(_) => wrong_number(self.words),
            Label::Option(option) => fault(format!("option {} has no value", quoted(option))),
        }
    }
}

/// A refusal of a word that its parameter does not allow.
#[cold]
fn unsound(parameter: &Parameter, label: Label<'_>, word: &[u8]) -> Refusal {
    match parameter.kind {
        Kind::Like(_, form) => fault(format!("{} {} is not {form}", parameter.name, quoted(word))),
        Kind::Integer => not_a_number(label, word),
        Kind::Natural => not_natural(parameter.token.unwrap_or(parameter.name), word),
        _ => {
            let text = format!("must have 1 to {MAX_IDENTIFIER} bytes, not {}", word.len());
            fault(format!("{} {text}", label.shown()))
        }
    }
}

impl<'a> Label<'a> {
    fn text(self) -> &'a [u8] {
        match self {
            Self::Name(name) => name.as_bytes(),
            Self::Option(option) => option,
        }
    }

    /// Options are quoted, because they are bytes of the caller.
    fn shown(self) -> String {
        match self {
            Self::Name(name) => name.to_owned(),
            Self::Option(option) => quoted(option),
        }
    }
}

/// A refusal of an option that is given more often than may be.
#[cold]
fn too_often(keyword: &[u8]) -> Refusal {
    fault(format!("option {} may be given 4 times", quoted(keyword)))
}

/// A refusal of a word that is not expected at its place.
#[cold]
fn unexpected(word: &[u8]) -> Refusal {
    fault(format!("syntax error: {} is not expected here", quoted(word)))
}

#[cold]
fn missing(parameter: &Parameter) -> Refusal {
    match parameter.missing {
        "" => fault(format!("{} is missing", parameter.token.unwrap_or(parameter.name))),
        text => fault(text),
    }
}

#[cold]
fn not_a_number(label: Label<'_>, word: &[u8]) -> Refusal {
    let text = match label {
        Label::Name(name) => format!("{name} must be a whole number, not {}", quoted(word)),
        Label::Option(option) => format!("{} takes a whole number, not {}", quoted(option), quoted(word)),
    };
    fault(text)
}
