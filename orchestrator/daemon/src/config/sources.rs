//! The sources of a command's settings. Flags override the environment, and the environment overrides a file.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use serde::de::DeserializeOwned;

use super::resolve::Config;
use super::sections::{Given, redis_address};

/// A file of settings, and settings that override it.
#[derive(Debug, Args)]
pub struct Source {
    /// File of settings (TOML); examples/allot.toml has all of them.
    #[arg(long, env = "ALLOT_CONFIG", hide_env_values = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The settings over it.
    #[command(flatten)]
    pub given: Given,
}

impl Source {
    /// The settings of a process with these roles.
    ///
    /// # Errors
    /// The file cannot be read, or a setting is wrong for its roles.
    pub fn config(self) -> Result<Config> {
        let config = load(self.given, self.config.as_deref())?;
        config.check_roles()?;
        Ok(config)
    }
}

/// The resolved settings: those given, and under them those of a file.
///
/// # Errors
/// The file cannot be read, or a setting is wrong.
pub fn load(given: Given, file: Option<&Path>) -> Result<Config> {
    let Some(path) = file else { return Config::resolve(&given) };
    let mut under: Given = read(path)?;
    // The environment overrides the file.
    if redis_address().is_some() {
        under.redis.url = None;
    }
    Config::resolve(&given.over(under))
}

/// Reads sections of a file.
///
/// # Errors
/// The file cannot be read, or is wrong.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
    toml::from_str(&text)
        .map_err(|error: toml::de::Error| anyhow!("{}: {}", path.display(), error.to_string().trim_end()))
}

#[cfg(any(test, feature = "simulation"))]
impl Config {
    /// The settings of a file with this text.
    pub fn of(text: &str) -> Result<Self> {
        Self::resolve(&toml::from_str(text)?)
    }
}
