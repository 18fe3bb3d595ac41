//! Addresses of servers without their passwords, for logs and error messages.

/// The address without its password. Everything before an `@` and in a query is replaced, even in a text that is no
/// valid address.
pub fn without_password(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) if scheme.chars().all(|char| char == '+' || char.is_alphanumeric()) => {
            (format!("{scheme}://"), rest)
        }
        _ => (String::new(), url),
    };
    let Some((before, query)) = rest.split_once(['?', '#']) else {
        return match rest.rsplit_once('@') {
            Some((_, host)) => format!("{scheme}***@{host}"),
            None => url.to_owned(),
        };
    };
    // An `@` after the mark may belong to the password or to the query.
    if query.contains('@') {
        return format!("{scheme}***");
    }
    let host = before.rsplit_once('@').map_or_else(|| before.to_owned(), |(_, host)| format!("***@{host}"));
    format!("{scheme}{host}?***")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        assert_eq!(without_password("redis://me:se@cret@host:1/0"), "redis://***@host:1/0");
        assert_eq!(without_password("redis+sentinel://me:cret@a,b/m"), "redis+sentinel://***@a,b/m");
        assert_eq!(without_password("redis://host:1"), "redis://host:1");
        assert_eq!(without_password("unix:///s?pass=secret"), "unix:///s?***");
        assert_eq!(without_password("redis://me:secret@host:1?protocol=resp3"), "redis://***@host:1?***");
        assert_eq!(without_password("me:secret@host:1"), "***@host:1");
        for odd in ["unix:///s?pass=se@cret", "redis://me:se?cret@host", "se://cret@host", "se/://cret@h"] {
            assert!(!without_password(odd).contains("cret"), "{odd}: {}", without_password(odd));
        }
    }
}
