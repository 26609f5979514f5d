//! The real servers that tests start, and the Debian packages that have them.

use std::path::PathBuf;

use crate::shell;

/// Program and package.
const SERVERS: [(&str, &str); 1] = [("redis-server", "redis-server")];

/// Installs what is missing.
pub(crate) fn install() -> Result<(), String> {
    let missing: Vec<&str> =
        SERVERS.iter().filter(|(program, _)| !is_installed(program)).map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    // Debian starts a server that it installs; the tests start their own, on free ports.
    apt(&["update", "-qq"])?;
    apt(&[&["install", "-y", "-qq", "--no-install-recommends"], &missing[..]].concat())
}

fn apt(arguments: &[&str]) -> Result<(), String> {
    let mut command = match rooted() {
        true => shell::command("apt-get", arguments),
        false => shell::command("sudo", &[&["apt-get"], arguments].concat()),
    };
    shell::run(command.env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1"))
}

fn rooted() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    places.map(|place| place.join(program)).any(|place| place.is_file())
}
