//! One session: whatever becomes of connections, requests are sent once, in order, and answered or called lost.
//!
//! A session goes from server to server with its number and password. What was sent on one connection cannot run any more
//! once a request on the next one was answered: a server drops what it has of the old connection, and the leader refuses
//! what another server still passes on. So a request that was lost is known by what is seen after it.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use fencepost_core::notice;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::error::Failure;
use crate::url::Settings;
use crate::wire::{self, FRAME_MAX, Header, Op, Reader, Rights, Said, Welcome, code, xid};

/// How long a server may take to let us in.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// A server that does not answer for so long is left for another one: a part of the session, within these bounds.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(4));
/// A session that has nothing to say says that it is there, no more often than this.
const IDLE_MIN: Duration = Duration::from_millis(100);
/// The pauses before a server is tried again grow from the first to the second.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(250));
/// A connection that breaks sooner was hardly one.
const SHORT_LIVED: Duration = Duration::from_secs(1);
/// Nobody was reached for so many times the session's length, and so long: it counts as over.
const FORGET_AFTER: (u32, Duration) = (4, Duration::from_secs(300));
/// So much is read at once, if it is there.
const READ_AT_ONCE: usize = 8 << 10;
/// How long the farewell may take.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// What a session says without being asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum News {
    /// A watched node has changed.
    Changed { session: i64, path: String },
    /// The connection broke, and all watches with it.
    Broken { session: i64 },
    /// The session has ended, and every node that ends with it.
    Ended { session: i64 },
}

enum Command {
    Send { op: Op, reply: oneshot::Sender<Result<Said, Failure>> },
    Close { done: oneshot::Sender<()> },
}

/// A session that is open, or was.
pub(crate) struct Session {
    pub(crate) id: i64,
    /// How long the servers keep it without hearing from us.
    pub(crate) timeout: Duration,
    expired: Arc<AtomicBool>,
    commands: UnboundedSender<Command>,
}

impl Session {
    /// Opens one that lasts for about so long; the servers decide.
    pub(crate) async fn open(
        settings: &Arc<Settings>,
        wanted: Duration,
        news: UnboundedSender<News>,
        limit: Instant,
    ) -> Result<Self, Failure> {
        let mut road = Road {
            settings: settings.clone(),
            next: settings.first_server,
            wanted_ms: i32::try_from(wanted.as_millis()).unwrap_or(i32::MAX),
            id: 0,
            password: Vec::new(),
            last_zxid: Arc::new(AtomicI64::new(0)),
        };
        let (line, timeout) = timeout_at(limit, road.first_connection()).await.map_err(|_| Failure::too_slow())??;
        let (commands, orders) = unbounded_channel();
        let expired = Arc::new(AtomicBool::new(false));
        let session = Self { id: road.id, timeout, expired: expired.clone(), commands };
        let several = settings.servers.len() > 1;
        // Where there is only one, it is given more time: leaving it helps only if the connection is dead.
        let patience = (if several { timeout / 4 } else { timeout / 2 }).clamp(PATIENCE.0, PATIENCE.1);
        let keeper = Keeper { road, orders, expired, news, timeout, patience, pending: VecDeque::new(), number: 0 };
        tokio::spawn(keeper.run(line));
        Ok(session)
    }

    /// Nothing that ends with it is there any more.
    pub(crate) fn is_expired(&self) -> bool {
        self.expired.load(Ordering::SeqCst)
    }

    /// Sends at once what is said in order; answers come as they come. One that nobody waits for is sent all the same,
    /// unless there is no connection.
    pub(crate) fn send(&self, op: Op) -> Pending {
        let (reply, answer) = oneshot::channel();
        let _ = self.commands.send(Command::Send { op, reply });
        Pending(answer)
    }

    /// Sends one request and waits.
    pub(crate) async fn ask(&self, op: Op, limit: Instant) -> Result<Said, Failure> {
        self.send(op).by(limit).await
    }

    /// Ends it, and everything that ends with it.
    pub(crate) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.commands.send(Command::Close { done }).is_ok() {
            let _ = timeout(CLOSE_WITHIN, closed).await;
        }
    }
}

