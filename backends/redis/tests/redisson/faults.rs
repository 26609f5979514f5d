//! What arrives late, or twice, or from somebody who is gone.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use fencepost_core::store::{Answer, Claim, Clock, FencingToken, Loss, Proposal, Repair, Step, Store, Then, Trouble};
use fencepost_core::{AcquireError, Blocking, EventKind};
use fencepost_testkit::contract::{Subject, wait_for};
use fencepost_testkit::proxy::Flow;
use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::Server;
use fencepost_testkit::steps::{claim, listen, run};

use crate::common::{self, Place, commands, until};
use crate::theirs::{Left, Theirs};
use crate::{THEIR_TTL_MS, TTL, hash, last, place};

/// A server as a store, for single steps.
fn node(place: &Place) -> Arc<dyn Store> {
    let clock = Clock::system().expect("a clock");
    fencepost_redis::nodes("redis", &place.rest(), clock).block().expect("it is up").remove(0)
}

/// A bound that was not used yet.
fn fresh(store: &Arc<dyn Store>) -> FencingToken {
    store.clock().expect("it was asked")
}

fn acquire(claim: &Arc<Claim>, bound: FencingToken) -> Step {
    Step::Acquire { claim: claim.clone(), attempt: 1, token: Proposal::Bounded(bound), unify: false }
}

fn granted(answer: Result<Answer, Trouble>) -> FencingToken {
    match answer {
        Ok(Answer::Granted { token }) => token,
        other => panic!("{other:?}"),
    }
}

fn release(claim: &Arc<Claim>, raise: FencingToken, then: Option<Then>) -> Step {
    Step::Release { claim: claim.clone(), raise: Some(raise), pass: Proposal::Bounded(raise.next()), then, only: None }
}

fn count(server: &Server<Redis>) -> String {
    hash(server, "x").get(1).cloned().unwrap_or_default()
}

/// Redisson counts a repeated request twice, and such a lock outlives its unlock.
#[test]
fn an_acquire_that_is_sent_twice_counts_once_and_one_release_frees_it() {
    let place = place();
    let (store, server) = (node(&place), &place.servers[0]);
    let (claim, bound) = (claim("ours", None), fresh(&store));
    let token = granted(run(&*store, acquire(&claim, bound)));
    assert_eq!(granted(run(&*store, acquire(&claim, bound))), token, "the same again");
    assert_eq!(granted(run(&*store, acquire(&claim, bound.next()))), token, "as one that got no reply");
    assert_eq!((count(server).as_str(), last(server, "x")), ("1", token.as_u64()));
    assert_eq!(run(&*store, release(&claim, bound.next(), None)), Ok(Answer::Freed));
    assert_eq!(run(&*store, release(&claim, bound.next(), None)), Ok(Answer::NotHeld), "it was sent twice");
    assert!(Theirs::at(server).lock("x", THEIR_TTL_MS), "free: {:?}", hash(server, "x"));
}

#[test]
fn what_arrives_after_its_own_release_does_nothing() {
    let place = place();
    let (store, server) = (node(&place), &place.servers[0]);
    let (claim, bound) = (claim("ours", None), fresh(&store));
    // The release overtakes the acquire.
    assert_eq!(run(&*store, release(&claim, bound, None)), Ok(Answer::NotHeld));
    let late = run(&*store, acquire(&claim, bound));
    assert!(matches!(late, Ok(Answer::Stale { last: Some(spent), .. }) if spent == bound), "{late:?}");
    let renewal = Step::Renew { claim: claim.clone(), token: bound, pass: None, repair: Repair::Forgotten };
    assert_eq!(run(&*store, renewal), Ok(Answer::Lost(Loss::TakenOver)));
    assert!(hash(server, "x").is_empty());
    // A give-back names its token.
    let other = bound.offset(2);
    let token = granted(run(&*store, acquire(&claim, other)));
    let give_back = |token| {
        let pass = Proposal::Bounded(other.next());
        Step::GiveBack { claim: claim.clone(), attempt: 2, token, pass }
    };
    assert_eq!(run(&*store, give_back(token.next())), Ok(Answer::NotHeld), "another one");
    assert_eq!(count(server), "1");
    assert_eq!(run(&*store, give_back(token)), Ok(Answer::Freed));
}

/// A claim that goes with a release of its own process would always be faster than one of theirs: it has to ask.
#[test]
fn a_lock_is_not_passed_on_inside_a_process_but_told_to_all() {
    let place = place();
    let (store, server) = (node(&place), &place.servers[0]);
    let (first, bound) = (claim("first", None), fresh(&store));
    let token = granted(run(&*store, acquire(&first, bound)));
    let second = claim("second", Some(bound));
    let (_listening, told) = listen(&*store, &second);
    let then = Then { claim: second.clone(), attempt: 1 };
    match run(&*store, release(&first, bound, Some(then))) {
        Ok(Answer::Relayed { freed: true, then }) => {
            assert_eq!(*then, Answer::Held { holder: None, last: Some(token), ticket: None });
        }
        other => panic!("{other:?}"),
    }
    assert!(Theirs::at(server).lock("x", THEIR_TTL_MS), "it is free for whoever comes first");
    let event = told.recv_timeout(common::PATIENCE).expect("it is told, too");
    assert_eq!(event, fencepost_core::store::Event::MayPay);
    assert!(matches!(run(&*store, acquire(&second, bound.offset(2))), Ok(Answer::Held { holder: Some(_), .. })));
}

