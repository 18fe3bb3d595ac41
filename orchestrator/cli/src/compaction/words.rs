//! Command lines that do not come from a shell: the requests of the console's API.

use clap::Args;

use allot_console::Refusal;

/// Reads the words of a command line.
///
/// # Errors
/// The words are wrong, for a reason that clap finds.
pub(super) fn parsed<T: Args>(words: &[String]) -> Result<T, Refusal> {
    let definition = T::augment_args(clap::Command::new("request").no_binary_name(true));
    let matches = definition.try_get_matches_from(words);
    matches.and_then(|matches| T::from_arg_matches(&matches)).map_err(|error| {
        // After the first blank line clap explains how the command is used. Missing options have a line each.
        let text = error.to_string();
        let lines: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
        Refusal::Wrong(lines.join(" ").trim_start_matches("error: ").to_owned())
    })
}

/// An option whose text is wrong in another way than clap finds.
pub(super) fn wrong(error: &anyhow::Error) -> Refusal {
    Refusal::Wrong(format!("{error:#}"))
}
