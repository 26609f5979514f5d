//! Each client as a package: built, and installed where nothing else is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use tempfile::TempDir;

use crate::tools::{Tool, copy, done, root};

fn staged(client: &str) -> TempDir {
    let folder = TempDir::with_prefix("fencepost-client-").expect("a temporary folder");
    copy(&root().join("clients").join(client), &folder.path().join("source"));
    folder
}

/// The one file in a folder that ends so.
fn only(folder: &Path, ending: &str) -> PathBuf {
    let mut files = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    files.find(|file| file.to_string_lossy().ends_with(ending)).expect("a package")
}

/// The Python client from its wheel.
pub(crate) struct Python {
    folder: TempDir,
}

impl Python {
    pub(crate) fn installed() -> &'static Self {
        static INSTALLED: LazyLock<Python> = LazyLock::new(Python::install);
        &INSTALLED
    }

    fn install() -> Self {
        let folder = staged("python");
        let at = |name: &str| folder.path().join(name);
        let python = Tool::Python.path("bin/python");
        let pip = |environment: Option<PathBuf>, words: &[&str]| {
            let mut pip = Command::new(&python);
            pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check"]);
            if let Some(environment) = environment {
                pip.arg("--python").arg(environment);
            }
            pip.args(words);
            pip
        };
        let alone = ["wheel", "--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir"];
        done(pip(None, &alone).arg(at("wheels")).arg(at("source")));
        done(Command::new(&python).args(["-m", "venv", "--without-pip"]).arg(at("venv")));
        let wheel = only(&at("wheels"), ".whl");
        let inside = done(Command::new(&python).args(["-m", "zipfile", "--list"]).arg(&wheel));
        assert!(inside.contains("fencepost/py.typed"), "without it nobody sees the types: {inside}");
        done(pip(Some(at("venv/bin/python")), &["install", "--no-index"]).arg(wheel));
        // The tests see the package that was installed, not the source beside them.
        fs::rename(at("source/src"), at("source/typed")).expect("renamed");
        let settings = fs::read_to_string(at("source/pyproject.toml")).expect("settings");
        let settings = settings.replace("\"src\", \"tests\"", "\"typed\", \"tests\"");
        fs::write(at("source/pyproject.toml"), settings.replace("mypy_path = \"src\"", "mypy_path = \"typed\""))
            .expect("settings");
        Self { folder }
    }

    pub(crate) fn interpreter(&self) -> PathBuf {
        self.folder.path().join("venv/bin/python")
    }

    /// Where its tests are.
    pub(crate) fn source(&self) -> PathBuf {
        self.folder.path().join("source")
    }
}

/// The TypeScript client from its archive.
pub(crate) struct Node {
    folder: TempDir,
}

impl Node {
    pub(crate) fn installed() -> &'static Self {
        static INSTALLED: LazyLock<Node> = LazyLock::new(Node::install);
        &INSTALLED
    }

    fn install() -> Self {
        let folder = staged("typescript");
        let at = |name: &str| folder.path().join(name);
        let modules = Tool::Node.path("node_modules");
        std::os::unix::fs::symlink(&modules, at("source/node_modules")).expect("a link");
        let tsc = modules.join("typescript/bin/tsc");
        let npm = |words: &[&str]| {
            let mut npm = Command::new("npm");
            npm.args(words).args(["--silent", "--offline", "--no-audit", "--no-fund"]);
            npm
        };
        fs::create_dir_all(at("app")).expect("a folder");
        // It builds what it packs: this is a checkout in which nothing was built.
        done(npm(&["pack", "--pack-destination", ".."]).current_dir(at("source")));
        let archive = only(folder.path(), ".tgz");
        let inside = done(Command::new("tar").arg("tzf").arg(&archive));
        for file in ["dist/index.js", "dist/index.d.ts", "dist/node.js", "dist/node.d.ts"] {
            assert!(inside.contains(&format!("package/{file}")), "{file} is not packed: {inside}");
        }
        let tests = ["--project", "tsconfig.test.json"];
        done(Command::new("node").arg(&tsc).args(tests).current_dir(at("source")));
        fs::write(at("app/package.json"), "{ \"type\": \"module\", \"private\": true }").expect("a file");
        done(npm(&["install"]).arg(archive).current_dir(at("app")));
        Self { folder }
    }

    /// A program that has installed it.
    pub(crate) fn app(&self) -> PathBuf {
        self.folder.path().join("app")
    }

    /// Its tests, compiled.
    pub(crate) fn tests(&self) -> PathBuf {
        self.folder.path().join("source/build/test")
    }
}
