//! Which servers are one set, and how a node says in which sets it votes.
//!
//! All clients must mean the same servers: two of three and three of five need not meet. So every node keeps in its marker
//! the names of the sets that it votes in, and for each of them a key that the scripts look at. A client looks at the key
//! of its own set only: where a node has left that set, the very next step of the client is refused. The marker also has
//! the sets that were left, so that their clients are told where to go.

use crate::steps::MARKER;
use crate::url::{Config, Deployment, Node};

/// Before a set in a marker: the node has left it.
pub(crate) const LEFT: char = '-';
/// Before a set in a marker: the node is not in it, but the clients of the set that it left are to go there.
pub(crate) const GONE: char = '>';
/// Before a number that is another one after every change of the sets.
pub(crate) const EDITION: char = '#';
/// What in a marker is no set that the node votes in.
pub(crate) const NO_VOTE: [char; 3] = [LEFT, GONE, EDITION];

/// The name of the set that a URL means: a number that keys and connections are named by, and what it is made of.
pub(crate) fn fingerprint(config: &Config) -> String {
    let max_ttl = config.max_ttl.as_millis();
    match (config.quorum, config.waits_after_failover, &config.deployment) {
        (true, ..) => {
            let text = format!("{} max_ttl_ms={max_ttl}", addresses(config).join(" and "));
            format!("{:016x} {text}", number(&text))
        }
        (_, true, Deployment::Sentinels { master }) => format!("{master} max_ttl_ms={max_ttl}"),
        (_, true, Deployment::Cluster) => format!("a cluster max_ttl_ms={max_ttl}"),
        _ => "alone".to_owned(),
    }
}

/// The servers of each set, in an order that does not depend on the URL's.
fn addresses(config: &Config) -> Vec<String> {
    let listed = |nodes: &mut dyn Iterator<Item = &Node>| {
        let mut nodes: Vec<String> = nodes.map(|node| node.address.to_string()).collect();
        nodes.sort_unstable();
        nodes.join(",")
    };
    match config.sets.is_empty() {
        true => vec![listed(&mut config.nodes.iter())],
        false => {
            let each = config.sets.iter().map(|set| listed(&mut set.iter().map(|node| &config.nodes[*node])));
            let mut each: Vec<String> = each.collect();
            // There and back is one change: whoever needs both needs both.
            each.sort_unstable();
            each
        }
    }
}

/// The key by which a node says that it votes in this set. Only sets of servers that vote have one of their own.
pub(crate) fn marker(quorum: bool, fingerprint: &str) -> String {
    match fingerprint.split_once(' ') {
        Some((number, _)) if quorum => format!("{MARKER}:{number}"),
        _ => MARKER.to_owned(),
    }
}

/// How the connections of a set's clients are named.
pub(crate) fn client_name(marker: &str) -> String {
    format!("fencepost:{}", marker.rsplit(':').next().unwrap_or_default())
}

/// A set as a person reads it: without its number.
fn described(set: &str) -> &str {
    match set.split_once(' ') {
        Some((number, text)) if number.len() == 16 && number.bytes().all(|digit| digit.is_ascii_hexdigit()) => text,
        _ => set,
    }
}

/// Sets of a marker as a person reads them: those that a node votes in, or else where their clients are to go.
pub(crate) fn shown(sets: &str) -> String {
    let votes_in = sets.split(';').filter(|set| !set.starts_with(NO_VOTE));
    let votes_in: Vec<&str> = votes_in.map(described).collect();
    match votes_in.is_empty() {
        false => votes_in.join("; "),
        true => sets.split(';').filter_map(|set| set.strip_prefix(GONE)).map(described).collect::<Vec<_>>().join("; "),
    }
}

/// The URL that a client is to use, where a node has left the client's set, or is about to enter it. `marker` is the key of
/// the client's set, `theirs` what the node's marker has of sets.
pub(crate) fn successor(marker: &str, theirs: &str) -> Option<String> {
    let number = marker.rsplit(':').next().unwrap_or_default();
    let is_ours = |set: &str| set.strip_prefix(LEFT).is_some_and(|set| set.split(' ').next() == Some(number));
    let entries = || theirs.split(';').filter(|set| !set.starts_with([LEFT, EDITION]));
    let mut sets = entries().map(|set| described(set.trim_start_matches(GONE)));
    let is_change = |set: &&str| set.contains(" and ");
    let next = match theirs.split(';').any(is_ours) {
        // Where there are two, the one that is there to stay.
        true => sets.clone().find(|set| !is_change(set)).or_else(|| sets.next()),
        false => sets.find(is_change),
    };
    let servers = next?.split(" max_ttl_ms=").next()?;
    Some(format!("redlock://{}", servers.replacen(" and ", "?next=", 1)))
}

