//! Recipes between processes that are killed, on an embedded file and on a server.
//!
//! With `FENCEPOST_LONG` in full size: 50 processes, 1,000 buyers.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fencepost::fence::replace_file;
use fencepost::{Blocking, Guard, Locks, Settled, Stock};
use fencepost_testkit::dice::Dice;
use fencepost_testkit::process::{self, Other};
use fencepost_testkit::redis::Redis;
use fencepost_testkit::wait::{self, PATIENCE};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// So long after a death another takes over.
const TTL: Duration = Duration::from_secs(2);
/// So long a ticket is reserved.
const HOLD: Duration = Duration::from_secs(5);
/// Each process sends the same payment so often.
const CALLS: usize = 20;

fn is_long() -> bool {
    std::env::var_os("FENCEPOST_LONG").is_some()
}

/// Where the locks are, and a folder for what the work does.
struct Place {
    store: String,
    folder: PathBuf,
}

impl Place {
    fn text(&self) -> String {
        format!("{} {}", self.store, self.folder.display())
    }

    fn of(text: &str) -> Self {
        let (store, folder) = text.split_once(' ').expect("two words");
        Self { store: store.to_owned(), folder: folder.into() }
    }

    fn locks(&self, ttl: Duration) -> Locks {
        persist(|| fencepost::connect(&self.store).ttl(ttl).block())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn lines(&self, name: &str) -> Vec<String> {
        fs::read_to_string(self.file(name)).unwrap_or_default().lines().map(ToOwned::to_owned).collect()
    }
}

fn append(path: &Path, line: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).expect("our own folder");
    file.write_all(format!("{line}\n").as_bytes()).expect("our own file");
}

/// Asks again as any caller would: a busy machine may keep a process waiting for longer than an answer takes, or a lease.
fn persist<T, E: std::fmt::Debug>(mut ask: impl FnMut() -> Result<T, E>) -> T {
    let started = Instant::now();
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(error) => assert!(started.elapsed() < PATIENCE, "{error:?}"),
        }
    }
}

fn on_sqlite(test: impl FnOnce(&Place)) {
    let folder = tempfile::tempdir().expect("a directory");
    let store = format!("sqlite:{}", folder.path().join("locks.db").display());
    test(&Place { store, folder: folder.path().into() });
}

fn on_redis(test: impl FnOnce(&Place)) {
    let (server, folder) = (Redis::new().start(), tempfile::tempdir().expect("a directory"));
    test(&Place { store: format!("redis://{}", server.address()), folder: folder.path().into() });
}

/// Not a test of its own: what another process does.
#[test]
fn in_another_process() {
    let Some((role, place)) = process::role() else { return };
    let (role, number) = role.split_once(' ').unwrap_or((&role, "0"));
    let (place, number) = (Place::of(&place), number.parse().expect("a number"));
    match role {
        "pays" => pay(&place),
        "reads" => read(&place, number),
        "buys" => buy(&place, number),
        other => panic!("{other}"),
    }
}

/// Charges an account once, however often it is asked: the file takes a token only if no newer one was there, and knows
/// the order by its key.
fn charge(place: &Place, guard: &Guard) -> Result<String, String> {
    let charged = place.lines("account");
    if let Some(receipt) = charged.iter().find_map(|line| line.strip_prefix("order-17 charged, ")) {
        return Ok(receipt.to_owned());
    }
    append(&place.file("begun"), &guard.token().to_string());
    // It may be killed here.
    process::say("works");
    process::hear();
    let receipt = format!("receipt {}", guard.token());
    let content = charged.iter().cloned().chain([format!("order-17 charged, {receipt}\n")]).collect::<Vec<_>>();
    replace_file(place.file("account"), content.join("\n").as_bytes(), guard.token()).map_err(|e| e.to_string())?;
    Ok(receipt)
}

fn pay(place: &Place) {
    let locks = place.locks(TTL);
    for _ in 0..CALLS {
        let call = locks.once_per_key("order-17", b"100 USD").wait_at_most(PATIENCE);
        let receipt = persist(|| call.run(async |guard| charge(place, guard)).block());
        append(&place.file("receipts"), &receipt.into_inner());
    }
    process::say("paid");
}

/// Whoever works is killed in the middle, and so are some who wait; the last worker may finish.
fn a_payment_is_charged_once(place: &Place) {
    let (count, kills) = if is_long() { (50, 10) } else { (10, 3) };
    let (to, said) = std::sync::mpsc::channel();
    let mut all: Vec<Other> = (0..count).map(|_| Other::start("pays", &place.text())).collect();
    all.iter_mut().for_each(|other| other.pass_on(to.clone()));
    let mut dice = Dice::new(u64::from(std::process::id()));
    let (mut killed, mut paid) = (0, 0);
    while paid < all.len() {
        let (id, line) = said.recv_timeout(PATIENCE).expect("somebody works or has paid");
        if line.ends_with("paid") {
            paid += 1;
        }
        if !line.ends_with("works") {
            continue;
        }
        let Some(worker) = all.iter().position(|other| other.id() == id) else { continue };
        if killed < kills {
            all.remove(worker).kill();
            // And one of those who wait.
            let bystander = usize::try_from(dice.below(all.len() as u64)).expect("an index");
            all.remove(bystander).kill();
            killed += 1;
        } else {
            all[worker].tell("go on");
        }
    }
    let charged = place.lines("account");
    assert_eq!(charged.len(), 1, "{charged:?}");
    let (begun, receipts) = (place.lines("begun"), place.lines("receipts"));
    let receipt = charged[0].strip_prefix("order-17 charged, ").expect("the charge");
    assert!(begun.len() > kills, "each worker that died was taken over: {begun:?}");
    assert!(receipts.iter().all(|other| other == receipt), "{receipts:?}");
    assert_eq!(receipts.len(), all.len() * CALLS, "every survivor has its receipts");
    println!("{count} processes, {} killed, {} calls: charged once", 2 * kills, receipts.len());
}

