//! The script that people try first, on ports that are free here.

use std::fs::{self, Permissions};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use fencepost_testkit::ports::free_port;
use fencepost_testkit::server::find;

use nix::sys::signal::Signal;

use crate::support::{Invocation, PROGRAM, Place};

/// The script, with its servers at these ports and its folder in `tmp`.
fn quickstart(place: &Place, ports: &[u16]) -> Invocation {
    find("redis-server", "redis-server");
    find("initdb", "postgresql");
    fs::create_dir(place.path("tmp")).expect("our own folder");
    // PostgreSQL does not want to be root, and has to get there.
    for folder in [place.dir(), &place.path("tmp")] {
        fs::set_permissions(folder, Permissions::from_mode(0o755)).expect("our own folder");
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/quickstart.sh");
    let redis: Vec<String> = ports[1..].iter().map(u16::to_string).collect();
    place
        .program(script.to_str().expect("UTF-8"))
        .set("FENCEPOST", PROGRAM)
        .set("TMPDIR", &place.path("tmp").display().to_string())
        .set("REDIS_PORTS", &redis.join(" "))
        .set("POSTGRES_PORT", &ports[0].to_string())
}

fn ports() -> Vec<u16> {
    (0..6).map(|_| free_port()).collect()
}

#[track_caller]
fn is_gone(place: &Place, ports: &[u16]) {
    for port in ports {
        assert!(TcpStream::connect(("127.0.0.1", *port)).is_err(), "a server is left at {port}");
    }
    let left: Vec<_> = fs::read_dir(place.path("tmp")).expect("our own folder").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn the_quickstart_leaves_nothing_behind_when_it_is_ended() {
    for (signal, code) in [(Signal::SIGHUP, 129), (Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let (place, ports) = (Place::new(), ports());
        let mut running = quickstart(&place, &ports).start();
        while !running.line().starts_with("== is it a good place") {}
        assert!(ports[1..].iter().all(|port| TcpStream::connect(("127.0.0.1", *port)).is_ok()), "they are up");
        running.signal(signal);
        running.end().with_code(code);
        is_gone(&place, &ports);
    }
}

#[test]
fn the_quickstart_comes_to_its_end() {
    let (place, ports) = (Place::new(), ports());
    let done = quickstart(&place, &ports).end().with_code(0);
    is_gone(&place, &ports);
    for words in ["0 errors", "balance 112: right"] {
        assert!(done.stdout.contains(words), "{words} is missing:\n{}\n{}", done.stdout, done.stderr);
    }
}