/// A request under way.
pub(crate) struct Pending(oneshot::Receiver<Result<Said, Failure>>);

impl Pending {
    pub(crate) async fn by(self, limit: Instant) -> Result<Said, Failure> {
        match timeout_at(limit, self.0).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Failure::expired()),
            Err(_) => Err(Failure::too_slow()),
        }
    }
}

/// How a session finds its servers.
struct Road {
    settings: Arc<Settings>,
    next: usize,
    wanted_ms: i32,
    id: i64,
    password: Vec<u8>,
    last_zxid: Arc<AtomicI64>,
}

/// A connection that has the session.
struct Line {
    reader: OwnedReadHalf,
    writer: OwnedWriteHalf,
    /// What was read and not yet understood.
    buffer: Vec<u8>,
}

enum Refusal {
    /// Another server may let us in.
    Elsewhere(io::Error),
    /// There is no such session.
    Expired,
}

impl Road {
    /// Each server once, or again while they are many; the last one's reason.
    async fn first_connection(&mut self) -> Result<(Line, Duration), Failure> {
        let mut why = None;
        for _ in 0..self.settings.servers.len() * 2 {
            match self.connect().await {
                Ok(line) => return Ok(line),
                Err(Refusal::Elsewhere(error)) => why = Some(error),
                Err(Refusal::Expired) => return Err(Failure::nonsense("a new session was refused as an old one")),
            }
            sleep(PAUSE.0).await;
        }
        let what = why.map_or_else(String::new, |error| error.to_string());
        Err(Failure::unreachable(format!("{}: {what}", self.settings.label())))
    }

    async fn connect(&mut self) -> Result<(Line, Duration), Refusal> {
        let server = self.settings.servers[self.next % self.settings.servers.len()].clone();
        self.next += 1;
        let silent = || io::Error::new(io::ErrorKind::TimedOut, "no answer in time");
        let met = timeout(CONNECT_WITHIN, self.greet(&server)).await.unwrap_or_else(|_| Err(silent()));
        let (line, welcome) = met.map_err(Refusal::Elsewhere)?;
        let Ok(timeout_ms @ 1..) = u64::try_from(welcome.timeout_ms) else { return Err(Refusal::Expired) };
        (self.id, self.password) = (welcome.session, welcome.password);
        Ok((line, Duration::from_millis(timeout_ms)))
    }

    async fn greet(&self, server: &str) -> io::Result<(Line, Welcome)> {
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        let (reader, mut writer) = stream.into_split();
        let zxid = self.last_zxid.load(Ordering::SeqCst);
        let mut words = wire::hello(zxid, self.wanted_ms, self.id, &self.password);
        if let Some((user, password)) = &self.settings.user {
            words.extend(wire::introduction(user, password));
        }
        writer.write_all(&words).await?;
        let mut line = Line { reader, writer, buffer: Vec::new() };
        let frame = line.frame().await?;
        let nonsense = || io::Error::new(io::ErrorKind::InvalidData, "no ZooKeeper server answers here");
        let welcome = Welcome::read(&mut Reader(&frame)).ok_or_else(nonsense)?;
        Ok((line, welcome))
    }
}

impl Line {
    /// The next message. Nothing is lost if this is given up.
    async fn frame(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(head) = self.buffer.first_chunk::<4>() {
                let length = usize::try_from(u32::from_be_bytes(*head)).unwrap_or(usize::MAX);
                if length > FRAME_MAX {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "a message without end"));
                }
                if self.buffer.len() >= 4 + length {
                    let rest = self.buffer.split_off(4 + length);
                    let mut frame = std::mem::replace(&mut self.buffer, rest);
                    frame.drain(..4);
                    return Ok(frame);
                }
            }
            self.buffer.reserve(READ_AT_ONCE);
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// A request that was sent.
struct Sent {
    number: i32,
    at: Instant,
    /// `None`: a ping.
    asked: Option<(Op, oneshot::Sender<Result<Said, Failure>>)>,
}

/// Keeps the session alive and its requests in order.
struct Keeper {
    road: Road,
    orders: UnboundedReceiver<Command>,
    expired: Arc<AtomicBool>,
    news: UnboundedSender<News>,
    timeout: Duration,
    patience: Duration,
    pending: VecDeque<Sent>,
    number: i32,
}

