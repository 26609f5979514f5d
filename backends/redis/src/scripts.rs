//! The scripts, put together from their files.

use crate::keys::Layout;
use crate::steps::MARKER;

/// Which script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Script {
    Acquire,
    AcquireAll,
    Renew,
    Release,
    GiveBack,
    Evict,
    Ask,
    Inspect,
    Record,
    PlainAcquire,
    PlainRenew,
    PlainRelease,
    RedissonAcquire,
    RedissonRenew,
    RedissonRelease,
    RedissonEvict,
    RedissonAsk,
    RedissonInspect,
}

const FENCEPOST: [Script; 12] = [
    Script::Acquire,
    Script::AcquireAll,
    Script::Renew,
    Script::Release,
    Script::GiveBack,
    Script::Evict,
    Script::Ask,
    Script::Inspect,
    Script::Record,
    Script::PlainAcquire,
    Script::PlainRenew,
    Script::PlainRelease,
];

const REDISSON: [Script; 6] = [
    Script::RedissonAcquire,
    Script::RedissonRenew,
    Script::RedissonRelease,
    Script::RedissonEvict,
    Script::RedissonAsk,
    Script::RedissonInspect,
];

pub(crate) const TRUST: &str = concat!(include_str!("../lua/sets.lua"), include_str!("../lua/trust.lua"));
pub(crate) const VOTE: &str = concat!(include_str!("../lua/sets.lua"), include_str!("../lua/vote.lua"));
/// Its only purpose is its hash: a server that knows it has had a marker of ours in this run. It outlives `FLUSHALL`.
pub(crate) const USED: &str = include_str!("../lua/used.lua");
pub(crate) const USED_HASH: &str = "905f12e9f8e883123e2d4e2b0cd2bee937694bf8";
pub(crate) const HELD: &str = include_str!("../lua/held.lua");
pub(crate) const RAISE: &str = include_str!("../lua/raise.lua");
const PRELUDE: &str = include_str!("../lua/prelude.lua");
const NUMBERS: &str = include_str!("../lua/numbers.lua");
const REDISSON_PRELUDE: &str = include_str!("../lua/redisson_prelude.lua");

/// Tries to set the lock and tells what was there, in one call. Since Redis 7.
const SET_NX_GET: &str = "local held = redis.call('SET', KEYS[1], value, 'NX', 'GET', 'PX', ARGV[3])";
/// The same for older servers.
const GET_SET_NX: &str = "local held = redis.call('GET', KEYS[1]) \
     if not held then redis.call('SET', KEYS[1], value, 'PX', ARGV[3]) end";

/// Tells by the marker whether the node is trusted, and what time it is.
const BY_MARKER: &str = "redis.call('PTTL', KEYS[3])";
/// A node that has left a set prolongs nothing for it. One that is on probation does: there the marker is gone as well.
const IN_SET: &str = "and (redis.call('EXISTS', KEYS[3]) == 1 or redis.call('EXISTS', '--[[MARKER]]') == 0)";
/// The time only, as the marker would tell it: in a cluster the marker is in a slot of its own.
const BY_TIME: &str = "(function() local time = redis.call('TIME') \
     return 10531782622208 - time[1] * 1000 - math.floor(time[2] / 1000) end)()";

/// Not an error where it fails: the slot may be on its way to another node, and the step has been done.
const SPUBLISH: &str = "redis.pcall('SPUBLISH', channel, '0')";

/// On probation, where no marker can say so.
const NEVER: &str = "(-1)";

/// The parts of scripts that differ by who decides which token a grant carries: what stands in the text, for a node that
/// votes, and for a server that mints.
const BY_MINTING: [(&str, &str, &str); 5] = [
    ("--[[TAKE]]", include_str!("../lua/take_proposed.lua"), include_str!("../lua/take_minted.lua")),
    ("--[[RELAY]]", include_str!("../lua/relay_proposed.lua"), include_str!("../lua/relay_minted.lua")),
    ("--[[EACH]]", include_str!("../lua/each_proposed.lua"), include_str!("../lua/each_minted.lua")),
    // A number to raise to is no token of a grant there.
    ("--[[RAISES_NOTHING]]", "", "and #ARGV[1] == 41"),
    ("--[[MINTS]]", "false", "true"),
];