/// What a client is told whose set a node does not vote in, as [`successor`].
pub(crate) fn refusal(marker: &str, theirs: &str) -> String {
    if let Some(url) = successor(marker, theirs) {
        return format!(
            "`fencepost reconfigure` puts other servers in the place of some, and this URL is not the one to use now; that \
             is {url} (with user, password and settings as before)"
        );
    }
    let theirs = shown(theirs);
    format!(
        "it belongs to the cluster {theirs:?}: every client must list the same nodes, spelled alike, with the same \
         max_ttl_ms; `fencepost reconfigure` goes from one list to another; while nobody holds a lock, `fencepost init` \
         makes a new cluster of it"
    )
}

/// Adds the servers of the next set behind those of the present one. Answers who is in which.
pub(crate) fn join(nodes: &mut Vec<Node>, next: Vec<Node>) -> Vec<Vec<usize>> {
    let present = (0..nodes.len()).collect();
    let place = |node: Node| {
        let known = nodes.iter().position(|other| other.address == node.address);
        known.unwrap_or_else(|| {
            nodes.push(node);
            nodes.len() - 1
        })
    };
    let next = next.into_iter().map(place).collect();
    vec![present, next]
}

/// These sets, or all of so many servers as one.
pub(crate) fn or_one(servers: usize, sets: &[Vec<usize>]) -> Vec<Vec<usize>> {
    if sets.is_empty() { vec![(0..servers).collect()] } else { sets.to_vec() }
}

/// Whether so many are a majority of so many.
pub(crate) fn is_majority(count: usize, all: usize) -> bool {
    count > all / 2
}

/// Whether these servers are a majority of each set.
pub(crate) fn have_majorities(sets: &[Vec<usize>], counts: impl Fn(usize) -> bool) -> bool {
    sets.iter().all(|set| is_majority(set.iter().filter(|server| counts(**server)).count(), set.len()))
}

/// FNV-1a: the same in every version of this program, which `std` does not promise of its hashes.
fn number(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rest: &str) -> String {
        fingerprint(&Config::parse("redlock", rest).expect("valid"))
    }

    #[test]
    fn a_set_has_one_name_in_whatever_order_it_is_written() {
        assert_eq!(of("//a:1,b:2,c:3"), of("//c:3,a:1,b:2"));
        assert_eq!(of("//a:1,b:2?next=b:2,c:3"), of("//b:2,a:1?next=c:3,b:2"));
        assert_eq!(of("//a:1,b:2?next=b:2,c:3"), of("//b:2,c:3?next=a:1,b:2"), "there and back");
        let names = [
            "//a:1,b:2",
            "//a:1,b:2,c:3",
            "//a:1,b:2?max_ttl_ms=1000",
            "//a:1,b:2?next=b:2,c:3",
            "//b:2,c:3?next=a:1,c:3",
        ];
        for (at, one) in names.iter().enumerate() {
            assert!(names[..at].iter().all(|other| of(one) != of(other)), "{one}");
        }
        assert_eq!(shown(&of("//b:2,a:1?next=c:3")), "a:1,b:2 and c:3 max_ttl_ms=60000");
        assert_eq!(shown(&format!("{};alone", of("//a:1"))), "a:1 max_ttl_ms=60000; alone");
    }

    #[test]
    fn a_client_of_a_set_that_was_left_is_told_where_to_go() {
        let (old, both, new) = (of("//a:1"), of("//a:1?next=b:2"), of("//b:2"));
        let told = |theirs: &str| refusal(&marker(true, &old), theirs);
        assert!(told(&format!("{both};-{old}")).contains("redlock://a:1?next=b:2 "));
        assert!(told(&format!("{both};{new};-{old}")).contains("redlock://b:2 "));
        assert!(told(&format!(">{new};-{old};-{both};#1")).contains("redlock://b:2 "));
        assert!(
            refusal(&marker(true, &new), &format!("{old};{both}")).contains("redlock://a:1?next=b:2 "),
            "too early"
        );
        assert!(told(&new).contains("belongs to the cluster \"b:2 max_ttl_ms=60000\""));
        assert_eq!(shown(&format!(">{new};-{old}")), "b:2 max_ttl_ms=60000");
    }

    #[test]
    fn the_hash_is_that_of_everybody_else() {
        assert_eq!((number(""), number("a")), (0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c));
    }

    #[test]
    fn a_server_of_both_sets_is_one_node() {
        let config = Config::parse("redlock", "//:one@a:1,b:2?next=b:2,:two@c:3").expect("valid");
        assert_eq!(config.sets, [vec![0, 1], vec![1, 2]]);
        assert_eq!(config.nodes[2].password.as_deref(), Some("two"));
    }
}
