//! The part of ZooKeeper's wire format that we speak.
//!
//! Each message is its length and then fields one after the other: numbers with the high byte first, texts and bytes
//! behind their length, lists behind their count.

/// What a node that is made is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Persistent,
    /// It ends with the session that made it.
    Ephemeral,
    /// The same, with a number behind its name that counts up.
    Sequential,
}

/// A request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    Create {
        path: String,
        data: Vec<u8>,
        kind: Kind,
    },
    /// At this version; -1: whatever it is.
    Delete {
        path: String,
        version: i32,
    },
    Get {
        path: String,
        watch: bool,
    },
    Set {
        path: String,
        data: Vec<u8>,
        version: i32,
    },
    Children {
        path: String,
    },
    /// What is read after it is not older than it.
    Sync {
        path: String,
    },
    /// As part of several: it is at this version.
    Check {
        path: String,
        version: i32,
    },
    /// All of these, or none.
    Multi(Vec<Op>),
}

/// What a node is.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Stat {
    /// The transaction that made it.
    pub(crate) czxid: i64,
    /// The one that wrote its data last.
    pub(crate) mzxid: i64,
    /// When it was changed last, in milliseconds since 1970, by the leader's clock.
    pub(crate) mtime: i64,
    pub(crate) version: i32,
    /// The session that it ends with; 0: with none.
    pub(crate) owner: i64,
    pub(crate) children: i32,
}

/// What a request brought.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Said {
    Nothing,
    Created {
        path: String,
        stat: Stat,
    },
    /// As part of several requests.
    CreatedWith(String),
    Node {
        data: Vec<u8>,
        stat: Stat,
    },
    Changed(Stat),
    Children(Vec<String>),
    /// Of all parts, in their order.
    All(Vec<Said>),
}

/// Numbers of requests that are not answered in their turn.
pub(crate) mod xid {
    pub(crate) const EVENT: i32 = -1;
    pub(crate) const PING: i32 = -2;
    pub(crate) const AUTH: i32 = -4;
}

/// What servers refuse with.
pub(crate) mod code {
    pub(crate) const OK: i32 = 0;
    pub(crate) const RUNTIME_INCONSISTENCY: i32 = -2;
    pub(crate) const UNIMPLEMENTED: i32 = -6;
    pub(crate) const BAD_ARGUMENTS: i32 = -8;
    pub(crate) const NO_NODE: i32 = -101;
    pub(crate) const NO_AUTH: i32 = -102;
    pub(crate) const BAD_VERSION: i32 = -103;
    pub(crate) const NODE_EXISTS: i32 = -110;
    pub(crate) const NOT_EMPTY: i32 = -111;
    pub(crate) const SESSION_EXPIRED: i32 = -112;
    pub(crate) const INVALID_ACL: i32 = -114;
    pub(crate) const AUTH_FAILED: i32 = -115;
    pub(crate) const QUOTA: i32 = -125;
}

const CREATE: i32 = 1;
const CREATE2: i32 = 15;
const DELETE: i32 = 2;
const GET: i32 = 4;
const SET: i32 = 5;
const SYNC: i32 = 9;
const PING: i32 = 11;
const CHILDREN2: i32 = 12;
const CHECK: i32 = 13;
const MULTI: i32 = 14;
const AUTH: i32 = 100;
const CLOSE: i32 = -11;
const ERROR: i32 = -1;
const ALL_RIGHTS: i32 = 31;
/// No answer of ours is longer; a server that says otherwise is none.
pub(crate) const FRAME_MAX: usize = 64 << 20;

/// Who may do what with the nodes that we make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rights {
    Everybody,
    /// Whoever says the same name and password.
    Maker,
}

impl Op {
    fn code(&self) -> i32 {
        match self {
            Self::Create { .. } => CREATE2,
            Self::Delete { .. } => DELETE,
            Self::Get { .. } => GET,
            Self::Set { .. } => SET,
            Self::Children { .. } => CHILDREN2,
            Self::Sync { .. } => SYNC,
            Self::Check { .. } => CHECK,
            Self::Multi(_) => MULTI,
        }
    }

