//! Whether what a log tells may have happened.

use std::collections::HashMap;
use std::io::{self, BufRead};
use std::time::Duration;

use fencepost_core::FencingToken;
use fencepost_core::store::Moment;

use super::chain::{Broken, Chain, Head};
use super::{Act, Entry};
use crate::checker::{self, Demands, Finding};
use crate::history::{History, What};

/// What a check found.
#[derive(Clone, Debug)]
pub struct Report {
    /// The last entry: kept elsewhere, it shows later that nothing was cut off.
    pub head: Head,
    /// How many entries there are of each act.
    pub grants: u64,
    /// Acts that could not be written, as the log itself says.
    pub missed: u64,
    /// Where the chain is broken; nothing behind that was judged.
    pub broken: Option<Broken>,
    /// In which of the files, from 0; the last if nothing is broken.
    pub file: usize,
    /// The last line was cut off, as by a power cut.
    pub torn: bool,
    /// Rules of locks that were broken.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether there is nothing to complain about.
    pub fn is_clean(&self) -> bool {
        self.broken.is_none() && self.findings.is_empty()
    }
}

/// Reads a log and judges it.
///
/// Other replicas may have written logs of their own, so only what this one shows is believed: a hold counts until its
/// release if that is here, and not at all if not, because it may have been given back elsewhere. Every finding is real;
/// what happened between two logs is not seen.
///
/// `known`: a head that was kept from an earlier check. The log has to contain it, or its end was cut off.
pub fn check(log: impl BufRead, known: Option<&str>) -> io::Result<Report> {
    check_files([log], None, known)
}

/// Reads the files of a log that was moved away and went on in a new one, the oldest first, and judges them as one.
///
/// `after`: the head of the file before the first of these, if that one is not among them.
pub fn check_files(
    files: impl IntoIterator<Item = impl BufRead>,
    after: Option<&str>,
    known: Option<&str>,
) -> io::Result<Report> {
    let mut chain = after.map_or_else(Chain::default, Chain::after);
    let mut is_known = known.is_none_or(|known| known == chain.head().hash);
    let mut entries = Vec::new();
    let (mut broken, mut file) = (None, 0);
    'all: for (number, log) in files.into_iter().enumerate() {
        file = number;
        chain.turn_page();
        for line in log.split(b'\n') {
            match chain.read(&String::from_utf8_lossy(&line?)) {
                Ok(entry) => {
                    entries.extend(entry);
                    is_known |= known.is_some_and(|known| known == chain.head().hash);
                }
                Err(found) => {
                    broken = Some(found);
                    break 'all;
                }
            }
        }
    }
    if !is_known {
        let why = "the entry with the head that you know is not in it: its end was cut off, or it is another log";
        broken = broken.or(Some(Broken { line: chain.lines(), why: why.into() }));
    }
    let grants = entries.iter().filter(|entry| entry.act == Act::Granted).count() as u64;
    let missed = entries.iter().map(|entry| entry.missed).sum();
    let history = history(&entries);
    let findings = checker::check(&history, &Demands { exclusion: true, ..Demands::default() });
    Ok(Report {
        head: chain.head().clone(),
        grants,
        missed,
        torn: broken.is_none() && chain.is_torn(),
        broken,
        file,
        findings,
    })
}

/// One acquisition, by its lock and its claim. A token will not do: whoever gives back says which, and may lie.
type Key<'a> = (&'a str, &'a str);