#[test]
fn a_payment_is_charged_once_on_sqlite() {
    on_sqlite(a_payment_is_charged_once);
}

#[test]
fn a_payment_is_charged_once_on_redis() {
    on_redis(a_payment_is_charged_once);
}

fn read(place: &Place, readers: usize) {
    // Nobody dies here: no lease is to end, and no value to grow old, before all have read.
    let locks = place.locks(2 * PATIENCE);
    let cache = locks.single_flight("page").wait_at_most(PATIENCE).fresh_for(10 * PATIENCE);
    process::say("ready");
    process::hear();
    std::thread::scope(|scope| {
        for _ in 0..readers {
            scope.spawn(|| {
                let rebuild = async || {
                    append(&place.file("rebuilt"), "page");
                    Ok::<_, std::io::Error>("a page".to_owned())
                };
                assert_eq!(persist(|| cache.get(rebuild).block()), "a page");
            });
        }
    });
    process::say("read");
}

fn of_a_thousand_readers_one_rebuilds(place: &Place) {
    let mut all: Vec<Other> = (0..4).map(|_| Other::start("reads 250", &place.text())).collect();
    all.iter_mut().for_each(|other| drop(other.says("ready")));
    all.iter_mut().for_each(|other| other.tell("now"));
    all.iter_mut().for_each(|other| drop(other.says("read")));
    all.into_iter().for_each(Other::finish);
    assert_eq!(place.lines("rebuilt"), ["page"]);
}

#[test]
fn of_a_thousand_readers_one_rebuilds_on_sqlite() {
    on_sqlite(of_a_thousand_readers_one_rebuilds);
}

#[test]
fn of_a_thousand_readers_one_rebuilds_on_redis() {
    on_redis(of_a_thousand_readers_one_rebuilds);
}

fn tickets(locks: &Locks) -> Stock {
    locks.stock("concert").wait_at_most(PATIENCE)
}

/// Buyers from this number on, up to the end of its hundred (or ten). Some die between reserving and confirming, the first
/// one always.
fn buy(place: &Place, first: usize) {
    let (locks, per_process) = (place.locks(TTL), buyers().1);
    let tickets = tickets(&locks);
    for buyer in first..(first / per_process + 1) * per_process {
        let Some(mine) = persist(|| tickets.reserve(1, HOLD).block()) else { continue };
        append(&place.file("reserved"), &mine.id);
        if buyer % per_process == 0 || Dice::new(buyer as u64).per_mille(150) {
            process::say(&format!("dies {buyer}"));
            kill(Pid::this(), Signal::SIGKILL).expect("it is us");
        }
        if persist(|| tickets.confirm(&mine.id).block()) == Settled::Confirmed {
            append(&place.file("sold"), &mine.id);
        }
    }
    process::say("dies never");
}

/// How many tickets, buyers per process, and processes.
fn buyers() -> (u32, usize, usize) {
    if is_long() { (100, 100, 10) } else { (20, 10, 5) }
}

fn no_ticket_is_sold_twice(place: &Place) {
    let (count, per_process, processes) = buyers();
    let (locks, text) = (place.locks(TTL), place.text());
    let stock = tickets(&locks);
    persist(|| stock.set(count).block());
    let deaths: usize = std::thread::scope(|scope| {
        let lane = |number: usize| {
            let (mut buyer, mut deaths) = (number * per_process, 0);
            loop {
                let mut other = Other::start(&format!("buys {buyer}"), &text);
                match other.says("dies ").parse::<usize>() {
                    Ok(dead) => (buyer, deaths) = (dead + 1, deaths + 1),
                    Err(_) => return deaths,
                }
                if buyer == (number + 1) * per_process {
                    return deaths;
                }
            }
        };
        let lanes: Vec<_> = (0..processes).map(|number| scope.spawn(move || lane(number))).collect();
        lanes.into_iter().map(|lane| lane.join().expect("no panic")).sum()
    });
    // Whoever has an id can ask how its reservation ended; those that are open are of the dead.
    let sold = place.lines("sold");
    wait::until("what was not sold is back", || {
        let left = persist(|| stock.left().block());
        left as usize + sold.len() == count as usize
    });
    assert!(deaths > 0 && !sold.is_empty() && sold.len() <= count as usize, "{deaths} deaths, {} sold", sold.len());
    for id in place.lines("reserved") {
        let how = persist(|| stock.cancel(&id).block());
        assert_eq!(how == Settled::Confirmed, sold.contains(&id), "{id}: {how:?}");
    }
    println!("{} buyers, {deaths} deaths, {} of {count} sold", per_process * processes, sold.len());
}

#[test]
fn no_ticket_is_sold_twice_on_sqlite() {
    on_sqlite(no_ticket_is_sold_twice);
}

#[test]
fn no_ticket_is_sold_twice_on_redis() {
    on_redis(no_ticket_is_sold_twice);
}
