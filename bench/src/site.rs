//! The folder to measure in, and the facts about the machine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use std::{env, fs};

use tempfile::TempDir;

use crate::Outcome;

/// A folder on the disk of the build, gone at the end.
pub(crate) struct Site {
    folder: TempDir,
    began: Instant,
}

impl Site {
    pub(crate) fn new() -> Outcome<Self> {
        let program = env::current_exe()?;
        let target = program.ancestors().nth(2).ok_or("this program is in no target folder")?;
        let folder = tempfile::Builder::new().prefix("b").rand_bytes(4).tempdir_in(target)?;
        Ok(Self { folder, began: Instant::now() })
    }

    /// A file for locks that is not there yet.
    pub(crate) fn file(&self, name: &str) -> Outcome<String> {
        let file = self.folder.path().join(name).to_str().ok_or("the target folder's path is not UTF-8")?.to_owned();
        // Where the socket's path does not fit, waiters poll, and something else would be measured.
        match file.len() + "-wake/0123456789abcdef".len() {
            length if length < 108 => Ok(file),
            length => Err(format!("the target folder's path is too long for a socket: {length} bytes").into()),
        }
    }

    /// When, where and how: what a reader has to know of the figures.
    pub(crate) fn heading(&self, args: &[String]) -> Outcome<String> {
        let args: String = args.iter().map(|arg| format!(" {arg}")).collect();
        let facts = [
            ("date", said("date", &["-u", "+%F %R UTC"])?),
            ("machine", machine()?),
            ("file system", self.file_system()?),
            ("fencepost", said("git", &["-C", env!("CARGO_MANIFEST_DIR"), "describe", "--always", "--dirty"])?),
            ("versions", versions()?),
            ("load before", load()?),
            (
                "command",
                format!("`cargo run --release --manifest-path bench/Cargo.toml --{args}`").replace(" --`", "`"),
            ),
        ];
        let lines = facts.map(|(name, fact)| format!("- {name}: {fact}\n")).concat();
        Ok(format!("# Measured\n\n{lines}"))
    }

    pub(crate) fn closing(&self) -> Outcome<String> {
        let seconds = self.began.elapsed().as_secs();
        Ok(format!("\nIt took {}:{:02} minutes. Load after: {}.\n", seconds / 60, seconds % 60, load()?))
    }

    /// The type of the innermost mount that the folder is in.
    fn file_system(&self) -> Outcome<String> {
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let mounts = mounts.lines().filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            Some((PathBuf::from(words.next()?), words.next()?.to_owned()))
        });
        let around = mounts.filter(|(point, _)| self.folder.path().starts_with(point));
        let innermost = around.max_by_key(|(point, _)| point.components().count());
        Ok(innermost.map(|(_, kind)| kind).ok_or("the folder is in no mount")?)
    }
}

fn machine() -> Outcome<String> {
    let text = fs::read_to_string("/proc/cpuinfo")?;
    let models = || text.lines().filter_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = models().next().map_or("unknown processor", |(_, model)| model);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    Ok(format!("{} × {model}, Linux {}", models().count().max(1), kernel.trim()))
}

fn versions() -> Outcome<String> {
    let locked = |name: &str| {
        let entry = include_str!("../Cargo.lock")
            .split("[[package]]")
            .find(|entry| entry.lines().any(|line| line == format!("name = \"{name}\"")));
        let version = entry.and_then(|entry| entry.lines().find_map(|line| line.strip_prefix("version = ")));
        format!("{name} {}", version.unwrap_or("unknown").trim_matches('"'))
    };
    let crates = ["rusqlite", "tokio", "rslock", "redis-lock", "distributed-lock-redis"].map(locked).join(", ");
    let redis = said("redis-server", &["--version"]).unwrap_or_default();
    let redis = redis.split(' ').find_map(|word| word.strip_prefix("v=")).unwrap_or("none");
    Ok(format!("{}, SQLite {}, Redis {redis}, {crates}", said("rustc", &["--version"])?, rusqlite::version()))
}

/// The peers of other languages, as their lock files have them.
pub(crate) fn foreign_versions() -> Outcome<String> {
    let packages = include_str!("../peers/package.json").lines().filter_map(|line| line.trim().split_once("\": \""));
    let packages = packages.map(|(name, version)| (name.trim_matches('"'), version.trim_matches([',', '"'])));
    let packages = packages.filter(|(name, _)| name.contains("redis") || name.starts_with("redlock"));
    let packages = packages.map(|(name, version)| format!("{name} {}", version.trim_start_matches("npm:redlock@")));
    let wheels = include_str!("../peers/requirements.txt").lines().map(|line| line.replace("==", " "));
    let languages = [format!("Node {}", said("node", &["--version"])?), said("python3", &["--version"])?];
    Ok(languages.into_iter().chain(packages).chain(wheels).collect::<Vec<_>>().join(", "))
}

/// The load averages over 1, 5 and 15 minutes.
fn load() -> Outcome<String> {
    let text = fs::read_to_string(Path::new("/proc/loadavg"))?;
    Ok(text.split(' ').take(3).collect::<Vec<_>>().join(", "))
}

fn said(program: &str, args: &[&str]) -> Outcome<String> {
    let output = Command::new(program).args(args).output()?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
