//! A string of a message: immutable UTF-8 over the bytes of its frame.
//! Owned by the message it came in, or by whoever called `detach`.
//! Always: valid UTF-8; cloning copies no text.
//! How its length is written is `Reader`'s and `Writer`'s.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

use bytes::Bytes;
use bytestring::ByteString;

/// The longest string of the protocol, in bytes.
pub const STRING_BYTES_MAX: usize = i16::MAX as usize;

/// A shared, immutable string. One that was decoded keeps its whole frame in memory: state that outlives the request
/// holds a [`detach`](Str::detach)ed one.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Str(ByteString);

impl Str {
    /// A constant; allocates nothing.
    pub const fn from_static(text: &'static str) -> Str {
        Str(ByteString::from_static(text))
    }

    /// A copy of `text` with memory of its own.
    pub fn copy_from(text: &str) -> Str {
        Str(ByteString::from(text))
    }

    /// A copy that no longer holds the frame it was decoded from.
    #[must_use]
    pub fn detach(&self) -> Str {
        Str::copy_from(self)
    }

    /// The text in `bytes`. What is not UTF-8 becomes U+FFFD, as in Kafka (`new String(bytes, UTF_8)`); that copies, and the
    /// copy can be longer: an error says its length if no string of the protocol may be that long, as it could never be
    /// answered with.
    pub(super) fn read(bytes: Bytes) -> Result<Str, usize> {
        let text = match ByteString::try_from(bytes.clone()) {
            Ok(text) => Str(text),
            Err(_) => Str::copy_from(&String::from_utf8_lossy(&bytes)),
        };
        if text.len() > STRING_BYTES_MAX {
            return Err(text.len());
        }
        Ok(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for Str {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Str {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// With the `Hash` below, a map keyed by `Str` can be asked with a `&str`.
impl Borrow<str> for Str {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl std::hash::Hash for Str {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl From<&'static str> for Str {
    fn from(text: &'static str) -> Str {
        Str::from_static(text)
    }
}

impl From<String> for Str {
    fn from(text: String) -> Str {
        Str(ByteString::from(text))
    }
}

impl PartialEq<str> for Str {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Str {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl fmt::Debug for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn a_map_is_asked_with_a_plain_str() {
        let map = HashMap::from([(Str::from("orders"), 1)]);
        assert_eq!(map.get("orders"), Some(&1));
    }

    #[test]
    fn bad_utf8_reads_as_in_kafka() {
        // Golden: new String(new byte[]{'a', (byte) 0xff, 'b'}, UTF_8) in Java.
        let text = Str::read(Bytes::from_static(b"a\xffb")).expect("short");
        assert_eq!(text, "a\u{fffd}b");
    }

    #[test]
    fn bad_utf8_that_grows_beyond_the_longest_string_is_refused() {
        let text = Str::read(Bytes::from(vec![0xff; 20_000]));
        assert_eq!(text, Err(60_000));
    }

    #[test]
    fn detached_text_leaves_the_frame() {
        let frame = Bytes::from(vec![b'x'; 64]);
        let text = Str::read(frame.slice(0..4)).expect("short");
        let kept = text.detach();
        drop(text);
        assert!(frame.is_unique());
        assert_eq!(kept, "xxxx");
    }
}
