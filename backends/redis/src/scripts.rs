//! The scripts, put together from their files.

/// Which script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Script {
    Acquire,
    Renew,
    Release,
    GiveBack,
    Evict,
    Ask,
    Inspect,
    PlainAcquire,
    PlainRenew,
    PlainRelease,
}

/// All of them, in the order in which they are loaded.
pub(crate) const ALL: [Script; 10] = [
    Script::Acquire,
    Script::Renew,
    Script::Release,
    Script::GiveBack,
    Script::Evict,
    Script::Ask,
    Script::Inspect,
    Script::PlainAcquire,
    Script::PlainRenew,
    Script::PlainRelease,
];

pub(crate) const TRUST: &str = include_str!("../lua/trust.lua");
const PRELUDE: &str = include_str!("../lua/prelude.lua");

/// Tries to set the lock and tells what was there, in one call. Since Redis 7.
const SET_NX_GET: &str = "local held = redis.call('SET', KEYS[1], ARGV[1], 'NX', 'GET', 'PX', ARGV[3])";
/// The same for older servers.
const GET_SET_NX: &str = "local held = redis.call('GET', KEYS[1]) \
     if not held then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3]) end";

impl Script {
    /// The text for a server of this major version.
    pub(crate) fn text(self, major: u32) -> String {
        let file = match self {
            Self::Acquire => include_str!("../lua/acquire.lua"),
            Self::Renew => include_str!("../lua/renew.lua"),
            Self::Release => include_str!("../lua/release.lua"),
            Self::GiveBack => include_str!("../lua/give_back.lua"),
            Self::Evict => include_str!("../lua/evict.lua"),
            Self::Ask => include_str!("../lua/ask.lua"),
            Self::Inspect => include_str!("../lua/inspect.lua"),
            Self::PlainAcquire => include_str!("../lua/plain_acquire.lua"),
            Self::PlainRenew => include_str!("../lua/plain_renew.lua"),
            Self::PlainRelease => include_str!("../lua/plain_release.lua"),
        };
        let set = if major >= 7 { SET_NX_GET } else { GET_SET_NX };
        file.replace("--[[SET_NX_GET]]", set).replace("--[[PRELUDE]]", PRELUDE)
    }
}
