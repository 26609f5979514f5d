//! Far more requests than servers answer at once: a queue costs time, but no call fails and no request is written twice.

mod common;

use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use fencepost_core::store::{Answer, Clock, Event, LockName, Mailbox, Post, Reply, Step, Trouble};
use fencepost_core::{Blocking, ReleaseOutcome};

use common::{PATIENCE, Place, scripts_run, until};

type Task<T> = Pin<Box<dyn Future<Output = T>>>;

/// Wakes one of many tasks of one thread.
struct Bell {
    task: usize,
    rings: mpsc::Sender<usize>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let _ = self.rings.send(self.task);
    }
}

/// Runs all of these on this thread.
fn all<T>(tasks: Vec<Task<T>>) -> Vec<T> {
    let (rings, rung) = mpsc::channel();
    (0..tasks.len()).for_each(|task| rings.send(task).expect("heard below"));
    let mut tasks: Vec<Option<Task<T>>> = tasks.into_iter().map(Some).collect();
    let mut done = Vec::new();
    while done.len() < tasks.len() {
        let number = rung.recv_timeout(PATIENCE).expect("no task moves any more");
        let waker = Waker::from(Arc::new(Bell { task: number, rings: rings.clone() }));
        let Some(task) = &mut tasks[number] else { continue };
        if let Poll::Ready(outcome) = task.as_mut().poll(&mut Context::from_waker(&waker)) {
            done.push(outcome);
            tasks[number] = None;
        }
    }
    done
}

/// Each server first does something else for six times as long as an answer may take on an idle link.
#[test]
fn a_thousand_tasks_ask_each_server_once_and_none_fails() {
    const TASKS: usize = 1024;
    let place = Place::quorum(5);
    let locks = fencepost_redis::connect("redlock", &place.rest()).block().expect("they are up");
    place.reach_all(&locks, "ours");
    let quiet = || place.servers.iter().map(scripts_run).collect::<Vec<_>>();
    until("what came before is answered", || {
        let before = quiet();
        locks.inspect("nothing").block().is_ok() && quiet().iter().zip(before).all(|(now, before)| *now == before + 1)
    });
    let before = quiet();
    let outcomes = thread::scope(|scope| {
        for server in &place.servers {
            scope.spawn(|| server.ask(&["DEBUG", "SLEEP", "0.3"]));
        }
        let turn = |number: usize| {
            let lock = locks.lock(format!("x{number}"));
            Box::pin(async move {
                let guard = lock.try_acquire().await.map_err(|error| error.to_string())?.ok_or("busy")?;
                guard.release().await.map_err(|error| error.to_string())
            }) as Task<Result<ReleaseOutcome, String>>
        };
        all((0..TASKS).map(turn).collect())
    });
    let wrong: Vec<_> = outcomes.iter().filter(|outcome| **outcome != Ok(ReleaseOutcome::Freed)).collect();
    assert!(wrong.is_empty(), "{} of {TASKS}, such as {:?}", wrong.len(), wrong[0]);
    let asked = || quiet().iter().zip(&before).map(|(now, before)| now - before).collect::<Vec<_>>();
    until("every server has answered", || asked().iter().all(|asked| *asked >= 2 * TASKS as u64));
    assert!(locks.shutdown(PATIENCE).block().is_empty(), "every release is confirmed");
    assert_eq!(asked(), [2 * TASKS as u64; 5], "an acquire and a release per task");
}

/// Counts the answers.
#[derive(Default)]
struct Tally(Mutex<(usize, Option<Trouble>)>);

impl Mailbox for Tally {
    fn post(self: Arc<Self>, post: Post) {
        let Event::Answer(answer) = post.event else { return };
        let mut tally = self.0.lock().expect("not poisoned");
        match answer {
            Ok(Answer::State(_)) => tally.0 += 1,
            Ok(_) => {}
            Err(trouble) => tally.1 = Some(trouble),
        }
    }
}

#[test]
fn more_steps_than_may_be_under_way_wait_for_their_turn() {
    const STEPS: usize = 120_000;
    let place = Place::one();
    let clock = Clock::system().expect("a clock");
    let nodes = fencepost_redis::nodes("redis", &place.rest(), clock.clone()).block().expect("it is up");
    let tally = Arc::new(Tally::default());
    let deadline = clock.now().plus(Duration::from_secs(60));
    let name = LockName::new("x").expect("a name");
    place.servers[0].pause();
    for _ in 0..STEPS {
        nodes[0].submit(Step::Inspect { name: name.clone() }, deadline, Reply::new(tally.clone(), 0, 0));
    }
    place.servers[0].resume();
    until("every step is answered", || {
        let tally = tally.0.lock().expect("not poisoned");
        assert_eq!(tally.1, None, "after {} answers", tally.0);
        tally.0 == STEPS
    });
}
