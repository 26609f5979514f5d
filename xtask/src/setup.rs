//! What the tests need and Cargo does not bring: Debian packages for the system, the rest in `target/setup`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{clients, servers, shell};

/// What must be there, how to tell, and the Debian package that has it.
const NEEDS: [(Sign, &str); 21] = [
    (Sign::Program("redis-server"), "redis-server"),
    (Sign::Folder("/usr/lib/postgresql"), "postgresql"),
    (Sign::Program("mariadbd"), "mariadb-server"),
    (Sign::Program("pgbouncer"), "pgbouncer"),
    // Networks that are cut, and libraries that are preloaded.
    (Sign::Program("ip"), "iproute2"),
    (Sign::Program("systemd-analyze"), "systemd"),
    (Sign::Program("nft"), "nftables"),
    (Sign::Program("cc"), "gcc"),
    (Sign::Folder("/usr/include/linux"), "libc6-dev"),
    (Sign::Program("etcd"), "etcd-server"),
    (Sign::Program("etcdctl"), "etcd-client"),
    (Sign::Program("java"), "default-jre-headless"),
    (Sign::Folder("/usr/share/zookeeper"), "zookeeper"),
    (Sign::Program("node"), "nodejs"),
    (Sign::Program("npm"), "npm"),
    (Sign::PythonModule("ensurepip"), "python3-venv"),
    // What a package is looked at with, once it is installed.
    (Sign::Program("man"), "man-db"),
    (Sign::Program("zsh"), "zsh"),
    (Sign::Program("fish"), "fish"),
    // The dashboard is tested in it.
    (Sign::Program("chromium"), "chromium"),
    // And `top` in a terminal.
    (Sign::Program("tmux"), "tmux"),
];

enum Sign {
    Program(&'static str),
    /// Where Debian keeps programs that are not on the `PATH`.
    Folder(&'static str),
    PythonModule(&'static str),
}

impl Sign {
    fn is_seen(&self) -> bool {
        match self {
            Self::Program(program) => is_installed(program),
            Self::Folder(folder) => Path::new(folder).is_dir(),
            Self::PythonModule(module) => {
                let mut python = shell::command("python3", &["-c", &format!("import {module}")]);
                python.output().is_ok_and(|output| output.status.success())
            }
        }
    }
}

/// Installs what is missing.
pub(crate) fn install() -> Result<(), String> {
    let missing: Vec<&str> = NEEDS.iter().filter(|(sign, _)| !sign.is_seen()).map(|(_, package)| *package).collect();
    if !missing.is_empty() {
        // Debian starts a server that it installs; the tests start their own, on free ports.
        apt(&["update", "-qq"])?;
        apt(&[&["install", "-y", "-qq", "--no-install-recommends"], &missing[..]].concat())?;
    }
    clients::install()?;
    servers::install()
}

/// Where things go that the system must not see.
pub(crate) fn folder(name: &str) -> PathBuf {
    shell::root().join("target/setup").join(name)
}

/// Makes a folder anew, unless it was made by this very recipe before.
pub(crate) fn once(folder: &Path, recipe: &str, make: impl FnOnce(&Path) -> Result<(), String>) -> Result<(), String> {
    let stamp = folder.join("made-by");
    if fs::read_to_string(&stamp).is_ok_and(|last| last == recipe) {
        return Ok(());
    }
    let _ = fs::remove_dir_all(folder);
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(told)?;
    make(folder)?;
    fs::write(&stamp, recipe).map_err(told)
}

/// Reads a file of this repository.
pub(crate) fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(shell::root().join(path)).map_err(|error| format!("{path}: {error}"))
}

fn apt(arguments: &[&str]) -> Result<(), String> {
    let mut command = match rooted() {
        true => shell::command("apt-get", arguments),
        false => shell::command("sudo", &[&["apt-get"], arguments].concat()),
    };
    shell::run(command.env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1"))
}

fn rooted() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    places.map(|place| place.join(program)).any(|place| place.is_file())
}