#[test]
fn commands_that_arrive_again_after_their_release_are_refused() {
    let place = place().behind_proxies();
    let (server, proxy) = (&place.servers[0], &place.proxies[0]);
    let locks = place.locks("ours");
    proxy.take_forwarded();
    let guard = locks.lock("x").ttl(TTL).wait_forever().acquire().block().expect("free");
    guard.renew().block().expect("held");
    guard.release().block().expect("released");
    let before = (server.keys(), last(server, "x"));
    // The proxy writes down what it has passed on, which may already be answered.
    let mut seen = Vec::new();
    until("all three were written down", || {
        seen.extend(proxy.take_forwarded());
        commands(&seen).len() >= 3
    });
    let commands = commands(&seen);
    assert_eq!(commands.len(), 3, "an acquire, a renewal, a release");
    for command in commands.iter().chain(&commands) {
        let mut stream = TcpStream::connect(server.address()).expect("the server is up");
        stream.write_all(&[command.as_slice(), b"*1\r\n$4\r\nQUIT\r\n"].concat()).expect("sent");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("an answer");
        assert!(!reply.starts_with('-'), "{reply}");
        assert_eq!((server.keys(), last(server, "x")), before, "{}", String::from_utf8_lossy(command));
    }
}

/// The command ran, its reply is lost: the client does not know, cleans up, and says so.
#[test]
fn an_acquire_whose_reply_was_lost_is_given_back() {
    let place = place().behind_proxies();
    let (server, proxy) = (&place.servers[0], &place.proxies[0]);
    let locks = place.connect().answer_within(Duration::from_millis(100)).block().expect("there");
    proxy.replies(Flow::Lost);
    let result = locks.lock("x").ttl(TTL).acquire().block();
    assert!(matches!(&result, Err(error @ AcquireError::Store(_)) if error.outcome_unknown()), "{result:?}");
    until("it was given back", || last(server, "x") > 0 && hash(server, "x").is_empty());
    assert!(Theirs::at(server).lock("x", THEIR_TTL_MS), "free for theirs");
    assert_eq!(Theirs::at(server).unlock("x"), Left::Freed);
    proxy.replies(Flow::Pass);
    proxy.cut();
    let guard = common::once_reachable(|| locks.lock("x").ttl(TTL).acquire().block()).expect("free");
    assert_eq!(count(server), "1");
    guard.release().block().expect("released");
}

/// Their word is lost with the link: a new link is a reason to ask.
#[test]
fn a_waiter_whose_link_was_lost_listens_again() {
    let place = place().behind_proxies();
    let (server, proxy) = (&place.servers[0], &place.proxies[0]);
    let (locks, theirs) = (place.locks("ours"), Theirs::at(server));
    assert!(theirs.lock("x", THEIR_TTL_MS));
    let listens = || server.words(&["PUBSUB", "NUMSUB", &crate::theirs::channel("x")])[1] == "1";
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| locks.lock("x").ttl(TTL).wait_forever().acquire().block());
        until("it listens", listens);
        proxy.close();
        until("its link is gone", || !listens());
        proxy.reopen();
        until("it listens again", listens);
        assert_eq!(theirs.unlock("x"), Left::Freed);
        waiter.join().expect("no panic").expect("its turn").release().block().expect("released");
    });
}

#[test]
fn scripts_that_the_server_forgot_are_sent_again() {
    let place = place();
    let (locks, server) = (place.locks("ours"), &place.servers[0]);
    let flush = || assert_eq!(server.ask(&["SCRIPT", "FLUSH"]), "+OK");
    flush();
    let guard = locks.lock("x").ttl(TTL).acquire().block().expect("free");
    flush();
    guard.renew().block().expect("held");
    flush();
    assert_eq!(locks.inspect("x").block().expect("an answer").holders.len(), 1);
    flush();
    guard.release().block().expect("released");
    assert!(hash(server, "x").is_empty());
}

/// What a killed process held ends with its ttl, for theirs and for ours.
#[test]
fn a_lock_of_ours_that_was_killed_is_free_after_its_ttl() {
    const REST: &str = "FENCEPOST_TEST_REST";
    const TTL: Duration = Duration::from_millis(900);
    if let Ok(rest) = std::env::var(REST) {
        let locks = fencepost_redis::connect("redis", &rest).block().expect("it is up");
        let guard = locks.lock("x").ttl(TTL).acquire().block().expect("free");
        println!("held under {}", guard.token());
        guard.lost().block();
        panic!("it is renewed until it is killed");
    }
    let place = place();
    let server = &place.servers[0];
    let mut same_test = Command::new(std::env::current_exe().expect("our own program"));
    same_test.args(["--exact", "faults::a_lock_of_ours_that_was_killed_is_free_after_its_ttl", "--nocapture"]);
    let mut child = same_test.env(REST, place.rest()).stdout(Stdio::piped()).spawn().expect("our own program");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
    let token = lines.find_map(|line| line.split_once("held under ").map(|(_, token)| token.to_owned()));
    let token: u64 = token.expect("it holds").parse().expect("a token");
    let theirs = Theirs::at(server);
    assert!(!theirs.lock("x", THEIR_TTL_MS));
    child.kill().expect("it runs");
    child.wait().expect("it ended");
    let locks = place.locks("ours");
    let mut events = locks.events();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| locks.lock("x").ttl(TTL).wait_forever().acquire().block());
        wait_for(&mut events, "x", |kind| matches!(kind, EventKind::Waiting | EventKind::Acquired { .. }));
        let guard = waiter.join().expect("no panic").expect("after its ttl");
        assert!(guard.token().as_u64() > token);
        guard.release().block().expect("released");
    });
    assert!(theirs.lock("x", THEIR_TTL_MS));
}
