//! Short byte strings.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// The most bytes that fit without an allocation: tokens and users mostly do.
const INLINE: usize = 22;

/// A byte string of a client's making: a user, a token, an order reference. 24 bytes, also as an `Option`.
#[derive(Clone)]
pub struct Bytes(Repr);

#[derive(Clone)]
enum Repr {
    Inline { len: u8, bytes: [u8; INLINE] },
    Allocated(Box<[u8]>),
}

impl Bytes {
    /// No bytes.
    pub const fn new() -> Self {
        Self(Repr::Inline { len: 0, bytes: [0; INLINE] })
    }

    /// These bytes.
    #[inline]
    pub fn from_slice(slice: &[u8]) -> Self {
        let mut bytes = [0; INLINE];
        match bytes.get_mut(..slice.len()) {
            Some(inline) => {
                inline.copy_from_slice(slice);
                Self(Repr::Inline { len: slice.len() as u8, bytes })
            }
            None => Self(Repr::Allocated(slice.into())),
        }
    }

    /// How many bytes are allocated.
    pub fn allocated(&self) -> usize {
        match &self.0 {
            Repr::Inline { .. } => 0,
            Repr::Allocated(bytes) => bytes.len(),
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { len, bytes } => bytes.get(..usize::from(*len)).unwrap_or(bytes),
            Repr::Allocated(bytes) => bytes,
        }
    }
}

impl Default for Bytes {
    fn default() -> Self {
        Self::new()
    }
}

impl From<&[u8]> for Bytes {
    fn from(slice: &[u8]) -> Self {
        Self::from_slice(slice)
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Borrow<[u8]> for Bytes {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Bytes {}

impl PartialOrd for Bytes {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bytes {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(other)
    }
}

impl Hash for Bytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_each_length_are_kept_and_compared_as_slices() {
        assert_eq!(size_of::<Option<Bytes>>(), 24);
        let all: Vec<u8> = (0..100).collect();
        for len in 0..98 {
            let bytes = Bytes::from_slice(&all[..len]);
            assert_eq!(bytes[..], all[..len]);
            assert_eq!(bytes.allocated(), if len > INLINE { len } else { 0 });
            assert_eq!(bytes, bytes.clone());
            assert!(bytes < Bytes::from_slice(&all[..=len]) && bytes != Bytes::from_slice(&all[1..len + 2]));
        }
    }
}
