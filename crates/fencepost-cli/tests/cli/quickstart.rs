//! The script that people try first, on ports that are free here.

use std::path::Path;

use fencepost_testkit::ports::free_port;
use fencepost_testkit::server::find;

use crate::support::{PROGRAM, Place};

#[test]
fn the_quickstart_comes_to_its_end() {
    find("redis-server", "redis-server");
    find("initdb", "postgresql");
    let place = Place::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/quickstart.sh");
    let ports: Vec<String> = (0..5).map(|_| free_port().to_string()).collect();
    let done = place
        .program(script.to_str().expect("UTF-8"))
        .set("FENCEPOST", PROGRAM)
        .set("REDIS_PORTS", &ports.join(" "))
        .set("POSTGRES_PORT", &free_port().to_string())
        .end()
        .with_code(0);
    for words in ["0 errors", "balance 112: right"] {
        assert!(done.stdout.contains(words), "{words} is missing:\n{}\n{}", done.stdout, done.stderr);
    }
}
