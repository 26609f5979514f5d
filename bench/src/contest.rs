//! Tasks that lock, hold and unlock for a while, in one or more processes: one loop for every kind of lock.
//!
//! A process of a contest is this program again, or a program of `peers/`. Both get the same words: the servers, how
//! many tasks, the lock that all share (`own…`: the start of each task's own), how long to hold and how long to go on, in microseconds. They
//! say `ready` when they are connected and warm, go on when their input ends, and tell afterwards of every turn: task,
//! asked, from, until, done (nanoseconds of the monotonic clock) and token; who can also tells the `ticket` of a token. A task whose last turn is not over some time
//! after the end is `stuck` since it asked, and abandoned. Then their CPU time, and `end`.

use std::collections::HashMap;
use std::process::id;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::kinds::{self, Contender, Kind};
use crate::nodes::{Nodes, Usage};
use crate::process::{self, Worker, cpu, now, say};
use crate::runner::Samples;
use crate::{Outcome, interrupt};

/// How the locks begin that each task has for itself.
const OWN: &str = "own";
/// The first word of a process of a contest, in the place of a workload's name.
pub(crate) const NAME: &str = "contest";
/// For how long everyone runs before it counts: links, caches, compilers at run time.
const WARM: Duration = Duration::from_millis(150);
const PATIENCE: Duration = Duration::from_secs(20);
/// How long after the end a task may take for its last turn.
const GRACE: Duration = Duration::from_secs(2);

/// In how many turns a kind of lock runs in a round. One task is as quick as the processors on which it and the server
/// happen to be: that is luck of each process, and takes a few of them to even out.
pub(crate) fn turns(tasks: usize) -> u32 {
    if tasks == 1 { 4 } else { 1 }
}

/// Where the locks of a contest live.
pub(crate) trait Servers {
    /// `HOST:PORT,HOST:PORT`, or a whole URL where they are no Redis servers.
    fn addresses(&self) -> String;
    fn count(&self) -> usize;
    /// What they have done so far. `sets`: whether this client sends SET itself.
    fn usage(&self, sets: bool) -> Usage;
}

/// Who runs where, and for how long.
#[derive(Clone, Copy)]
pub(crate) struct Contest {
    pub(crate) kind: &'static Kind,
    pub(crate) processes: usize,
    /// In all processes together.
    pub(crate) tasks: usize,
    /// All tasks want the same lock.
    pub(crate) shared: bool,
    pub(crate) hold: Duration,
    pub(crate) length: Duration,
    /// How long processes may take to start, and to come to an end after their time. Then they hang.
    pub(crate) patience: Duration,
}

impl Contest {
    /// Tasks of one process on locks of their own that nobody else wants.
    pub(crate) fn uncontended(kind: &'static Kind, tasks: usize, length: Duration) -> Self {
        Self { kind, processes: 1, tasks, shared: false, hold: Duration::ZERO, length, patience: PATIENCE }
    }

    /// Tasks that want one lock, for a millisecond each.
    pub(crate) fn contended(kind: &'static Kind, processes: usize, tasks: usize, length: Duration) -> Self {
        Self { kind, processes, tasks, shared: true, hold: Duration::from_millis(1), length, patience: PATIENCE }
    }

    /// From start to end.
    pub(crate) fn run(self, nodes: &dyn Servers) -> Outcome<Story> {
        self.prepare(nodes)?.go(nodes).story(nodes)
    }

    /// A server fails when everyone is connected and warm.
    pub(crate) fn run_failing(self, nodes: &mut Nodes, node: usize, fail: fn(&mut Nodes, usize)) -> Outcome<Story> {
        let ready = self.prepare(&*nodes)?;
        fail(nodes, node);
        ready.go(nodes).story(nodes)
    }