/// Why a connection is not used any more.
enum End {
    Broken,
    Expired,
    /// Nobody needs the session any more.
    Done,
}

impl Keeper {
    async fn run(mut self, mut line: Line) {
        let mut pause = PAUSE.0;
        loop {
            let since = Instant::now();
            let end = self.talk(&mut line).await;
            drop(line);
            self.lose_pending();
            let _ = self.news.send(News::Broken { session: self.road.id });
            match end {
                End::Broken => {}
                End::Expired => return self.expire(),
                End::Done => return,
            }
            // A server that lets us in and hangs up is not asked without rest.
            pause = if since.elapsed() < SHORT_LIVED { (pause * 2).min(PAUSE.1) } else { PAUSE.0 };
            line = match self.reconnect(pause).await {
                Some(line) => line,
                None => return self.expire(),
            };
        }
    }

    /// `None`: there is no such session any more, as far as anybody can tell.
    async fn reconnect(&mut self, mut pause: Duration) -> Option<Line> {
        let since = Instant::now();
        if pause > PAUSE.0 {
            sleep(pause).await;
        }
        let forget = (self.timeout * FORGET_AFTER.0).max(FORGET_AFTER.1);
        loop {
            match self.road.connect().await {
                Ok((line, granted)) if granted >= self.timeout => return Some(line),
                // Its session would end before our claims do.
                Ok((_, granted)) => {
                    let granted = format!("{granted:?}");
                    notice!(WARN, granted = granted, "a ZooKeeper server shortens the session; trying another");
                }
                Err(Refusal::Expired) => return None,
                Err(Refusal::Elsewhere(error)) => {
                    notice!(DEBUG, error = error, "a ZooKeeper server cannot be reached");
                    if since.elapsed() > forget || (self.orders.is_closed() && self.orders.is_empty()) {
                        return None;
                    }
                }
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    async fn talk(&mut self, line: &mut Line) -> End {
        // A server tells the leader of us twice per tick only, and if it dies before that, the leader knows the word before:
        // that must not be old.
        let idle = (self.road.settings.slack_min() / 2).max(IDLE_MIN).min(self.timeout / 4);
        let mut heard = Instant::now();
        let mut spoke = heard;
        loop {
            let overdue = self.pending.front().map(|sent| sent.at + self.patience);
            let wake = overdue.unwrap_or(spoke + idle).min(spoke + idle);
            tokio::select! {
                biased;
                frame = line.frame() => match frame {
                    Ok(frame) => {
                        heard = Instant::now();
                        if let Some(end) = self.hear(&frame) {
                            return end;
                        }
                    }
                    Err(_) => return End::Broken,
                },
                order = self.orders.recv() => {
                    let mut words = Vec::new();
                    let mut order = order;
                    loop {
                        match order {
                            None => return End::Done,
                            Some(Command::Send { op, reply }) => self.write(op, reply, &mut words),
                            Some(Command::Close { done }) => {
                                words.extend(wire::close(self.number.wrapping_add(1).max(1)));
                                let _ = line.writer.write_all(&words).await;
                                // It hangs up when the session is closed.
                                let _ = timeout(CLOSE_WITHIN, async { while line.frame().await.is_ok() {} }).await;
                                self.expired.store(true, Ordering::SeqCst);
                                let _ = done.send(());
                                return End::Done;
                            }
                        }
                        match self.orders.try_recv() {
                            Ok(more) => order = Some(more),
                            Err(_) => break,
                        }
                    }
                    spoke = Instant::now();
                    match timeout(self.patience, line.writer.write_all(&words)).await {
                        Ok(Ok(())) => {}
                        _ => return End::Broken,
                    }
                }
                () = tokio::time::sleep_until(wake) => {
                    let now = Instant::now();
                    if self.pending.front().is_some_and(|sent| now >= sent.at + self.patience && now >= heard + self.patience) {
                        return End::Broken;
                    }
                    if let Some(sent) = self.pending.front_mut().filter(|sent| now >= sent.at + self.patience) {
                        // It is slow, and speaks: its time starts anew.
                        sent.at = now;
                    }
                    if now >= spoke + idle {
                        spoke = now;
                        self.pending.push_back(Sent { number: xid::PING, at: now, asked: None });
                        match timeout(self.patience, line.writer.write_all(&wire::ping())).await {
                            Ok(Ok(())) => {}
                            _ => return End::Broken,
                        }
                    }
                }
            }
        }
    }

    fn write(&mut self, op: Op, reply: oneshot::Sender<Result<Said, Failure>>, words: &mut Vec<u8>) {
        if reply.is_closed() {
            // Whoever asked has given up before it was sent.
            return;
        }
        self.number = self.number.checked_add(1).unwrap_or(1);
        let rights = if self.road.settings.user.is_some() { Rights::Maker } else { Rights::Everybody };
        words.extend(op.frame(self.number, rights));
        self.pending.push_back(Sent { number: self.number, at: Instant::now(), asked: Some((op, reply)) });
    }

    fn hear(&mut self, frame: &[u8]) -> Option<End> {
        let mut reader = Reader(frame);
        let Some(header) = Header::read(&mut reader) else { return Some(End::Broken) };
        match header.xid {
            xid::EVENT => {
                if let Some(path) = wire::watched_path(&mut reader).filter(|path| !path.is_empty()) {
                    let _ = self.news.send(News::Changed { session: self.road.id, path });
                }
                return None;
            }
            xid::AUTH if header.code == code::OK => return None,
            xid::AUTH => {
                // It hangs up now; whoever waits shall know why.
                for (op, reply) in self.pending.drain(..).filter_map(|sent| sent.asked) {
                    let _ = reply.send(Err(Failure::refused(header.code, &place(&op))));
                }
                return Some(End::Broken);
            }
            _ => {}
        }
        self.road.last_zxid.fetch_max(header.zxid, Ordering::SeqCst);
        // One that is not the first stays there: whether that one has run is not known.
        let in_turn = self.pending.front().is_some_and(|sent| sent.number == header.xid);
        let Some(sent) = in_turn.then(|| self.pending.pop_front()).flatten() else {
            notice!(WARN, "a ZooKeeper server answered out of turn");
            return Some(End::Broken);
        };
        let (op, reply) = sent.asked?;
        let answer = match header.code {
            code::OK => match op.read_answer(&mut reader) {
                Some(answer) => answer.map_err(|number| Failure::refused(number, &place(&op))),
                None => Err(Failure::nonsense("an answer was cut short")),
            },
            number => Err(Failure::refused(number, &place(&op))),
        };
        let ended = header.code == code::SESSION_EXPIRED;
        let _ = reply.send(answer);
        ended.then_some(End::Expired)
    }

    /// What was sent and not answered may have run or not.
    fn lose_pending(&mut self) {
        for (_, reply) in self.pending.drain(..).filter_map(|sent| sent.asked) {
            let _ = reply.send(Err(Failure::unreachable("the connection broke before the answer")));
        }
    }

    fn expire(mut self) {
        self.expired.store(true, Ordering::SeqCst);
        notice!(DEBUG, "a ZooKeeper session has expired");
        self.lose_pending();
        self.orders.close();
        while let Ok(order) = self.orders.try_recv() {
            if let Command::Send { reply, .. } = order {
                let _ = reply.send(Err(Failure::expired()));
            }
        }
        let _ = self.news.send(News::Broken { session: self.road.id });
        let _ = self.news.send(News::Ended { session: self.road.id });
    }
}

/// What a request is about, without the secret in the name of a claim's node.
fn place(op: &Op) -> String {
    let path = match op {
        Op::Create { path, .. }
        | Op::Delete { path, .. }
        | Op::Get { path, .. }
        | Op::Set { path, .. }
        | Op::Children { path }
        | Op::Check { path, .. }
        | Op::Sync { path } => path.as_str(),
        Op::Multi(parts) => return parts.first().map(place).unwrap_or_default(),
    };
    match path.rsplit_once('/') {
        Some((folder, last)) if last.starts_with("_c_") => folder.to_owned(),
        _ => path.to_owned(),
    }
}
