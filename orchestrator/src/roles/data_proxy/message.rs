//! What units tell, as the stream `info` carries it, and what becomes of it. No clock, no I/O.

use allot_client::streams::Entry;

/// The event of a message with details.
pub(crate) const SET: &str = "SET";

/// What an entry asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    /// Details of a conference, by the unit that has it.
    Set {
        /// Number, unit, epoch and seq, as they came.
        head: [&'a [u8]; 4],
        /// Fields and values.
        details: &'a [(Vec<u8>, Vec<u8>)],
    },
    /// Messages were lost before they could be read.
    Resync,
    /// Trimmed away, or nothing that we know.
    Odd,
}

/// Reads an entry: `event SET e164 .. cmu .. epoch .. seq ..`, and behind these the details.
pub(crate) fn read(entry: &Entry) -> Message<'_> {
    let Some(((event, word), rest)) = entry.fields.split_first() else { return Message::Odd };
    if event != b"event" {
        return Message::Odd;
    }
    if word == b"RESYNC" {
        return Message::Resync;
    }
    let [(e164, number), (cmu, unit), (epoch, at), (seq, order), details @ ..] = rest else {
        return Message::Odd;
    };
    let named = [e164, cmu, epoch, seq].map(Vec::as_slice) == [&b"e164"[..], b"cmu", b"epoch", b"seq"];
    if word != SET.as_bytes() || !named || details.is_empty() {
        return Message::Odd;
    }
    Message::Set { head: [number, unit, at, order], details }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> Entry {
        let words: Vec<&str> = text.split(' ').collect();
        let fields =
            words.chunks(2).map(|pair| (pair[0].into(), pair.get(1).copied().unwrap_or("").into())).collect();
        Entry { id: "1-0".into(), fields }
    }

    #[test]
    fn details_come_behind_number_unit_epoch_and_seq() {
        let entry = entry("event SET e164 49 cmu a:1:1 epoch 7 seq 3 members 2 e164 odd");
        let Message::Set { head, details } = read(&entry) else { panic!("details") };
        assert_eq!(head, [&b"49"[..], b"a:1:1", b"7", b"3"]);
        assert_eq!(details, [(b"members".to_vec(), b"2".to_vec()), (b"e164".to_vec(), b"odd".to_vec())]);
    }

    #[test]
    fn what_else_there_is() {
        assert_eq!(read(&entry("event RESYNC e164  cmu  epoch 0")), Message::Resync);
        for odd in [
            "event SET e164 49 cmu a:1:1 epoch 7 seq 3",
            "event SET e164 49 cmu a:1:1 seq 3 epoch 7 members 2",
            "event TELL e164 49 cmu a:1:1 epoch 7 seq 3 members 2",
            "e164 49",
        ] {
            assert_eq!(read(&entry(odd)), Message::Odd, "{odd}");
        }
        assert_eq!(read(&Entry { id: "1-0".into(), fields: Vec::new() }), Message::Odd);
    }
}
