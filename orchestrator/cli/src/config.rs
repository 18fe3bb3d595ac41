//! `allot config`, `allot completion` and man pages.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use allot_console::Section as Console;
use allotd::arguments::Arguments;
use allotd::config::sections::Given;
use clap::{Args, CommandFactory as _, Subcommand, ValueEnum};
use clap_complete::env::Shells;
use serde_json::json;

use crate::context::Context;
use crate::failure::{Cause, Failure, Result};
use crate::output::{self, Section, columns};
use crate::settings;

/// The verbs of settings.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Check the files of settings, and print what they make of the server in use
    Check,
    /// Print a file with every setting
    Example {
        /// The program whose file it is
        #[arg(value_enum, default_value_t = Program::Allot)]
        of: Program,
    },
}

/// A program with a file of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Program {
    /// This command line
    Allot,
    /// The daemon, and the console
    Allotd,
}

/// Arguments of `completion`.
#[derive(Debug, Args)]
pub(crate) struct Completion {
    /// The shell
    #[arg(value_parser = ["bash", "zsh", "fish"])]
    shell: String,
}

columns! {
    CHECKED = server Text, named_by Text, files Text;
    SETTINGS = setting Text, value Text;
}

/// Runs a verb.
pub(crate) fn run(context: &Context, verb: &Verb) -> Result {
    match verb {
        Verb::Check => {
            let settings = &context.settings;
            let servers = settings.servers("")?;
            settings.confirmation()?;
            if let Some(zookeeper) = &settings.server.zookeeper {
                let servers = zookeeper.parse().map_err(|why| Failure::input(format!("zookeeper: {why}")))?;
                settings.ensemble(servers, Duration::ZERO)?;
            }
            let files: Vec<String> = settings.files.iter().map(|path| path.display().to_string()).collect();
            let row = json!({"server": settings.name.clone().unwrap_or_else(|| servers.to_string()), "named_by": settings.named_by, "files": files});
            let value = |(setting, value): (&str, &str)| json!({"setting": setting, "value": allot_client::without_password(value)});
            let rows: Vec<_> = settings.server.given().into_iter().map(value).collect();
            context.out.get(CHECKED, &row, &[Section { name: "settings", columns: SETTINGS, rows: &rows }])
        }
        Verb::Example { of: Program::Allot } => context.out.text(&settings::example()),
        Verb::Example { of: Program::Allotd } => context.out.text(&daemon_example()),
    }
}

/// The settings of the daemon, and those of the console.
fn daemon_example() -> String {
    format!("{}\n{}", Given::example(), Console::example())
}

/// Keys, settings and `--server=NAME` are one word, which bash splits at each colon and equals sign. The completion
/// gets the word whole, and bash gets the part behind the last such sign.
const BASH: &str = r#"
_allot() {
    local place word typed= is_joined=
    local -a words=()
    for ((place = 0; place <= COMP_CWORD; place++)); do
        word=${COMP_WORDS[place]}
        if [[ $place -eq $COMP_CWORD && -z $2 && ${COMP_LINE:COMP_POINT-1:1} == [[:space:]] ]]; then
            words+=("") typed=
        elif [[ $word == [:=]* && $COMP_WORDBREAKS == *[:=]* || -n $is_joined ]] && [[ ${#words[@]} -gt 0 ]]; then
            typed=${words[-1]}
            [[ $word == [:=]* ]] && typed+=$word
            words[-1]+=$word
        else
            words+=("$word") typed=
        fi
        is_joined=
        [[ $word == *[:=] && $COMP_WORDBREAKS == *[:=]* ]] && is_joined=yes
    done
    local -a COMP_WORDS=("${words[@]}")
    local COMP_CWORD=$((${#words[@]} - 1))
    # Of a word that was not joined, bash has removed the quotes.
    word=$2
    [[ -n $typed ]] && word=${words[-1]}
    _clap_complete_allot "$1" "$word" "$3"
    COMPREPLY=("${COMPREPLY[@]#"$typed"}")
}
"#;

/// Prints what a shell reads to complete command lines of `allot`. It asks this program for the words.
pub(crate) fn completion(Completion { shell }: &Completion) -> Result {
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let absent = || Failure::usage(format!("there is no completion for {shell}"));
    shells
        .completer(shell)
        .ok_or_else(absent)?
        .write_registration("COMPLETE", "allot", "allot", "allot", &mut script)
        .map_err(|error| Failure::file(Cause::Local, "the script", &error))?;
    let script = String::from_utf8_lossy(&script);
    if shell == "bash" {
        return output::print(
            &script.replace("-F _clap_complete_allot", "-F _allot").replacen('\n', BASH, 1),
        );
    }
    output::print(&script)
}

/// Writes man pages of `allot`, `allotd` and each of their subcommands into a folder.
pub(crate) fn man_pages(folder: &Path, definition: clap::Command) -> Result {
    let name = folder.display().to_string();
    let failed = |error: std::io::Error| Failure::file(Cause::Local, &name, &error);
    fs::create_dir_all(folder).map_err(failed)?;
    for program in [definition, Arguments::command()] {
        clap_mangen::generate_to(program.disable_help_subcommand(true), folder).map_err(failed)?;
    }
    Ok(())
}

/// The variables of the environment, for `allot help environment`.
pub(crate) fn environment() -> String {
    let mut text = String::from(
        "Variables of the environment. An option overrides a variable, and a variable\nthe files of settings.\n\n",
    );
    let own = [
        ("ALLOT_SERVER", "the server: a name of the settings, HOST, HOST:PORT or an address"),
        ("ALLOT_FORMAT", "the format of the output, as --format"),
        ("ALLOT_LIMIT_TIME", "time limit of each answer, as --limit-time"),
        ("ALLOT_PASSWORD", "the password of the user on Redis"),
        ("ALLOT_SENTINEL_PASSWORD", "the password of the Sentinels"),
        ("ALLOT_ZOOKEEPER_PASSWORD", "the password of the user on ZooKeeper"),
        ("NO_COLOR", "no colours, if it is set"),
    ];
    let servers = settings::Server::ALL.iter().filter(|(_, variable, ..)| !variable.is_empty());
    for (variable, meaning) in
        own.into_iter().chain(servers.map(|(_, variable, _, meaning)| (*variable, *meaning)))
    {
        let _ = write!(text, "  {variable:<30}");
        let mut column = 32;
        for word in meaning.split(' ') {
            if column + 1 + word.len() > 80 {
                let _ = write!(text, "\n{:32}", "");
                column = 32;
            }
            let _ = write!(text, " {word}");
            column += 1 + word.len();
        }
        text.push('\n');
    }
    text
}

/// A folder, for the hidden verb that writes man pages.
#[derive(Debug, Args)]
pub(crate) struct Man {
    pub(crate) folder: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_example_is_the_generated_one() {
        let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/allot.toml");
        let text = fs::read_to_string(committed).unwrap();
        assert!(
            text == daemon_example(),
            "write it again: allot config example allotd > examples/allot.toml"
        );
    }
}
