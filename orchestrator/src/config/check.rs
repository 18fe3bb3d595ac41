//! Whether settings fit together, and whether the roles that are to be played can be.

use anyhow::{Result, ensure};

use super::resolve::Config;
use super::sections::Role;
use super::span::Span;

impl Config {
    /// Whether there is what the roles need, and no setting has a default for. Commands that only read a file for its
    /// stores do not ask that.
    pub(crate) fn check_roles(&self) -> Result<()> {
        ensure!(
            self.zookeeper.is_some() || !self.roles.contains(&Role::Accounts),
            "the accounts role needs a ZooKeeper, where client systems come: set zookeeper.servers"
        );
        let tick = self.conference.tick;
        ensure!(
            tick * 2 <= self.session() || !self.roles.contains(&Role::Conference),
            "conference.tick is {}: without a ZooKeeper it may be {} at most, or the scheduler would look as if it had \
             slept, and declare nobody down",
            Span(tick),
            Span(self.session() / 2)
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

    /// A server that is slow to answer must not look like units that are silent.
    pub(super) fn check_times(&self) -> Result<()> {
        let cmu = &self.cmu;
        ensure!(
            cmu.beat * 2 <= cmu.lease,
            "cmu.beat is {}, and cmu.lease {}: a unit must be able to miss a beat, so at most half of the lease",
            Span(cmu.beat),
            Span(cmu.lease)
        );
        let most = cmu.lease.saturating_sub(cmu.beat) / 2;
        ensure!(
            self.servers.timeout <= most,
            "redis.timeout is {}: with cmu.lease {} and cmu.beat {} it may be {} at most, or a slow server would \
             look like silent units",
            Span(self.servers.timeout),
            Span(cmu.lease),
            Span(cmu.beat),
            Span(most)
        );
        if let Some(self_stop) = cmu.self_stop {
            ensure!(
                self_stop >= cmu.beat * 2,
                "cmu.self-stop is {}: less than two beats would end media at the first lost one",
                Span(self_stop)
            );
            let most = cmu.lease.saturating_sub(self.servers.timeout);
            ensure!(
                self_stop <= most,
                "cmu.self-stop is {}: with cmu.lease {} and redis.timeout {} it may be {} at most, or media would \
                 still run where its conference is open elsewhere already",
                Span(self_stop),
                Span(cmu.lease),
                Span(self.servers.timeout),
                Span(most)
            );
        }
        let conference = &self.conference;
        if let Some(zookeeper) = &self.zookeeper {
            ensure!(
                conference.tick * 2 <= zookeeper.session,
                "conference.tick is {}: with zookeeper.session {} it may be {} at most, or the scheduler would look \
                 as if it had slept, and declare nobody down",
                Span(conference.tick),
                Span(zookeeper.session),
                Span(zookeeper.session / 2)
            );
        }
        ensure!(
            conference.wait < self.servers.timeout,
            "conference.wait is {}, and redis.timeout {}: a replica that is late would end the session",
            Span(conference.wait),
            Span(self.servers.timeout)
        );
        ensure!(
            self.accounts.wait < self.servers.timeout,
            "accounts.wait is {}, and redis.timeout {}: a replica that is late would end the session",
            Span(self.accounts.wait),
            Span(self.servers.timeout)
        );
        Ok(())
    }
}
