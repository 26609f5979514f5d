//! The clients for other languages: typed, packed, installed, and put to the test against this very service.

#![cfg(feature = "serve")]

#[path = "../../../../backends/redis/tests/tls/certificates.rs"]
#[allow(dead_code, reason = "shared with the tests of the back ends, which need more of it")]
mod certificates;
mod mixed;
mod packages;
mod tools;

use std::process::Command;
use std::thread;

use packages::{Node, Python};
use tools::{Tool, done};

/// Runs them side by side: they wait for services and leases, not for a core.
fn all(commands: Vec<Command>) {
    thread::scope(|scope| {
        let running: Vec<_> = commands.into_iter().map(|mut each| scope.spawn(move || done(&mut each))).collect();
        let ended: Vec<_> = running.into_iter().map(thread::ScopedJoinHandle::join).collect();
        assert!(ended.iter().all(Result::is_ok), "see above");
    });
}

/// Parts of the tests of the Python client, run with the package that was built and installed.
fn python(parts: &[&str]) {
    let python = Python::installed();
    let part = |part: &&str| {
        let mut tests = Tool::Python.bounded(python.interpreter());
        tests.args(["-m", "unittest"]).args(part.split(' ')).current_dir(python.source());
        tests
    };
    all(parts.iter().map(part).collect());
}

#[test]
fn python_locks_and_asyncio() {
    python(&["tests.test_locks", "tests.test_async"]);
}

#[test]
fn python_loss() {
    python(&["tests.test_loss.Loss tests.test_loss.Forks", "tests.test_loss.Bodies tests.test_loss.Waiting"]);
}

#[test]
fn python_keys_certificates_and_examples() {
    python(&["tests.test_guarded", "tests.test_readme"]);
}

#[test]
fn python_is_typed() {
    done(Command::new(Tool::Python.path("bin/mypy")).arg("--strict").current_dir(Python::installed().source()));
}

/// Parts of the tests of the TypeScript client, compiled with its strictest settings.
fn node(parts: &[&str]) {
    let node = Node::installed();
    let part = |part: &&str| {
        let mut tests = Tool::Node.bounded("node");
        tests.env("FENCEPOST_TEST_APP", node.app()).env("FENCEPOST_TEST_MODULES", Tool::Node.path("node_modules"));
        tests.args(["--test", "--test-reporter=spec"]).arg(node.tests().join(format!("{part}.test.js")));
        tests
    };
    all(parts.iter().map(part).collect());
}

#[test]
fn node_locks_keys_and_certificates() {
    node(&["locks", "guarded"]);
}

#[test]
fn node_loss_waiting_and_examples() {
    node(&["loss", "waiting", "readme"]);
}
