//! Tasks of this repository: `cargo xtask <task>`.

mod clients;
mod generate;
mod links;
mod programs;
mod prose;
mod prove;
mod servers;
mod setup;
mod shell;
mod tidy;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask test         install what the tests need, then run every check and every test
cargo xtask check        the checks only: formatting, lints, docs, tidy, generated files
cargo xtask generate     write man pages, completions, docs/cli.md and docs/openapi.json anew
cargo xtask prove        search for faults in simulated worlds: --minutes M; or run one again: --seed N
cargo xtask evidence     write docs/evidence.md anew: takes some minutes
cargo xtask deb          build a Debian package into target/deb
cargo xtask tidy         the house rules that no lint knows
cargo xtask setup        install the servers, the other lock libraries and the compilers that the tests start
                         (Debian packages, and the rest into target/setup)";

fn main() -> ExitCode {
    let task = std::env::args().nth(1).unwrap_or_default();
    let done = match task.as_str() {
        "test" => setup::install().and_then(|()| check()).and_then(|()| test()),
        "check" => check(),
        "generate" => generate::write(),
        "prove" => prove::search(std::env::args().skip(2)),
        "evidence" => prove::write_evidence(),
        "deb" => deb(),
        "tidy" => tidy::check(),
        "setup" => setup::install(),
        _ => Err(format!("no such task: {task:?}\n{HELP}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}

fn check() -> Result<(), String> {
    shell::cargo(&["fmt", "--all", "--check"])?;
    shell::cargo(&["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"])?;
    shell::run(
        shell::command("cargo", &["doc", "--workspace", "--no-deps", "--all-features"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    )?;
    tidy::check()?;
    generate::check()?;
    prove::check()
}

fn deb() -> Result<(), String> {
    shell::cargo(&["build", "--release", "--locked", "--package", "fencepost-cli"])?;
    shell::run(&mut shell::command("packaging/deb/build", &["target/release/fencepost", "target/deb"]))
}

fn test() -> Result<(), String> {
    let programs = programs::run(&["--workspace", "--all-features"]);
    let in_docs = shell::cargo(&["test", "--doc", "--workspace", "--all-features", "--no-fail-fast"]);
    programs.and(in_docs)?;
    // The library as a program gets it that switches the default store off.
    shell::cargo(&["check", "--package", "fencepost", "--no-default-features"])
}
