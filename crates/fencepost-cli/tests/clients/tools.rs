//! The programs that `cargo xtask setup` installs, and how to run one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::certificates::Authority;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_fencepost");

/// Who the services of these tests are.
static AUTHORITY: LazyLock<Authority> =
    LazyLock::new(|| Authority::new().for_server("localhost").for_client_called("client.test"));

#[derive(Clone, Copy)]
pub(crate) enum Tool {
    Python,
    Node,
}

impl Tool {
    /// A file of what was installed for it.
    pub(crate) fn path(self, file: &str) -> PathBuf {
        let folder = match self {
            Self::Python => "sdk-python",
            Self::Node => "sdk-node",
        };
        let path = root().join("target/setup").join(folder).join(file);
        assert!(path.exists(), "{} is missing: run `cargo xtask setup`", path.display());
        path
    }

    /// The same, stopped if it does not end.
    pub(crate) fn bounded(self, program: impl AsRef<Path>) -> Command {
        let mut command = self.program("timeout");
        command.args(["--kill-after=5", "240"]).arg(program.as_ref());
        command
    }

    /// A program that finds the service, and its certificates.
    pub(crate) fn program(self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("FENCEPOST_") {
                command.env_remove(name);
            }
        }
        command.env("FENCEPOST_PROGRAM", PROGRAM).env("FENCEPOST_TEST_TLS", AUTHORITY.folder());
        command
    }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the root of the repository")
}

/// Runs it to its good end.
#[track_caller]
pub(crate) fn done(command: &mut Command) -> String {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().unwrap_or_else(|error| panic!("{program}: {error}: run `cargo xtask setup`"));
    let (said, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program}: {}\n{said}\n{told}", output.status);
    said.into_owned()
}

/// Copies a folder, without what was built in it.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = entry.file_name();
        let built = ["node_modules", "dist", "build", "__pycache__", ".mypy_cache"];
        if built.iter().any(|built| name == *built) || name.to_string_lossy().ends_with(".egg-info") {
            continue;
        }
        let (from, to) = (entry.path(), to.join(&name));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).expect("a file");
        }
    }
}
