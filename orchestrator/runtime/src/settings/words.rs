//! A program with its arguments, written as one text: words between spaces. Quotes, `'` or `"`, keep the spaces within them.

use std::str::FromStr;

use serde::Deserialize;

/// A program and its arguments. In TOML it is a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Words(pub Vec<String>);

impl FromStr for Words {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Taken as one word, it would be the name of a program that does not exist.
        if text.trim_start().starts_with('[') {
            return Err(format!(
                "'{text}' is a list as in the file; a flag or variable has the program and its arguments with spaces \
                 between them"
            ));
        }
        let mut words: Vec<String> = Vec::new();
        let (mut quote, mut is_open) = (None, false);
        for letter in text.chars() {
            let is_end = quote.is_none() && letter.is_whitespace();
            if is_end {
                is_open = false;
                continue;
            }
            if !std::mem::replace(&mut is_open, true) {
                words.push(String::new());
            }
            match quote {
                Some(open) if letter == open => quote = None,
                None if matches!(letter, '\'' | '"') => quote = Some(letter),
                _ => words.last_mut().into_iter().for_each(|word| word.push(letter)),
            }
        }
        match quote {
            Some(quote) => Err(format!("a {quote} is not closed in: {text}")),
            None => Ok(Self(words)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_keep_spaces() {
        let words = |text: &str| text.parse::<Words>().map(|words| words.0);
        assert_eq!(words("/usr/bin/run  --all").unwrap(), ["/usr/bin/run", "--all"]);
        assert_eq!(
            words(r#"'/opt/my tools/run' --name="a 'b'" ''"#).unwrap(),
            ["/opt/my tools/run", "--name=a 'b'", ""]
        );
        assert_eq!(words(" ").unwrap(), Vec::<String>::new());
        assert!(words("'/opt/my tools/run").unwrap_err().contains("not closed"));
    }

    #[test]
    fn list_in_the_form_of_the_file_is_refused() {
        let error = r#"["/usr/bin/run", "--all"]"#.parse::<Words>().unwrap_err();
        assert!(error.contains("spaces between them"), "{error}");
    }
}
