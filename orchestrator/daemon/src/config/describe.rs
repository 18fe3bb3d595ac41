//! Describes a process with given settings in a few lines.

use std::fmt::Write as _;

use allot_runtime::settings::{Span, zone_name};

use super::resolve::Config;
use super::sections::Role;

/// Describes a process with these settings.
pub fn describe(config: &Config) -> String {
    let mut text = String::new();
    let roles: Vec<&str> = config.roles.iter().map(|role| role.name()).collect();
    let roles =
        if roles.is_empty() { "none: name some in allotd.roles".to_owned() } else { roles.join(", ") };
    let _ = writeln!(text, "roles: {roles}");
    let _ = writeln!(text, "redis: {}", config.servers);
    let _ = writeln!(text, "realm: {}", config.realm);
    if config.roles.contains(&Role::Accounts) {
        let zone = zone_name(&config.accounts.time_zone);
        let _ = writeln!(text, "accounts: {} under {}, {zone}", config.accounts.book, config.accounts.root);
    }
    if config.roles.contains(&Role::Compaction) {
        let compaction = &config.compaction;
        let node = compaction.node.as_deref().unwrap_or_default();
        let _ = writeln!(
            text,
            "compaction: {node} of {} under {}, {} at once by {}",
            compaction.pc,
            compaction.root,
            compaction.slots,
            compaction.runner.join(" ")
        );
    }
    let _ = match &config.zookeeper {
        Some(zookeeper) => writeln!(
            text,
            "zookeeper: {} under {}, session {}{}",
            zookeeper.servers,
            config.root,
            Span(zookeeper.session),
            zookeeper.way
        ),
        None => writeln!(text, "zookeeper: none, coordination is within the process"),
    };
    let _ = match config.http {
        Some(address) => writeln!(text, "http: {address}"),
        None => writeln!(text, "http: none, so no metrics and no probes"),
    };
    text
}