/// How a script learns whether the node is trusted, and what time it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Trust {
    /// By its marker.
    Marker,
    /// It is: that was judged when the link came up.
    Judged,
    /// It is not: that was judged when the link came up.
    Never,
}

/// What a server understands, and what it can be asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Dialect {
    pub(crate) major: u32,
    pub(crate) trust: Trust,
    pub(crate) layout: Layout,
    /// The server decides alone, and mints the tokens.
    pub(crate) mints: bool,
}

impl Dialect {
    /// All scripts of it, in the order in which they are loaded.
    pub(crate) fn scripts(self) -> &'static [Script] {
        match self.layout {
            Layout::Fencepost => &FENCEPOST,
            Layout::Redisson => &REDISSON,
        }
    }

    /// In a cluster a channel may live in the shard of its slot, since Redis 7, beside the one of all nodes.
    pub(crate) fn has_shards(self) -> bool {
        self.trust != Trust::Marker && self.major >= 7
    }
}

impl Script {
    /// The text for such a server.
    pub(crate) fn text(self, dialect: Dialect) -> String {
        let file = match self {
            Self::Acquire => include_str!("../lua/acquire.lua"),
            Self::AcquireAll => include_str!("../lua/acquire_all.lua"),
            Self::Renew => include_str!("../lua/renew.lua"),
            Self::Release => include_str!("../lua/release.lua"),
            Self::GiveBack => include_str!("../lua/give_back.lua"),
            Self::Evict => include_str!("../lua/evict.lua"),
            Self::Ask => include_str!("../lua/ask.lua"),
            Self::Inspect => include_str!("../lua/inspect.lua"),
            Self::Record => include_str!("../lua/record.lua"),
            Self::PlainAcquire => include_str!("../lua/plain_acquire.lua"),
            Self::PlainRenew => include_str!("../lua/plain_renew.lua"),
            Self::PlainRelease => include_str!("../lua/plain_release.lua"),
            Self::RedissonAcquire => include_str!("../lua/redisson_acquire.lua"),
            Self::RedissonRenew => include_str!("../lua/redisson_renew.lua"),
            Self::RedissonRelease => include_str!("../lua/redisson_release.lua"),
            Self::RedissonEvict => include_str!("../lua/redisson_evict.lua"),
            Self::RedissonAsk => include_str!("../lua/redisson_ask.lua"),
            Self::RedissonInspect => include_str!("../lua/redisson_inspect.lua"),
        };
        let set = if dialect.major >= 7 { SET_NX_GET } else { GET_SET_NX };
        let spublish = if dialect.has_shards() { SPUBLISH } else { "" };
        let text = file.replace("--[[PRELUDE]]", PRELUDE).replace("--[[REDISSON]]", REDISSON_PRELUDE);
        let text = text.replace("--[[NUMBERS]]", NUMBERS).replace("--[[SPUBLISH]]", spublish);
        let minting = |text: String, (place, proposed, minted): &(&str, &str, &str)| {
            text.replace(place, if dialect.mints { minted } else { proposed })
        };
        let text = BY_MINTING.iter().fold(text, minting).replace("--[[SET_NX_GET]]", set);
        match dialect.trust {
            Trust::Marker => text.replace("--[[IN_SET]]", IN_SET).replace("--[[MARKER]]", MARKER),
            Trust::Judged => text.replace("--[[IN_SET]]", "").replace(BY_MARKER, BY_TIME),
            Trust::Never => text.replace("--[[IN_SET]]", "").replace(BY_MARKER, NEVER),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_cluster_no_script_looks_at_the_marker() {
        let trusts = [Trust::Judged, Trust::Never];
        let of_layout = |layout| trusts.map(|trust| Dialect { major: 7, trust, layout, mints: true });
        let dialects = [Layout::Fencepost, Layout::Redisson].into_iter().flat_map(of_layout);
        let each = |dialect: Dialect| dialect.scripts().iter().map(move |script| (*script, dialect));
        for (script, dialect) in dialects.flat_map(each) {
            let text = script.text(dialect);
            let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
            assert!(!code.iter().any(|line| line.contains("KEYS[3]")), "{script:?}");
        }
    }
}