fn history(entries: &[Entry]) -> History {
    let mut history = History::new();
    let mut clock = BootClock::default();
    // By key: the token, and where the grant is among the notes.
    let mut held: HashMap<Key<'_>, (FencingToken, usize)> = HashMap::new();
    let mut notes: Vec<(Moment, u64, &str, What)> = Vec::new();
    for entry in entries {
        let at = clock.moment(entry);
        let asked = at.minus(entry.lasted());
        let Some((key, (token, shared))) = entry.key().zip(entry.token.as_deref().and_then(parsed)) else { continue };
        match entry.act {
            // The answer to a request that was sent again is no second grant.
            Act::Granted if held.get(&key).is_some_and(|(known, _)| *known == token) => {}
            Act::Granted => {
                let claim = notes.len() as u64;
                notes.push((asked, claim, key.0, What::Asked));
                held.insert(key, (token, notes.len()));
                notes.push((at, claim, key.0, What::Acquired { token, until: at }));
                if shared {
                    let lock = history.lock(key.0);
                    history.readers.insert((lock, token));
                }
            }
            // A writer that reads on excludes no readers from then on; as one of them it is not followed.
            Act::Released | Act::Downgraded => {
                let Some((_, granted)) = held.remove(&key) else { continue };
                let (from, claim, _, what) = &mut notes[granted];
                if let What::Acquired { until, .. } = what {
                    *until = asked.max(*from);
                }
                let claim = *claim;
                notes.push((asked, claim, key.0, What::Releasing));
            }
            _ => {}
        }
    }
    notes.sort_by_key(|(at, ..)| *at);
    for (at, claim, lock, what) in notes {
        let lock = history.lock(lock);
        history.note(at, 1, claim, lock, what);
    }
    history
}

impl Entry {
    fn key(&self) -> Option<Key<'_>> {
        Some((self.lock.as_deref()?, self.claim.as_deref().or(self.token.as_deref())?))
    }

    /// From the request to the line about it.
    fn lasted(&self) -> Duration {
        Duration::from_nanos(self.asked_ns.map_or(0, |asked| self.boot_ns.saturating_sub(asked)))
    }
}

fn parsed(token: &str) -> Option<(FencingToken, bool)> {
    match token.strip_prefix('r') {
        Some(number) => Some((number.parse().ok()?, true)),
        None => Some((token.parse().ok()?, false)),
    }
}

/// One time line over all boots: within one, the clock that only goes forward; a new one begins behind all before it.
#[derive(Default)]
struct BootClock<'a> {
    boot: Option<&'a str>,
    shift: u64,
    last: u64,
}