    /// Starts the processes, and waits until they are warm.
    pub(crate) fn prepare(self, nodes: &dyn Servers) -> Outcome<Ready> {
        static CONTESTS: AtomicU64 = AtomicU64::new(0);
        interrupt::check()?;
        // Nothing that an earlier contest left behind is in the way of a later one.
        let kind_of_lock = if self.shared { "shared" } else { OWN };
        let lock = format!("{kind_of_lock}-{}", CONTESTS.fetch_add(1, Ordering::Relaxed));
        let micros = |span: Duration| span.as_micros().to_string();
        let each = (self.tasks / self.processes).to_string();
        let words = [nodes.addresses(), each, lock, micros(self.hold), micros(self.length)];
        let start = |_| match self.kind.program {
            Some(program) => Worker::spawn(program()?.args(&words)),
            None => Worker::spawn(process::again()?.args([NAME, self.kind.name]).args(&words)),
        };
        let mut workers = (0..self.processes).map(start).collect::<Outcome<Vec<_>>>()?;
        for worker in &mut workers {
            worker.hear_within(self.patience)?.ok_or_else(|| format!("{} does not start", self.kind.name))?;
        }
        Ok(Ready { contest: self, workers })
    }
}

/// Processes that wait for the start.
pub(crate) struct Ready {
    contest: Contest,
    workers: Vec<Worker>,
}

impl Ready {
    pub(crate) fn go(mut self, nodes: &dyn Servers) -> Running {
        let before = nodes.usage(self.contest.kind.sets);
        self.workers.iter_mut().for_each(Worker::give_leave);
        Running { contest: self.contest, workers: self.workers, before, began: now() }
    }
}

/// Processes at it.
pub(crate) struct Running {
    contest: Contest,
    workers: Vec<Worker>,
    before: Usage,
    began: u64,
}

impl Running {
    /// Waits for the end and puts together what everyone tells.
    pub(crate) fn story(mut self, nodes: &dyn Servers) -> Outcome<Story> {
        let end = self.began + nanos(self.contest.length);
        let (mut turns, mut stuck, mut tickets, mut client_cpu) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for (number, worker) in self.workers.iter_mut().enumerate() {
            loop {
                let left = Duration::from_nanos(end.saturating_sub(now())) + self.contest.patience;
                let Some(line) = worker.hear_within(left)? else { return Err(Box::new(Hung)) };
                let words: Vec<&str> = line.split(' ').collect();
                match words[..] {
                    ["end"] => break,
                    ["ticket", token, ticket] => tickets.push((token.parse()?, ticket.parse()?)),
                    ["stuck", since] => stuck.push(since.parse()?),
                    ["cpu", used] => client_cpu += used.parse::<u64>()?,
                    [task, asked, from, until, done, token] => turns.push(Turn {
                        waiter: number * self.contest.tasks + task.parse::<usize>()?,
                        asked: asked.parse()?,
                        from: from.parse()?,
                        until: until.parse()?,
                        done: done.parse()?,
                        token: token.parse()?,
                    }),
                    _ => return Err(format!("{} says {line:?}", self.contest.kind.name).into()),
                }
            }
        }
        let used = nodes.usage(self.contest.kind.sets) - self.before;
        turns.sort_unstable_by_key(|turn| turn.from);
        self.contest.hangs(&turns, &stuck, end)?;
        let mut story = self.contest.judge(&turns, end, client_cpu as f64, used, nodes.count())?;
        story.inversions = per_thousand(inversions(tickets), turns.len());
        // They waited at least until the end.
        story.waits.extend(stuck.iter().map(|since| end.saturating_sub(*since)));
        Ok(story)
    }
}

/// A contest that did not end: no measurement, but an answer.
#[derive(Debug)]
pub(crate) struct Hung;

impl std::fmt::Display for Hung {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "hung")
    }
}

impl std::error::Error for Hung {}

/// One turn of a task.
struct Turn {
    waiter: usize,
    asked: u64,
    from: u64,
    until: u64,
    done: u64,
    token: u64,
}

