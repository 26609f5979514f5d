//! A call of a script, in the words of the wire.

use fencepost_core::store::FencingToken;

use crate::keys::Keys;
use crate::scripts::Script;
use crate::wire;

/// A call of a script: its keys and arguments, ready for the wire.
pub(crate) struct Call {
    /// `None`: a plain command, its name among the words.
    pub(crate) script: Option<Script>,
    pub(crate) keys: usize,
    /// How many words, the keys among them.
    pub(crate) count: usize,
    pub(crate) words: Vec<u8>,
    /// Where a word is put together.
    draft: Vec<u8>,
}

/// What words are made of. Every step is put into words once for each node: `format!` was a tenth of a client's time.
#[derive(Clone, Copy)]
pub(crate) enum Part<'a> {
    Text(&'a str),
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> From<&'a str> for Part<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a [u8]> for Part<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<u64> for Part<'_> {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for Part<'_> {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<FencingToken> for Part<'_> {
    fn from(token: FencingToken) -> Self {
        Self::Number(token.as_u64())
    }
}

/// A word of several parts, one behind the other.
macro_rules! word {
    ($($part:expr),+ $(,)?) => { &[$($crate::call::Part::from($part)),+] as &[$crate::call::Part<'_>] };
}

pub(crate) use word;

impl Call {
    pub(crate) fn new(script: Script, keys: &Keys, name: &str) -> Self {
        let mut call = Self::empty(Some(script));
        let (prefix, name) = (&*keys.prefix, &*keys.written(name));
        call.key(word![prefix, name]);
        call.key(word!["fp:fence:{", prefix, name, "}"]);
        if !keys.clustered {
            call.key(word![&*keys.marker]);
            return call;
        }
        // The marker is in another slot; the scripts ask for the time instead. The other keys are named though scripts
        // know them: while a slot moves, a server refuses a step of which it lacks a key before the script has begun,
        // and not in its middle. One of these is always lacking: there are readers or there is a writer.
        call.key(word!["fp:line:{", prefix, name, "}"]);
        call.key(word!["fp:readers:{", prefix, name, "}"]);
        call
    }

    /// A script about several locks, none of them in a cluster.
    pub(crate) fn several<'a>(script: Script, keys: &Keys, names: impl Iterator<Item = &'a str>) -> Self {
        let mut call = Self::empty(Some(script));
        for name in names {
            let (prefix, name) = (&*keys.prefix, &*keys.written(name));
            call.key(word![prefix, name]);
            call.key(word!["fp:fence:{", prefix, name, "}"]);
            if call.keys == 2 {
                call.key(word![&*keys.marker]);
            }
        }
        call
    }

    /// A script that knows the lock's own key only.
    pub(crate) fn plain(script: Script, keys: &Keys, name: &str) -> Self {
        let mut call = Self::empty(Some(script));
        call.key(word![&*keys.prefix, &*keys.written(name)]);
        call
    }

    pub(crate) fn empty(script: Option<Script>) -> Self {
        Self { script, keys: 0, count: 0, words: Vec::with_capacity(512), draft: Vec::with_capacity(160) }
    }

    pub(crate) fn key(&mut self, word: &[Part<'_>]) {
        self.keys += 1;
        self.word(word);
    }

    pub(crate) fn word(&mut self, word: &[Part<'_>]) {
        self.count += 1;
        self.draft.clear();
        for part in word {
            match part {
                Part::Text(text) => self.draft.extend_from_slice(text.as_bytes()),
                Part::Bytes(bytes) => self.draft.extend_from_slice(bytes),
                Part::Number(number) => wire::write_number(&mut self.draft, *number),
            }
        }
        wire::write_bytes(&mut self.words, &self.draft);
    }

    pub(crate) fn words<const N: usize>(mut self, words: [&[Part<'_>]; N]) -> Self {
        words.into_iter().for_each(|word| self.word(word));
        self
    }
}
