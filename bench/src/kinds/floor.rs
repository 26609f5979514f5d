//! The floor of a fenced pair: plain sockets, one thread, one write and one read per node and step for all tasks
//! together, and the cheapest scripts that fence.

use super::Kind;
use crate::Outcome;
use crate::contest::{Task, perform};
use crate::process::now;
use crate::wire::{Link, command};

pub(crate) const FLOOR: Kind = Kind { name: "raw floor", fenced: false, sets: false, program: None, run };

const ACQUIRE: &str = "if redis.call('PTTL', KEYS[3]) == -3 then return -1 end \
    local v = redis.call('SET', KEYS[1], ARGV[1], 'NX', 'GET', 'PX', ARGV[3]) if v then return 0 end \
    local last = redis.call('SET', KEYS[2], ARGV[2], 'GET', 'PX', 86400000) \
    if tonumber(ARGV[2]) > tonumber(last or 0) then return 1 end return 2";
const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
/// What both answer.
const YES: &[u8] = b":1\r\n";

fn run(task: &Task) -> Outcome<()> {
    let mut floor = Floor::connect(task.addresses)?;
    perform(task, |task| floor.turns(task))
}

struct Floor {
    links: Vec<Link>,
    acquire: String,
    release: String,
    token: u64,
}

impl Floor {
    fn connect(addresses: &str) -> Outcome<Self> {
        let mut links = addresses.split(',').map(Link::connect).collect::<Outcome<Vec<_>>>()?;
        let [mut acquire, mut release] = [String::new(), String::new()];
        for link in &mut links {
            acquire = link.load(ACQUIRE)?;
            release = link.load(RELEASE)?;
        }
        // The tokens of an earlier process are lower.
        Ok(Self { links, acquire, release, token: now() })
    }

    fn turns(&mut self, task: &Task) -> Outcome<Vec<String>> {
        let locks: Vec<String> = (0..task.tasks).map(|number| format!("raw-{}", task.lock(number))).collect();
        let release = |lock: &String| command(&["EVALSHA", &self.release, "1", lock, "owner"]);
        let releases: Vec<u8> = locks.iter().flat_map(release).collect();
        let end = now() + u64::try_from(task.length.as_nanos())?;
        let mut lines = Vec::new();
        while now() < end {
            self.token += 1;
            let token = self.token.to_string();
            let acquire = |lock: &String| {
                let fence = format!("{lock}-fence");
                command(&["EVALSHA", &self.acquire, "3", lock, &fence, "raw-marker", "owner", &token, "30000"])
            };
            let acquires: Vec<u8> = locks.iter().flat_map(acquire).collect();
            let asked = now();
            self.step(&acquires, locks.len())?;
            let from = now();
            self.step(&releases, locks.len())?;
            let done = now();
            lines.extend((0..locks.len()).map(|number| format!("{number} {asked} {from} {from} {done} {token}")));
        }
        Ok(lines)
    }

    fn step(&mut self, bytes: &[u8], count: usize) -> Outcome<()> {
        for link in &mut self.links {
            link.write(bytes)?;
        }
        let mut replies = vec![0; count * YES.len()];
        for link in &mut self.links {
            link.read(&mut replies)?;
            if replies.chunks(YES.len()).any(|reply| reply != YES) {
                return Err(format!("the floor fell through: {:?}", String::from_utf8_lossy(&replies)).into());
            }
        }
        Ok(())
    }
}
