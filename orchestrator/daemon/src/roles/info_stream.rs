//! The messages of the stream `info`, by which units send details of conferences to the data proxies. No clock, no I/O.

use allot_client::streams::Entry;
use redis::Cmd;

/// Words of a message without its details, and bytes of a usual message.
const WORDS: usize = 13;
const BYTES: usize = 256;
/// The event of a message with details.
const SET: &str = "SET";

/// A message, as a data proxy reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    /// Details of a conference, by the unit that has it.
    Set {
        /// Number, unit, epoch and sequence number, as the unit sent them.
        head: [&'a [u8]; 4],
        /// Fields and values.
        details: &'a [(Vec<u8>, Vec<u8>)],
    },
    /// Messages were lost before a proxy could read them.
    Resync,
    /// The entry was trimmed away, or is no message that this version knows.
    Unknown,
}

/// The command that sends details: `event SET e164 .. cmu .. epoch .. seq ..`, then the details.
pub(crate) fn details(
    stream: &str,
    e164: &[u8],
    cmu: &str,
    epoch: u64,
    seq: u64,
    details: &[(String, String)],
) -> Cmd {
    // Room for the whole message, so that arguments do not move while they are added.
    let mut message = Cmd::with_capacity(WORDS + 2 * details.len(), BYTES);
    message.arg("XADD").arg(stream).arg("*").arg("event").arg(SET).arg("e164").arg(e164);
    message.arg("cmu").arg(cmu).arg("epoch").arg(epoch).arg("seq").arg(seq);
    for (field, value) in details {
        message.arg(field).arg(value);
    }
    message
}

/// Decodes an entry of the stream.
pub(crate) fn read(entry: &Entry) -> Message<'_> {
    let Some(((name, event), rest)) = entry.fields.split_first() else { return Message::Unknown };
    if name != b"event" {
        return Message::Unknown;
    }
    if event == b"RESYNC" {
        return Message::Resync;
    }
    let [(e164, number), (cmu, unit), (epoch, at), (seq, order), details @ ..] = rest else {
        return Message::Unknown;
    };
    let is_head = [e164, cmu, epoch, seq].map(Vec::as_slice) == [&b"e164"[..], b"cmu", b"epoch", b"seq"];
    if event != SET.as_bytes() || !is_head || details.is_empty() {
        return Message::Unknown;
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
    fn sent_details_are_read_back() {
        let fields = [("members".to_owned(), "2".to_owned()), ("e164".to_owned(), "odd".to_owned())];
        let message = details("{r}:info", b"49", "a:1:1", 7, 3, &fields);
        let words: Vec<String> = message
            .args_iter()
            .filter_map(|arg| match arg {
                redis::Arg::Simple(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
                _ => None,
            })
            .collect();
        assert_eq!(words[..3], ["XADD", "{r}:info", "*"]);
        let entry = entry(&words[3..].join(" "));
        let Message::Set { head, details } = read(&entry) else { panic!("no details") };
        assert_eq!(head, [&b"49"[..], b"a:1:1", b"7", b"3"]);
        assert_eq!(details, [(b"members".to_vec(), b"2".to_vec()), (b"e164".to_vec(), b"odd".to_vec())]);
    }

    #[test]
    fn entries_of_other_form_are_unknown() {
        assert_eq!(read(&entry("event RESYNC e164  cmu  epoch 0")), Message::Resync);
        for unknown in [
            "event SET e164 49 cmu a:1:1 epoch 7 seq 3",
            "event SET e164 49 cmu a:1:1 seq 3 epoch 7 members 2",
            "event TELL e164 49 cmu a:1:1 epoch 7 seq 3 members 2",
            "e164 49",
        ] {
            assert_eq!(read(&entry(unknown)), Message::Unknown, "{unknown}");
        }
        assert_eq!(read(&Entry { id: "1-0".into(), fields: Vec::new() }), Message::Unknown);
    }
}
