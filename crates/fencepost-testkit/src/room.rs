//! A network of our own, in namespaces: servers in a room, each client behind a cable of its own, and packets that are
//! dropped by nftables.
//!
//! The room is a process with namespaces of its own for the network and for processes. When it ends, however it ends, the
//! kernel takes away all that was in it: nothing can be left behind.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use nix::unistd::Uid;

use crate::net::Cut;
use crate::process::Other;
use crate::server::find;

/// Where the servers are, as seen from every client.
pub const SERVERS: &str = "10.77.0.1";

/// Starts a program in a room, or in a network without any cable.
fn apart(options: &[&str]) -> Command {
    let mut command = Command::new(find("unshare", "util-linux"));
    command.args(["--net"]).args(options);
    if !Uid::effective().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command
}

const IN_A_ROOM: [&str; 4] = ["--pid", "--fork", "--kill-child", "--mount-proc"];

/// Whether this machine lets us make rooms; `Err` says why not. The programs for it have to be there.
///
/// # Panics
/// If a program is missing.
pub fn allowed() -> Result<(), String> {
    static ALLOWED: OnceLock<Result<(), String>> = OnceLock::new();
    let attempt = || {
        let (ip, nft) = (find("ip", "iproute2"), find("nft", "nftables"));
        let script = format!(
            "{0} link set lo up && {0} link add fp0 type veth peer name fp1 && {1} add table inet cuts && unshare --net true",
            ip.display(),
            nft.display()
        );
        let tried = apart(&IN_A_ROOM).args(["sh", "-e", "-c", &script]).stdin(Stdio::null()).output();
        let output = tried.map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        if output.status.success() { Ok(()) } else { Err(said) }
    };
    ALLOWED.get_or_init(attempt).clone()
}

/// This program again, in a role and in a new room.
///
/// # Panics
/// If it cannot be run.
pub fn enter(role: &str, place: &str) -> Other {
    let mut command = apart(&IN_A_ROOM);
    command.arg(std::env::current_exe().expect("this program"));
    Other::start_by(command, role, place)
}

/// The room, seen from inside.
#[derive(Debug)]
pub struct Room {
    ip: PathBuf,
    nft: PathBuf,
    /// Client, server's port, what is dropped.
    cuts: Vec<(usize, u16, Cut)>,
}

impl Room {
    /// Furnishes the room that this process is in.
    ///
    /// # Panics
    /// If this process is in no room.
    pub fn furnish() -> Self {
        let room = Self { ip: find("ip", "iproute2"), nft: find("nft", "nftables"), cuts: Vec::new() };
        assert_eq!(std::process::id(), 1, "BUG: this process is not in a room");
        room.ip("link set lo up");
        room.ip(&format!("address add {SERVERS}/32 dev lo"));
        room
    }

    /// Starts a client that has no network yet; it should [hear](crate::process::hear) a word before it wants one.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn client(&self, number: usize, role: &str, place: &str) -> Other {
        let mut command = Command::new(find("unshare", "util-linux"));
        command.arg("--net").arg(std::env::current_exe().expect("this program"));
        let mut client = Other::start_by(command, role, place);
        // By now it is what it is started as, in its own network.
        client.says("here");
        let id = client.id();
        self.ip(&format!("link add fp{number} type veth peer name eth0 netns {id}"));
        self.ip(&format!("address add 10.77.{}.1/24 dev fp{number}", number + 1));
        self.ip(&format!("link set fp{number} up"));
        for words in [
            format!("address add 10.77.{}.2/24 dev eth0", number + 1),
            "link set eth0 up".to_owned(),
            format!("route add default via 10.77.{}.1", number + 1),
        ] {
            let mut command = Command::new(find("nsenter", "util-linux"));
            command.args(["--net", "--target", &id.to_string()]).arg(&self.ip);
            run(command.args(words.split(' ')));
        }
        client
    }

    /// From now on these packets between a client and the server at this port are dropped.
    ///
    /// # Panics
    /// If the system refuses.
    pub fn cut(&mut self, client: usize, port: u16, cut: Cut) {
        self.cuts.push((client, port, cut));
        self.apply();
    }

    /// Lets everything pass.
    ///
    /// # Panics
    /// If the system refuses.
    pub fn heal(&mut self) {
        self.cuts.clear();
        self.apply();
    }

    /// All rules at once: there is no moment with some of them.
    fn apply(&self) {
        let (mut requests, mut replies) = (String::new(), String::new());
        for (client, port, cut) in &self.cuts {
            if *cut != Cut::Replies {
                requests += &format!("iifname fp{client} tcp dport {port} drop\n");
            }
            if *cut != Cut::Requests {
                replies += &format!("oifname fp{client} tcp sport {port} drop\n");
            }
        }
        let rules = format!(
            "table inet cuts {{}}\ndelete table inet cuts\ntable inet cuts {{\n\
             chain requests {{ type filter hook input priority 0;\n{requests}}}\n\
             chain replies {{ type filter hook output priority 0;\n{replies}}}\n}}\n"
        );
        let mut nft = Command::new(&self.nft);
        let mut child = nft.args(["-f", "-"]).stdin(Stdio::piped()).spawn().expect("nft starts");
        child.stdin.take().expect("piped").write_all(rules.as_bytes()).expect("read");
        assert!(child.wait().expect("ends").success(), "nft refuses:\n{rules}");
    }

    fn ip(&self, words: &str) {
        run(Command::new(&self.ip).args(words.split(' ')));
    }
}

fn run(command: &mut Command) {
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
