//! Lines that cannot be changed without trace.

use std::fmt;

use sha2::{Digest, Sha256};

use super::Entry;

/// What binds a line to the one before it.
const PREV: &str = ",\"prev\":\"";
const HASH: &str = ",\"hash\":\"";
const DIGITS: usize = 64;

/// The last line so far: its number and its hash.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    /// How many entries there are.
    pub seq: u64,
    /// The hash of the last one; zeros before the first.
    pub hash: String,
}

impl Default for Head {
    fn default() -> Self {
        Self { seq: 0, hash: "0".repeat(DIGITS) }
    }
}

/// Where a chain is broken, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broken {
    /// The line in the file, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl std::error::Error for Broken {}

/// Writes and reads lines one after the other.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    head: Head,
    lines: u64,
    /// The last line was cut off, as by a power cut: the next one has to say that it begins anew.
    torn: Option<u64>,
    /// Nothing is known of what came before but its hash.
    number_unknown: bool,
}

impl Chain {
    /// Goes on behind this line of a log; `None`: it is none.
    pub fn behind(line: &str) -> Option<Self> {
        let entry: Entry = serde_json::from_str(line).ok()?;
        let hash = line.rsplit_once(HASH)?.1.strip_suffix("\"}").filter(|hash| hash.len() == DIGITS)?;
        let head = Head { seq: entry.seq, hash: hash.to_owned() };
        Some(Self { head, lines: entry.seq, ..Self::default() })
    }

    /// Reads on behind an entry of which only the hash is known.
    pub fn after(hash: &str) -> Self {
        Self { head: Head { seq: 0, hash: hash.to_owned() }, number_unknown: true, ..Self::default() }
    }

    /// Reads on in the next file: lines count from its beginning.
    pub(crate) fn turn_page(&mut self) {
        self.lines = 0;
    }

    /// The last entry so far.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// How many lines were read or written.
    pub(crate) fn lines(&self) -> u64 {
        self.lines
    }

    /// The line of the next entry, with its end of line. It counts as written.
    pub fn append(&mut self, mut entry: Entry) -> Result<String, serde_json::Error> {
        entry.seq = self.head.seq + 1;
        let mut text = serde_json::to_string(&entry)?;
        text.pop();
        text.push_str(PREV);
        text.push_str(&self.head.hash);
        text.push('"');
        let hash = hash(&self.head.hash, &text);
        self.head = Head { seq: entry.seq, hash: hash.clone() };
        self.lines += 1;
        Ok(format!("{text}{HASH}{hash}\"}}\n"))
    }

    /// Reads the next line; `None`: it is empty, or the torn end of a service that was cut off.
    pub fn read(&mut self, line: &str) -> Result<Option<Entry>, Broken> {
        self.lines += 1;
        if line.is_empty() {
            // What ended a torn line of which no byte was written.
            return Ok(None);
        }
        let broken = |why: &str| Broken { line: self.lines, why: why.to_owned() };
        let Ok(entry) = serde_json::from_str::<Entry>(line) else {
            if let Some(line) = self.torn.replace(self.lines) {
                return Err(Broken { line, why: "it is not an entry".into() });
            }
            return Ok(None);
        };
        if let Some(line) = self.torn.take().filter(|_| entry.act != super::Act::Opened) {
            return Err(Broken { line, why: "it is not an entry, and the log goes on behind it".into() });
        }
        let parts = line.rsplit_once(HASH).and_then(|(text, hash)| Some((text, hash.strip_suffix("\"}")?)));
        let (text, shown) = parts.ok_or_else(|| broken("it has no hash at its end"))?;
        let prev = text.rsplit_once(PREV).and_then(|(_, prev)| prev.strip_suffix('"'));
        if prev != Some(&self.head.hash) {
            if self.head == Head::default() && entry.act == super::Act::Opened {
                return Err(broken("it goes on behind another file: give that one before it, or its head"));
            }
            return Err(broken("it does not follow the line before it: lines were changed, moved or taken out"));
        }
        if hash(&self.head.hash, text) != shown {
            return Err(broken("its text is not the one that was written"));
        }
        if entry.seq != self.head.seq + 1 && !self.number_unknown {
            return Err(broken(&format!("it has number {} instead of {}", entry.seq, self.head.seq + 1)));
        }
        self.head = Head { seq: entry.seq, hash: shown.to_owned() };
        self.number_unknown = false;
        Ok(Some(entry))
    }

    /// The end of the file: a torn line there is what a power cut leaves.
    pub fn is_torn(&self) -> bool {
        self.torn.is_some()
    }
}

fn hash(before: &str, text: &str) -> String {
    let digest = Sha256::new().chain_update(before).chain_update(text).finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
