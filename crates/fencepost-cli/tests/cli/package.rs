//! The Debian package, installed into a root of its own, and what its users get.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::{PROGRAM, Place};
use crate::tmux::Terminal;

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

/// Whether systemd takes a unit; else what it says. Without the flag it says so and takes it all the same.
pub(crate) fn is_taken(place: &Place, unit: &str) -> Result<(), String> {
    place.write("fencepost.service", unit);
    let mut command = Command::new("systemd-analyze");
    command.args(["verify", "--man=no", "--recursive-errors=no"]).arg(place.path("fencepost.service"));
    let done = command.output().expect("systemd-analyze is missing: run `cargo xtask setup`");
    if done.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&done.stderr).into_owned()) }
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

    let terminal = Terminal::open(&place, (100, 20), &[]);
    let bin = at("usr/bin");
    terminal.line(&format!("PATH={}:$PATH PS1='%% ' zsh -f", bin.display()));
    terminal.line(&format!("fpath=({} $fpath); autoload -U compinit; compinit -u -D; echo re''ady", zsh.display()));
    terminal.until("ready");
    terminal.write("fencepost docto");
    terminal.press(&["Tab"]);
    terminal.until("% fencepost doctor");

    let unit = fs::read_to_string(at("usr/lib/systemd/system/fencepost.service")).expect("the unit");
    let unit = unit.replace("/usr/bin/fencepost", &at("usr/bin/fencepost").display().to_string());
    assert_eq!(is_taken(&place, &unit), Ok(()));
    // Whoever lets it write an audit log has it rotated.
    assert!(at("etc/logrotate.d/fencepost").exists());
    let kept = run(Command::new("dpkg-deb").args(["--info", built.trim(), "conffiles"]));
    assert_eq!(kept, "/etc/fencepost/fencepost.toml\n/etc/logrotate.d/fencepost\n");

    // It wants the C library that it was linked with, so it is not installed where it would not start.
    let depends = run(Command::new("dpkg-deb").args(["--field", built.trim(), "Depends"]));
    let wanted = depends.trim().strip_prefix("libc6 (>= ").and_then(|rest| rest.split_once(')')).expect("a version").0;
    let symbols = run(Command::new("objdump").arg("-T").arg(at("usr/bin/fencepost")));
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| rest.split(')').next());
    for version in versions {
        run(Command::new("dpkg").args(["--compare-versions", wanted, "ge", version.trim()]));
    }
    assert!(symbols.contains(&format!("GLIBC_{wanted}")), "{wanted}");
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
fn an_image_is_built_of_the_sources_alone() {
    let ignored = fs::read_to_string(top().join(".dockerignore")).expect("it is there");
    let ignored: Vec<&str> = ignored.lines().collect();
    for built in fs::read_to_string(top().join(".gitignore")).expect("it is there").lines() {
        assert!(ignored.contains(&format!("**/{}", built.trim_end_matches('/')).as_str()), "{built}");
    }
    // Which the version tells the commit by.
    assert!(!ignored.iter().any(|line| line.contains(".git")));
    let file = include_str!("../../../../packaging/container/Containerfile");
    assert!(file.contains("COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/"), "{file}");
}

#[test]
fn a_package_of_nothing_is_refused() {
    let done = Command::new(top().join("packaging/deb/build")).output().expect("it starts");
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("BINARY OUT_DIR"));
}
