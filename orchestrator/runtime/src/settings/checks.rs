//! Checks that several sections need, and secrets.

use std::fs;
use std::path::Path;

use allot_client::Secret;
use anyhow::{Context as _, Result, ensure};

use crate::child::program;
use crate::invariant;

/// Checks a path in the coordination service.
///
/// # Errors
/// It is no path. The error names the setting, and has this example.
pub fn path(given: &str, name: &str, example: &str) -> Result<()> {
    let parts = given.strip_prefix('/').unwrap_or_default();
    ensure!(
        !parts.is_empty() && parts.split('/').all(|part| !matches!(part, "" | "." | "..")),
        "{name} is '{given}'; write a path as {example}"
    );
    Ok(())
}

/// Checks a name that is part of an identity.
///
/// # Errors
/// It is empty, too long, or has spaces. The error names the setting.
pub fn identity(name: &str, given: &str) -> Result<()> {
    ensure!(
        !given.is_empty() && given.len() <= 200 && !given.contains(char::is_whitespace),
        "{name} is '{given}'; write a name without spaces, of 200 bytes at most"
    );
    Ok(())
}

/// A secret from the first line of a file, or from the environment: a list of processes shows neither.
///
/// # Errors
/// The file cannot be read, or the secret is empty.
pub fn secret(file: Option<&Path>, name: &str, variable: &str) -> Result<Option<Secret>> {
    invariant(program::SECRETS.contains(&variable), "programs inherit no secret");
    let text = match file {
        Some(path) => {
            let text = fs::read_to_string(path).with_context(|| format!("{name} {}", path.display()))?;
            text.lines().next().unwrap_or_default().to_owned()
        }
        None => match std::env::var(variable) {
            Ok(text) => text,
            Err(_) => return Ok(None),
        },
    };
    ensure!(!text.is_empty(), "the password of {name} is empty");
    Ok(Some(Secret::new(text)))
}
