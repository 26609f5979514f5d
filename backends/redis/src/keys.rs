//! How a lock becomes keys.

use std::borrow::Cow;

use fencepost_core::store::Minting;

use crate::redisson;

/// The bits of CRC16 (XMODEM) that Redis Cluster places keys by.
const POLYNOMIAL: u16 = 0x1021;
/// How many slots a cluster has.
pub(crate) const SLOTS: u16 = 16384;

/// How a lock is written down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    /// A string, as most libraries have it.
    Fencepost,
    /// A hash, as Redisson has it.
    Redisson,
}

/// What stands before every name, and whether the keys live in a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    pub(crate) prefix: String,
    /// All keys of a lock must fall into one slot.
    pub(crate) clustered: bool,
    pub(crate) layout: Layout,
    /// The key by which a node tells that it votes in our set, and what time it is.
    pub(crate) marker: String,
    /// The node may lose its trust: it votes, or waits after a failover.
    pub(crate) judged: bool,
    /// Whether the engine or the server chooses the tokens of grants.
    pub(crate) minting: Minting,
}

impl Keys {
    /// The name as it stands in keys.
    ///
    /// In a cluster braces choose the slot of a key, and the companions of a lock have theirs around its key: so the
    /// name has none. It is the name itself unless it has a brace or a percent sign.
    pub(crate) fn written<'a>(&self, name: &'a str) -> Cow<'a, str> {
        if !self.encodes() || !name.contains(['{', '}', '%']) {
            return Cow::Borrowed(name);
        }
        Cow::Owned(name.replace('%', "%25").replace('{', "%7B").replace('}', "%7D"))
    }

    /// Redisson's names are their own keys in a cluster, too.
    fn encodes(&self) -> bool {
        self.clustered && self.layout == Layout::Fencepost
    }

    /// The name behind what [`Keys::written`] made of it.
    fn read(&self, written: &str) -> String {
        if !self.encodes() {
            return written.to_owned();
        }
        written.replace("%7D", "}").replace("%7B", "{").replace("%25", "%")
    }

    /// The key of a lock, or what the keys of several start with.
    pub(crate) fn lock(&self, name: &str) -> String {
        format!("{}{}", self.prefix, self.written(name))
    }

    /// Whose key this is.
    pub(crate) fn name_of_lock(&self, key: &str) -> Option<String> {
        key.strip_prefix(&self.prefix).map(|written| self.read(written))
    }

    /// Whose companion this is, of those that start so.
    pub(crate) fn name_in(&self, start: &str, key: &str) -> Option<String> {
        let rest = key.strip_prefix(start)?;
        if let (Layout::Redisson, Some(verbatim)) = (self.layout, rest.strip_prefix(redisson::VERBATIM)) {
            return self.name_of_lock(verbatim);
        }
        rest.strip_prefix('{')?.strip_suffix('}')?.strip_prefix(&self.prefix).map(|written| self.read(written))
    }

    /// The slot of all keys of a lock.
    pub(crate) fn slot(&self, name: &str) -> u16 {
        slot(&self.lock(name))
    }
}

/// The slot of a key: of what stands in its first pair of braces, or of all of it.
pub(crate) fn slot(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    crc16(tag.filter(|tag| !tag.is_empty()).unwrap_or(key).as_bytes()) % SLOTS
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        let shifted = crc ^ (u16::from(*byte) << 8);
        (0..8).fold(shifted, |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ POLYNOMIAL })
    })
}

/// A word that falls into this slot.
pub(crate) fn word_in(wanted: u16) -> String {
    let mut words = (0_u32..).map(|number| number.to_string());
    words.find(|word| slot(word) == wanted).expect("BUG: every slot has words")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Keys {
        Keys {
            prefix: "lock:".into(),
            clustered: true,
            layout: Layout::Fencepost,
            marker: String::new(),
            judged: false,
            minting: Minting::Bounded,
        }
    }

    /// The first is in Redis' own description of clusters, the others were asked of a server.
    #[test]
    fn slots_are_those_of_redis() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(slot("foo"), 12182);
        assert_eq!(slot("{foo}bar"), 12182);
        assert_eq!(slot("a{}b"), crc16(b"a{}b") % SLOTS);
    }

    #[test]
    fn all_keys_of_a_lock_are_in_one_slot_whatever_its_name() {
        for name in ["x", "{x}", "a{b}c", "a}b", "}{", "{}", "%7B", "a{b", "ü {", "{{x}}"] {
            let key = keys().lock(name);
            for companion in ["fp:fence:{", "fp:line:{", "fp:readers:{", "fp:revoked:{"] {
                assert_eq!(slot(&format!("{companion}{key}}}")), keys().slot(name), "{companion} of {name}");
                assert_eq!(slot(&format!("{companion}{key}}}:owner")), keys().slot(name), "{companion} of {name}");
            }
            assert_eq!(keys().name_of_lock(&key).as_deref(), Some(name));
            assert_eq!(keys().name_in("fp:fence:", &format!("fp:fence:{{{key}}}")).as_deref(), Some(name));
        }
    }

    #[test]
    fn two_names_are_two_keys() {
        let names = ["a{b", "a%7Bb", "a%257Bb", "a%b"];
        let mut written: Vec<String> = names.iter().map(|name| keys().lock(name)).collect();
        written.dedup();
        assert_eq!(written.len(), names.len());
    }

    #[test]
    fn outside_a_cluster_a_name_is_its_own_key() {
        let keys = Keys { clustered: false, ..keys() };
        assert_eq!(keys.lock("a{b}%"), "lock:a{b}%");
        assert_eq!(keys.name_of_lock("lock:%7B").as_deref(), Some("%7B"));
    }

    #[test]
    fn every_slot_has_a_word() {
        assert!([0, 1, 5460, 16383].into_iter().all(|wanted| slot(&word_in(wanted)) == wanted));
    }
}