/// What a contest showed.
pub(crate) struct Story {
    /// Turns per second.
    pub(crate) rate: f64,
    /// Lock and unlock together.
    pub(crate) pairs: Samples,
    /// Turns per second that went to another than the last holder.
    pub(crate) to_another: f64,
    /// From unlock to that other's lock.
    pub(crate) gaps: Samples,
    /// From asking to having.
    pub(crate) waits: Samples,
    /// How equal the shares are: 1 is equal, 1/n is all for one.
    pub(crate) jain: f64,
    /// CPU time per turn, in nanoseconds: of the processes, of all servers.
    pub(crate) client_cpu: f64,
    pub(crate) server_cpu: f64,
    /// Commands per turn and node.
    pub(crate) commands: f64,
    /// Runs of scripts per turn and node: each request of a lock is one.
    pub(crate) requests: f64,
    /// Of a thousand turns, so many came before that of a lower ticket.
    pub(crate) inversions: f64,
}

impl Contest {
    fn judge(&self, turns: &[Turn], end: u64, client_cpu: f64, used: Usage, nodes: usize) -> Outcome<Story> {
        let mut story = Story {
            rate: 0.0,
            pairs: Samples::default(),
            to_another: 0.0,
            gaps: Samples::default(),
            waits: Samples::default(),
            jain: 0.0,
            client_cpu: client_cpu / turns.len() as f64,
            server_cpu: used.cpu / turns.len() as f64,
            commands: used.sent / turns.len() as f64 / nodes as f64,
            requests: used.scripts / turns.len() as f64 / nodes as f64,
            inversions: 0.0,
        };
        // What began after the end is the last turn of those who still waited then: it is checked, but not counted.
        let counted: Vec<&Turn> = turns.iter().filter(|turn| turn.from < end).collect();
        let (Some(first), Some(last)) = (turns.first(), counted.last()) else { return Ok(story) };
        let seconds = (last.from - first.asked) as f64 / 1e9;
        if self.shared {
            self.check(turns)?;
            let others = counted.windows(2).filter(|pair| pair[0].waiter != pair[1].waiter);
            story.gaps.extend(others.map(|pair| pair[1].from.saturating_sub(pair[0].until)));
            story.to_another = story.gaps.len() as f64 / seconds;
        }
        story.rate = counted.len() as f64 / seconds;
        story.pairs.extend(counted.iter().map(|turn| turn.done - turn.asked - (turn.until - turn.from)));
        story.waits.extend(turns.iter().map(|turn| turn.from - turn.asked));
        let mut shares: HashMap<usize, f64> = HashMap::new();
        counted.iter().for_each(|turn| *shares.entry(turn.waiter).or_default() += 1.0);
        let squares: f64 = shares.values().map(|share| share * share).sum();
        story.jain = (counted.len() as f64).powi(2) / (self.tasks as f64 * squares);
        Ok(story)
    }

    /// Nobody waits for a free lock; one that many want may leave somebody waiting, but not everybody.
    fn hangs(&self, turns: &[Turn], stuck: &[u64], end: u64) -> Outcome<()> {
        let late = end - nanos(self.length) / 2;
        let goes_on = self.shared && turns.iter().any(|turn| turn.from > late);
        if turns.is_empty() || !(stuck.is_empty() || goes_on) { Err(Box::new(Hung)) } else { Ok(()) }
    }

    /// Two holders at once, or a token that does not rise, end the measurement.
    fn check(&self, turns: &[Turn]) -> Outcome<()> {
        for pair in turns.windows(2) {
            let [last, next] = pair else { unreachable!("BUG: windows of two") };
            if next.from < last.until {
                return Err(
                    format!("{}: two holders at once, for {} ns", self.kind.name, last.until - next.from).into()
                );
            }
            if self.kind.fenced && next.token <= last.token {
                return Err(format!("{}: token {} after {}", self.kind.name, next.token, last.token).into());
            }
        }
        Ok(())
    }
}

/// Of those in line, given as token and ticket: how many were served before somebody with a lower ticket.
fn inversions(mut served: Vec<(u64, u64)>) -> usize {
    served.sort_unstable();
    let mut lowest = u64::MAX;
    let overtakes = |(_, ticket): &(u64, u64)| {
        let overtook = *ticket > lowest;
        lowest = lowest.min(*ticket);
        overtook
    };
    served.iter().rev().copied().filter(overtakes).count()
}