    fn write(&self, rights: Rights, to: &mut Writer) {
        match self {
            Self::Create { path, data, kind } => {
                to.text(path);
                to.bytes(data);
                let (scheme, id) = match rights {
                    Rights::Everybody => ("world", "anyone"),
                    Rights::Maker => ("auth", ""),
                };
                to.number(1);
                to.number(ALL_RIGHTS);
                to.text(scheme);
                to.text(id);
                to.number(match kind {
                    Kind::Persistent => 0,
                    Kind::Ephemeral => 1,
                    Kind::Sequential => 3,
                });
            }
            Self::Delete { path, version } | Self::Check { path, version } => {
                to.text(path);
                to.number(*version);
            }
            Self::Get { path, watch } => {
                to.text(path);
                to.0.push(u8::from(*watch));
            }
            Self::Set { path, data, version } => {
                to.text(path);
                to.bytes(data);
                to.number(*version);
            }
            Self::Children { path } => {
                to.text(path);
                to.0.push(0);
            }
            Self::Sync { path } => to.text(path),
            Self::Multi(parts) => {
                for part in parts {
                    to.number(part.code());
                    to.0.push(0);
                    to.number(-1);
                    part.write(rights, to);
                }
                to.number(-1);
                to.0.push(1);
                to.number(-1);
            }
        }
    }

    /// The whole message.
    pub(crate) fn frame(&self, xid: i32, rights: Rights) -> Vec<u8> {
        framed(|to| {
            to.number(xid);
            to.number(self.code());
            self.write(rights, to);
        })
    }

    /// Reads what was answered to it. The error is what a server refuses with; `None`: it makes no sense.
    pub(crate) fn read_answer(&self, from: &mut Reader<'_>) -> Option<Result<Said, i32>> {
        Some(Ok(match self {
            Self::Create { .. } => Said::Created { path: from.text()?, stat: from.stat()? },
            // Who syncs is told the path again.
            Self::Delete { .. } | Self::Check { .. } | Self::Sync { .. } => Said::Nothing,
            Self::Get { .. } => Said::Node { data: from.bytes()?, stat: from.stat()? },
            Self::Set { .. } => Said::Changed(from.stat()?),
            Self::Children { .. } => {
                let count = from.number()?.max(0);
                Said::Children((0..count).map(|_| from.text()).collect::<Option<_>>()?)
            }
            Self::Multi(parts) => {
                let mut all = Vec::with_capacity(parts.len());
                let mut refused = None;
                for part in parts {
                    let (kind, _, _) = (from.number()?, from.flag()?, from.number()?);
                    if kind == CREATE {
                        all.push(Said::CreatedWith(from.text()?));
                        continue;
                    }
                    if kind != ERROR {
                        all.push(part.read_answer(from)?.ok()?);
                        continue;
                    }
                    // Those before the one that was refused, and those behind it, say so in other words.
                    let said = from.number()?;
                    if said != code::OK && said != code::RUNTIME_INCONSISTENCY {
                        refused = refused.or(Some(said));
                    }
                    refused = refused.or((all.len() + 1 == parts.len()).then_some(said));
                    all.push(Said::Nothing);
                }
                return Some(refused.map_or(Ok(Said::All(all)), Err));
            }
        }))
    }
}

/// The first message on a connection. Session 0: a new one.
pub(crate) fn hello(last_zxid: i64, timeout_ms: i32, session: i64, password: &[u8]) -> Vec<u8> {
    framed(|to| {
        to.number(0);
        to.long(last_zxid);
        to.number(timeout_ms);
        to.long(session);
        to.bytes(password);
        to.0.push(0);
    })
}

/// What a server answers to the first message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Welcome {
    /// 0: there is no such session any more.
    pub(crate) timeout_ms: i32,
    pub(crate) session: i64,
    pub(crate) password: Vec<u8>,
}

impl Welcome {
    pub(crate) fn read(from: &mut Reader<'_>) -> Option<Self> {
        from.number()?;
        Some(Self { timeout_ms: from.number()?, session: from.long()?, password: from.bytes()? })
    }
}

pub(crate) fn ping() -> Vec<u8> {
    framed(|to| {
        to.number(xid::PING);
        to.number(PING);
    })
}

/// The session ends, and everything that ends with it.
pub(crate) fn close(number: i32) -> Vec<u8> {
    framed(|to| {
        to.number(number);
        to.number(CLOSE);
    })
}

