//! How a signal that ended a runner is named to people, and whether the kernel sent it because memory was short.

use rustix::process::Signal;

/// How often the kernel has killed a process of this one's control group because memory was short; `None` if it does not
/// say.
pub(super) fn kills() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let events = std::fs::read_to_string(format!("/sys/fs/cgroup{group}/memory.events")).ok()?;
    kills_in(&events)
}

fn kills_in(events: &str) -> Option<u64> {
    events.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

/// The name of a signal. `kills` is what [`kills`] said before.
pub(super) fn name(signal: i32, before: Option<u64>) -> String {
    named(signal, before, kills())
}

fn named(signal: i32, before: Option<u64>, now: Option<u64>) -> String {
    // The name is printed in quotes, after `Signal::`.
    let known = Signal::from_named_raw(signal).map(|signal| format!("{signal:?}").replace('"', ""));
    let known = known.map(|name| name.replace("Signal::", "SIG"));
    let name = known.unwrap_or_else(|| format!("signal {signal}"));
    let is_oom = signal == Signal::KILL.as_raw() && before.zip(now).is_some_and(|(before, now)| now > before);
    if is_oom { format!("{name}: the kernel ran out of memory") } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signal_has_its_name_and_the_reason_that_the_kernel_gives() {
        assert_eq!(named(9, Some(1), Some(1)), "SIGKILL");
        assert_eq!(named(9, Some(1), Some(2)), "SIGKILL: the kernel ran out of memory");
        assert_eq!(named(9, None, Some(2)), "SIGKILL");
        assert_eq!(named(11, Some(1), Some(2)), "SIGSEGV");
        assert_eq!(named(15, None, None), "SIGTERM");
        assert_eq!(kills_in("low 0\noom 3\noom_kill 2\noom_group_kill 0\n"), Some(2));
    }
}
