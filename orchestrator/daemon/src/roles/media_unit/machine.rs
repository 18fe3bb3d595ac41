//! What tells this machine from others, so that a realm refuses a second unit of one name on another machine.

use std::fs;

/// The name of the host, which people recognise, and the first digits of the machine id. Both, because clones of a machine
/// may have one host name, and containers of one image may have one machine id. `None` if the name is unknown.
pub(super) fn of_this_host() -> Option<String> {
    let line = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    name(&line("/proc/sys/kernel/hostname")?, &line("/etc/machine-id").unwrap_or_default())
}

fn name(host: &str, id: &str) -> Option<String> {
    // An image that was never started has the word `uninitialized`.
    let digits = id.get(..8).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let host = Some(host).filter(|host| !host.is_empty())?;
    Some(digits.map_or_else(|| host.to_owned(), |digits| format!("{host}/{digits}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_is_its_host_name_and_its_id_if_it_has_one() {
        let id = "3d1219c7c4c5404aaa1f6d2a48adfda4";
        assert_eq!(name("web1", id).as_deref(), Some("web1/3d1219c7"));
        assert_ne!(name("web1", id), name("web2", id), "containers of one image");
        assert_eq!(name("web1", "").as_deref(), Some("web1"));
        assert_eq!(name("web1", "uninitialized").as_deref(), Some("web1"));
        assert_eq!(name("", id), None);
    }
}