/// Who we are.
pub(crate) fn introduction(user: &str, password: &str) -> Vec<u8> {
    framed(|to| {
        to.number(xid::AUTH);
        to.number(AUTH);
        to.number(0);
        to.text("digest");
        to.bytes(format!("{user}:{password}").as_bytes());
    })
}

/// What stands before each answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) xid: i32,
    pub(crate) zxid: i64,
    pub(crate) code: i32,
}

impl Header {
    pub(crate) fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(Self { xid: from.number()?, zxid: from.long()?, code: from.number()? })
    }
}

/// The node that a watch tells of; empty if it tells of the connection.
pub(crate) fn watched_path(from: &mut Reader<'_>) -> Option<String> {
    let (_kind, _state) = (from.number()?, from.number()?);
    from.text()
}

struct Writer(Vec<u8>);

fn framed(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut to = Writer(vec![0; 4]);
    write(&mut to);
    let length = u32::try_from(to.0.len() - 4).expect("BUG: our messages are short");
    to.0[..4].copy_from_slice(&length.to_be_bytes());
    to.0
}

impl Writer {
    fn number(&mut self, number: i32) {
        self.0.extend_from_slice(&number.to_be_bytes());
    }

    fn long(&mut self, number: i64) {
        self.0.extend_from_slice(&number.to_be_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(i32::try_from(bytes.len()).expect("BUG: our messages are short"));
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }
}

/// Reads fields; `None` where a message is too short.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    fn number(&mut self) -> Option<i32> {
        self.take().map(i32::from_be_bytes)
    }

    fn long(&mut self) -> Option<i64> {
        self.take().map(i64::from_be_bytes)
    }

    fn flag(&mut self) -> Option<bool> {
        self.take::<1>().map(|[flag]| flag != 0)
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        // No bytes are written as -1.
        let length = usize::try_from(self.number()?.max(0)).ok()?;
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head.to_vec())
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?).ok()
    }

    fn stat(&mut self) -> Option<Stat> {
        let (czxid, mzxid, _ctime, mtime) = (self.long()?, self.long()?, self.long()?, self.long()?);
        let (version, _cversion, _aversion) = (self.number()?, self.number()?, self.number()?);
        let (owner, _length, children, _pzxid) = (self.long()?, self.number()?, self.number()?, self.long()?);
        Some(Stat { czxid, mzxid, mtime, version, owner, children })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_its_length_its_number_its_kind_and_its_fields() {
        let op = Op::Delete { path: "/a".to_owned(), version: -1 };
        let expected = [0, 0, 0, 18, 0, 0, 0, 7, 0, 0, 0, 2, 0, 0, 0, 2, b'/', b'a', 255, 255, 255, 255];
        assert_eq!(op.frame(7, Rights::Everybody), expected);
    }

    #[test]
    fn an_answer_that_is_cut_off_is_no_answer() {
        let mut whole = Writer(Vec::new());
        whole.bytes(b"data");
        (0..4).for_each(|number| whole.long(number));
        (0..3).for_each(|number| whole.number(number));
        whole.long(9);
        whole.number(4);
        whole.number(3);
        whole.long(0);
        let get = Op::Get { path: String::new(), watch: false };
        let stat = Stat { czxid: 0, mzxid: 1, mtime: 3, version: 0, owner: 9, children: 3 };
        let said = get.read_answer(&mut Reader(&whole.0));
        assert_eq!(said, Some(Ok(Said::Node { data: b"data".to_vec(), stat })));
        for length in 0..whole.0.len() {
            assert_eq!(get.read_answer(&mut Reader(&whole.0[..length])), None, "{length} bytes");
        }
    }

    #[test]
    fn a_multi_is_refused_with_the_reason_of_the_part_that_was() {
        let mut said = Writer(Vec::new());
        for code in [code::OK, code::NO_NODE, code::RUNTIME_INCONSISTENCY] {
            said.number(ERROR);
            said.0.push(0);
            said.number(code);
            said.number(code);
        }
        let part = Op::Delete { path: "/a".to_owned(), version: 0 };
        let multi = Op::Multi(vec![part.clone(), part.clone(), part]);
        assert_eq!(multi.read_answer(&mut Reader(&said.0)), Some(Err(code::NO_NODE)));
    }
}