fn per_thousand(count: usize, of: usize) -> f64 {
    count as f64 * 1000.0 / of.max(1) as f64
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// What a process of a contest is told.
pub(crate) struct Task<'a> {
    pub(crate) addresses: &'a str,
    pub(crate) tasks: usize,
    lock: &'a str,
    hold: Duration,
    pub(crate) length: Duration,
}

impl Task<'_> {
    /// The lock of a task.
    pub(crate) fn lock(&self, task: usize) -> String {
        if self.lock.starts_with(OWN) { format!("{}-{task}", self.lock) } else { self.lock.to_owned() }
    }
}

/// In a process of a contest.
pub(crate) fn work(args: &[String]) -> Outcome<()> {
    let [kind, addresses, tasks, lock, hold, length] = args else { return Err("a contest needs six words".into()) };
    let micros = |text: &str| text.parse().map(Duration::from_micros);
    let task = Task { addresses, tasks: tasks.parse()?, lock, hold: micros(hold)?, length: micros(length)? };
    kinds::find(kind)?.run(&task)
}

/// Warms up, waits for the start, measures and tells. `turns` goes on for so long, on locks of this process while warming.
pub(crate) fn perform(task: &Task, mut turns: impl FnMut(&Task) -> Outcome<Vec<String>>) -> Outcome<()> {
    let own = format!("{OWN}-warm-{}", id());
    let lock = if task.lock.starts_with(OWN) { task.lock } else { &own };
    let warm = Task { lock, hold: Duration::ZERO, length: WARM, ..*task };
    turns(&warm)?;
    say("ready")?;
    process::await_leave()?;
    let before = cpu();
    let lines = turns(task)?;
    let used = cpu() - before;
    say(&(lines.join("\n") + "\n" + &format!("cpu {}\nend", used.as_nanos())))
}

/// The turns of all tasks of this process, whatever kind of lock they take.
pub(crate) async fn all_turns<C: Contender>(
    task: &Task<'_>,
    enter: impl AsyncFn(String) -> Outcome<C>,
) -> Outcome<Vec<String>> {
    let mut contenders = Vec::new();
    for number in 0..task.tasks {
        contenders.push(enter(task.lock(number)).await?);
    }
    let end = now() + nanos(task.length);
    let start = |(number, contender)| tokio::spawn(take_turns(contender, number, task.hold, end));
    let started: Vec<_> = contenders.into_iter().enumerate().map(start).collect();
    let mut lines = Vec::new();
    for task in started {
        lines.extend(task.await??);
    }
    Ok(lines)
}

async fn take_turns(mut contender: impl Contender, number: usize, hold: Duration, end: u64) -> Outcome<Vec<String>> {
    let (mut turns, mut asked) = (Vec::new(), now());
    let all = async {
        while now() < end {
            asked = now();
            let (held, token) = contender.turn(keep(hold)).await?;
            turns.push((asked, held, now(), token));
        }
        Outcome::Ok(())
    };
    let left = Duration::from_nanos(end.saturating_sub(now()));
    let over = tokio::time::timeout(left + GRACE, all).await;
    let line = |(asked, held, done, token): (u64, Held, u64, u64)| {
        format!("{number} {asked} {} {} {done} {token}", held.from, held.until)
    };
    let mut lines: Vec<String> = turns.into_iter().map(line).collect();
    match over {
        Ok(over) => over?,
        Err(_) => lines.push(format!("stuck {asked}")),
    }
    Ok(lines)
}

/// From when to when the lock was held.
pub(crate) struct Held {
    from: u64,
    until: u64,
}

async fn keep(hold: Duration) -> Held {
    let from = now();
    if !hold.is_zero() {
        tokio::time::sleep(hold).await;
    }
    Held { from, until: now() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inversion_is_a_turn_before_that_of_a_lower_ticket() {
        assert_eq!(inversions(vec![(1, 10), (2, 20), (3, 30)]), 0);
        assert_eq!(inversions(vec![(3, 30), (1, 20), (2, 10)]), 1);
        assert_eq!(inversions(vec![(1, 30), (2, 20), (3, 10)]), 2);
        assert_eq!(per_thousand(inversions(vec![(1, 20), (2, 10), (3, 30), (4, 40)]), 4), 250.0);
    }
}
