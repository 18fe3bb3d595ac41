//! The settings of a realm, by the names of the command line.

use crate::failure::{Failure, Result};
use crate::time;

/// What the value of a setting is.
enum Form {
    Number,
    Time,
    Words(&'static [&'static str]),
}

/// The settings: the name, the word of `CONF.REALM`, and the form of the value.
const SETTINGS: [(&str, &str, Form); 13] = [
    ("licences", "LICENCES", Form::Number),
    ("retry", "RETRY", Form::Time),
    ("window", "WINDOW", Form::Time),
    ("policy", "POLICY", Form::Words(&["earliest", "keep"])),
    ("create-timeout", "CREATETIMEOUT", Form::Time),
    ("release-timeout", "RELEASETIMEOUT", Form::Time),
    ("wait-timeout", "WAITTIMEOUT", Form::Time),
    ("tombstone", "TOMBSTONE", Form::Time),
    ("place", "PLACE", Form::Words(&["share", "load"])),
    ("tries", "TRIES", Form::Number),
    ("failures", "FAILURES", Form::Number),
    ("warn", "WARN", Form::Time),
    ("ramp", "RAMP", Form::Time),
];

/// The names of the settings, for completion: `NAME=` and each value.
pub(crate) fn setting_words() -> Vec<String> {
    let words = |(name, _, form): &(&str, &str, Form)| match form {
        Form::Words(words) => words.iter().map(|word| format!("{name}={word}")).collect(),
        Form::Number | Form::Time => vec![format!("{name}=")],
    };
    SETTINGS.iter().flat_map(words).collect()
}

/// Reads `NAME=VALUE` as arguments of `CONF.REALM`.
pub(crate) fn setting(text: &str) -> Result<(&'static str, &'static str, String)> {
    let names = || SETTINGS.map(|(name, ..)| name).join(", ");
    let Some((name, value)) = text.split_once('=') else {
        return Err(
            Failure::usage(format!("'{text}' is no NAME=VALUE")).hint(format!("settings: {}", names()))
        );
    };
    let wanted = name.replace('_', "-");
    let wanted = wanted.strip_suffix("-ms").unwrap_or(&wanted);
    let found = SETTINGS.iter().find(|(known, ..)| *known == wanted);
    let Some((name, word, form)) = found else {
        return Err(
            Failure::usage(format!("a realm has no setting '{name}'")).hint(format!("settings: {}", names()))
        );
    };
    let wrong = |what: &str| Failure::usage(format!("{name}={value}: {what}"));
    let value = match form {
        Form::Number => value.parse::<u64>().map_err(|_| wrong("write a number"))?.to_string(),
        Form::Time if value.parse::<u64>().is_ok() && text.contains("ms=") => value.to_owned(),
        Form::Time => time::span(value).map_err(|why| wrong(&why))?.as_millis().to_string(),
        Form::Words(words) => {
            let word = words.iter().find(|word| word.eq_ignore_ascii_case(value));
            word.ok_or_else(|| wrong(&format!("write {}", words.join(" or "))))?.to_ascii_uppercase()
        }
    };
    Ok((name, word, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_checked_and_explained() {
        assert_eq!(setting("window=20m").unwrap(), ("window", "WINDOW", "1200000".into()));
        assert_eq!(
            setting("create_timeout_ms=4000").unwrap(),
            ("create-timeout", "CREATETIMEOUT", "4000".into())
        );
        assert_eq!(setting("place=Load").unwrap(), ("place", "PLACE", "LOAD".into()));
        for (text, part) in
            [("place=most", "share or load"), ("window=5", "500ms"), ("licences=x", "a number")]
        {
            let failure = setting(text).unwrap_err();
            assert!(failure.message.contains(part), "{}", failure.message);
        }
        assert!(setting("sise=1").unwrap_err().hint.unwrap().contains("licences"));
    }
}