impl<'a> BootClock<'a> {
    fn moment(&mut self, entry: &'a Entry) -> Moment {
        if entry.act == Act::Opened && self.boot != entry.boot.as_deref() {
            self.boot = entry.boot.as_deref();
            self.shift = (self.last + 1).saturating_sub(entry.boot_ns);
        }
        self.last = self.last.max(entry.boot_ns + self.shift);
        Moment::from_nanos(entry.boot_ns + self.shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::Rule;

    fn entry(act: Act, at: u64, took: u64, lock: &str, token: &str, claim: &str) -> Entry {
        Entry {
            boot_ns: at,
            asked_ns: Some(at - took),
            lock: Some(lock.into()),
            token: Some(token.into()),
            claim: Some(claim.into()),
            ..Entry::new(act)
        }
    }

    fn opened(at: u64, boot: &str) -> Entry {
        Entry { boot_ns: at, boot: Some(boot.into()), ..Entry::new(Act::Opened) }
    }

    fn written(entries: &[Entry]) -> String {
        let mut chain = Chain::default();
        entries.iter().map(|entry| chain.append(entry.clone()).expect("a line")).collect()
    }

    fn judged(log: &str) -> Report {
        check(log.as_bytes(), None).expect("read")
    }

    /// Two holders in turn, with a reader and a repeated request.
    fn good() -> Vec<Entry> {
        vec![
            opened(5, "a"),
            entry(Act::Granted, 10, 2, "x", "1", "one"),
            entry(Act::Granted, 11, 2, "x", "1", "one"),
            entry(Act::Released, 30, 4, "x", "1", "one"),
            entry(Act::Granted, 31, 20, "x", "r2", "two"),
            entry(Act::Granted, 32, 1, "x", "r3", "three"),
            entry(Act::Granted, 33, 1, "y", "1", "four"),
            Entry { missed: 2, ..Entry::new(Act::Denied) },
        ]
    }

    #[test]
    fn an_honest_log_is_clean_and_tells_its_head() {
        let log = written(&good());
        let report = judged(&log);
        assert!(report.is_clean() && !report.torn, "{report:?}");
        assert_eq!((report.head.seq, report.grants, report.missed), (8, 5, 2));
        assert!(log.trim_end().ends_with(&format!("\"hash\":\"{}\"}}", report.head.hash)));
        assert!(judged("").is_clean());
    }

    #[test]
    fn every_change_of_a_byte_and_every_line_less_is_seen() {
        let log = written(&good());
        for place in 0..log.len() {
            let mut bytes = log.clone().into_bytes();
            bytes[place] = if bytes[place] == b'0' { b'1' } else { b'0' };
            let report = check(&bytes[..], None).expect("read");
            // The end of the last line may look as if the power had failed.
            assert!(report.broken.is_some() || report.torn, "byte {place}");
        }
        let lines: Vec<&str> = log.lines().collect();
        for gone in 0..lines.len() - 1 {
            let kept: Vec<&str> =
                lines.iter().enumerate().filter(|(at, _)| *at != gone).map(|(_, line)| *line).collect();
            assert!(judged(&kept.join("\n")).broken.is_some(), "without line {}", gone + 1);
        }
        let mut swapped = lines.clone();
        swapped.swap(3, 4);
        assert_eq!(judged(&swapped.join("\n")).broken.expect("seen").line, 4);
        let short = lines[..7].join("\n");
        let (before, after) = (judged(&short).head, judged(&log).head);
        let knows = |log: &str, head: &Head| check(log.as_bytes(), Some(&head.hash)).expect("read").is_clean();
        assert!(knows(&log, &before) && knows(&log, &after) && knows(&short, &before));
        assert!(!knows(&short, &after), "the head shows what was cut off");
    }

    #[test]
    fn a_power_cut_is_no_forgery_but_what_follows_has_to_say_so() {
        let mut chain = Chain::default();
        let mut log: String = good().into_iter().map(|entry| chain.append(entry).expect("a line")).collect();
        log.push_str("{\"seq\":9,\"at");
        assert!(judged(&log).torn && judged(&log).is_clean());
        let next = chain.clone().append(opened(1, "b")).expect("a line");
        assert!(judged(&format!("{log}\n{next}")).is_clean());
        let other = chain.append(entry(Act::Granted, 40, 1, "z", "1", "five")).expect("a line");
        assert_eq!(judged(&format!("{log}\n{other}")).broken.expect("seen").line, 9);
    }

    #[test]
    fn rules_of_locks_that_were_broken_are_found() {
        let rules = |entries: &[Entry]| -> Vec<Rule> {
            let report = judged(&written(entries));
            assert_eq!(report.broken, None);
            report.findings.iter().map(|finding| finding.rule).collect()
        };
        let held_twice = [
            entry(Act::Granted, 10, 2, "x", "1", "one"),
            entry(Act::Granted, 20, 15, "x", "2", "two"),
            entry(Act::Released, 30, 1, "x", "1", "one"),
            entry(Act::Released, 40, 1, "x", "2", "two"),
        ];
        assert_eq!(rules(&held_twice), [Rule::C1]);
        let fell = [entry(Act::Granted, 10, 2, "x", "5", "one"), entry(Act::Granted, 20, 2, "x", "4", "two")];
        assert_eq!(rules(&fell), [Rule::C2]);
        let twice = [entry(Act::Granted, 10, 9, "x", "5", "one"), entry(Act::Granted, 11, 10, "x", "5", "two")];
        assert!(rules(&twice).contains(&Rule::C3));
        let read_on = [
            entry(Act::Granted, 10, 2, "x", "1", "one"),
            entry(Act::Downgraded, 20, 1, "x", "r1", "one"),
            entry(Act::Granted, 30, 2, "x", "r2", "two"),
            entry(Act::Released, 40, 1, "x", "r1", "one"),
            entry(Act::Released, 50, 1, "x", "r2", "two"),
        ];
        assert_eq!(rules(&read_on), []);
        let without = [&read_on[..1], &read_on[2..]].concat();
        assert_ne!(rules(&without), [], "a reader beside a writer");
        // The first may have been given back at another replica.
        assert_eq!(rules(&held_twice[..2]), []);
    }

    #[test]
    fn a_restart_of_the_machine_does_not_turn_time_back() {
        let over_boots = [
            opened(1_000, "a"),
            entry(Act::Granted, 2_000, 1, "x", "1", "one"),
            entry(Act::Released, 3_000, 1, "x", "1", "one"),
            opened(10, "b"),
            entry(Act::Granted, 20, 1, "x", "2", "two"),
            entry(Act::Released, 30, 1, "x", "2", "two"),
        ];
        assert!(judged(&written(&over_boots)).is_clean());
    }
}
