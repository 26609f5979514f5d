//! The Debian package, installed into a root of its own, and what its users get.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::{PROGRAM, Place};

fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap_or_else(|error| {
        panic!("{command:?}: {error}; `cargo xtask setup` installs what is missing");
    });
    assert!(status.success(), "{command:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8_lossy(&stdout).into_owned()
}

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// `dpkg` with packages of its own.
fn dpkg(root: &Path) -> Command {
    let mut command = Command::new("dpkg");
    command.arg(format!("--root={}", root.display())).args(["--force-not-root", "--force-depends"]);
    command.arg(format!("--log={}", root.join("dpkg.log").display()));
    command
}

#[test]
fn the_package_installs_with_manual_completions_and_unit() {
    let place = Place::new();
    let out = place.path("out");
    let built = run(Command::new(top().join("packaging/deb/build")).arg(PROGRAM).arg(&out).env("COMPRESSION", "none"));
    let root = place.path("root");
    for folder in ["info", "updates", "triggers"] {
        fs::create_dir_all(root.join("var/lib/dpkg").join(folder)).expect("our own folder");
    }
    for file in ["status", "available"] {
        fs::write(root.join("var/lib/dpkg").join(file), "").expect("our own file");
    }
    run(dpkg(&root).args(["--install", built.trim()]));
    let at = |path: &str| root.join(path);

    let version = run(Command::new(at("usr/bin/fencepost")).arg("--version"));
    assert!(version.contains("commit: ") && version.contains("stores: sqlite, redis"), "{version}");
    let page = run(Command::new("man").arg("fencepost-run").env("MANPATH", at("usr/share/man")).env("MANPAGER", "cat"));
    assert!(page.contains("FENCEPOST_TOKEN"), "{page}");

    let bash = at("usr/share/bash-completion/completions/fencepost");
    let script = format!(
        "source {}; COMP_WORDS=(fencepost do); COMP_CWORD=1; _fencepost fencepost do fencepost; echo ${{COMPREPLY[*]}}",
        bash.display()
    );
    assert_eq!(run(Command::new("bash").args(["--norc", "-c", &script])).trim(), "doctor");
    let fish = at("usr/share/fish/vendor_completions.d/fencepost.fish");
    let script = format!("source {}; complete -C 'fencepost docto'", fish.display());
    let offered = run(Command::new("fish").args(["--no-config", "-c", &script]).env("HOME", place.dir()));
    assert!(offered.starts_with("doctor"), "{offered}");
    let zsh = at("usr/share/zsh/vendor-completions");
    let script = format!(
        "fpath=({} $fpath); autoload -U compinit; compinit -u -d {}; print -r -- $_comps[fencepost]",
        zsh.display(),
        place.path("zcompdump").display()
    );
    assert_eq!(run(Command::new("zsh").args(["-f", "-c", &script])).trim(), "_fencepost");
    run(Command::new("zsh").args(["-f", "-n"]).arg(zsh.join("_fencepost")));

    let unit = fs::read_to_string(at("usr/lib/systemd/system/fencepost.service")).expect("the unit");
    place.write(
        "fencepost.service",
        &unit.replace("/usr/bin/fencepost", &at("usr/bin/fencepost").display().to_string()),
    );
    run(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(place.path("fencepost.service")));
    // What it comes configured with is read, and says nothing yet.
    let config = at("etc/fencepost/fencepost.toml");
    let shown = place.program(PROGRAM).arguments(["config", "--config"]).arguments([&config]).end().with_code(0);
    assert!(shown.stdout.contains("sqlite:"), "{}", shown.stdout);

    // What its owner wrote into the configuration stays until it is purged.
    fs::write(&config, "store = \"redis://a.example\"\n").expect("our own file");
    run(dpkg(&root).args(["--remove", "fencepost"]));
    assert!(config.exists() && !at("usr/bin/fencepost").exists());
    run(dpkg(&root).args(["--purge", "fencepost"]));
    assert!(!config.exists());
}

#[test]
fn a_package_of_nothing_is_refused() {
    let done = Command::new(top().join("packaging/deb/build")).output().expect("it starts");
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("BINARY OUT_DIR"));
}
