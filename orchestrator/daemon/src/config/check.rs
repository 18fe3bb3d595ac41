//! Checks that settings fit together, and that the roles of a process have the settings that they need.

use std::time::Duration;

use allot_runtime::settings::Span;
use anyhow::{Error, Result, ensure};

use super::resolve::Config;
use super::sections::Role;

impl Config {
    /// Checks that the process can run its roles: required settings are present, and the times of these roles fit
    /// together. Commands that use a file only for its servers skip this check.
    pub fn check_roles(&self) -> Result<()> {
        let plays = |role| self.roles.contains(&role);
        if plays(Role::Scheduler) || plays(Role::MediaUnit) {
            self.check_leases()?;
            self.check_wait("scheduler.wait", self.scheduler.wait)?;
        }
        if plays(Role::Scheduler) {
            self.check_tick()?;
        }
        if plays(Role::Accounts) {
            self.check_wait("accounts.wait", self.accounts.wait)?;
        }
        ensure!(
            self.zookeeper.is_some() || !self.roles.contains(&Role::Accounts),
            "the accounts role needs a ZooKeeper, where client systems come: set zookeeper.servers"
        );
        if self.roles.contains(&Role::Compaction) {
            ensure!(
                self.zookeeper.is_some(),
                "the compaction role needs a ZooKeeper, by which tasks are submitted: set zookeeper.servers"
            );
            ensure!(
                !self.compaction.runner.is_empty(),
                "compaction.runner is not set: the program that compacts a partition"
            );
            ensure!(
                self.compaction.node.is_some(),
                "compaction.node is not set: the unit's name, <host>_<port>"
            );
        }
        Ok(())
    }

    /// Checks that the programs of the roles are on this machine. A process that lacks them still starts, and says so.
    pub fn check_programs(&self) -> Result<()> {
        if self.roles.contains(&Role::Compaction) {
            self.compaction.check_runner().map_err(Error::msg)?;
        }
        Ok(())
    }

    /// Checks that units do not seem silent only because a server answers slowly.
    fn check_leases(&self) -> Result<()> {
        let unit = &self.media_unit;
        ensure!(
            unit.beat * 2 <= unit.lease,
            "media-unit.beat is {}, and media-unit.lease {}: a unit must be able to miss a heartbeat, so at most half of the lease",
            Span(unit.beat),
            Span(unit.lease)
        );
        let most = unit.lease.saturating_sub(unit.beat) / 2;
        ensure!(
            self.servers.timeout <= most,
            "redis.timeout is {}: with media-unit.lease {} and media-unit.beat {} it may be {} at most, or a slow server would \
             look like silent units",
            Span(self.servers.timeout),
            Span(unit.lease),
            Span(unit.beat),
            Span(most)
        );
        Ok(())
    }

    /// Checks that a tick is shorter than a session. Otherwise the scheduler would assume that it had been suspended,
    /// and declare no unit down.
    fn check_tick(&self) -> Result<()> {
        let (tick, session) = (self.scheduler.tick, self.session());
        let whose =
            if self.zookeeper.is_some() { "with zookeeper.session" } else { "without a ZooKeeper, session" };
        ensure!(
            tick * 2 <= session,
            "scheduler.tick is {}: {whose} {} it may be {} at most, or the scheduler would take its own tick for a suspension, \
             and declare no unit down",
            Span(tick),
            Span(session),
            Span(session / 2)
        );
        Ok(())
    }

    /// Checks that a wait for replicas ends within the time limit of an answer.
    fn check_wait(&self, name: &str, wait: Duration) -> Result<()> {
        ensure!(
            wait < self.servers.timeout,
            "{name} is {}, and redis.timeout {}: a replica that is late would end the session",
            Span(wait),
            Span(self.servers.timeout)
        );
        Ok(())
    }
}
