//! Which languages are known, and what reads each of them.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::blocks::{Block, root};

/// Languages that the handbook quotes from other libraries, and that nothing which `cargo xtask setup` installs can read.
const UNREAD: [(&str, &str); 2] = [
    ("go", "a compiler for Go would be installed for a few lines that are not ours"),
    ("java", "ZooKeeper needs a Java runtime, which has no compiler"),
];

/// What is wrong with how a block is labelled.
pub(crate) fn finding(block: &Block) -> Option<String> {
    let words: &[&str] = match block.language.as_str() {
        "sh" => &["script", "not-run"],
        "rust" => &["no_run", "main"],
        "text" => &["output", "screen"],
        "crontab" | "toml" | "json" | "sql" | "python" | "js" | "ts" => &[],
        unread if UNREAD.iter().any(|(language, _)| *language == unread) => &[],
        "" => {
            return Some(format!(
                "{block}: a block without a language; tests/handbook/main.rs has those that are known"
            ));
        }
        other => return Some(format!("{block}: nobody checks blocks of {other:?}; see tests/handbook/main.rs")),
    };
    if block.language == "text" && block.words().is_empty() {
        let cure =
            "`text output` is compared with what the block before it says, `text screen` is a picture in letters";
        return Some(format!("{block}: text is checked by nobody: {cure}"));
    }
    let unknown = block.words().iter().find(|word| !words.contains(&word.as_str()))?;
    Some(format!("{block}: {unknown:?} means nothing behind {:?}; known are {words:?}", block.language))
}

/// Reads a block of data, or of another language, as its own parser does.
pub(crate) fn parse(block: &Block) -> Result<(), String> {
    let text = block.text.as_str();
    match block.language.as_str() {
        "toml" => toml::from_str::<toml::Table>(text).map(drop).map_err(|error| format!("{block}: {error}")),
        "json" => {
            serde_json::from_str::<serde_json::Value>(text).map(drop).map_err(|error| format!("{block}: {error}"))
        }
        "sql" => python(block, "import sqlite3; sqlite3.connect(':memory:').executescript(text)"),
        "python" => python(
            block,
            "import ast; compile(text, 'block', 'exec', flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)",
        ),
        "js" | "ts" => script(block),
        _ => Ok(()),
    }
}

fn python(block: &Block, program: &str) -> Result<(), String> {
    let program = format!("import sys; text = sys.stdin.read(); {program}");
    reads(block, Command::new("python3").args(["-c", &program]))
}

/// The compiler of TypeScript reads both; it says what is no sentence of the language, and nothing of types.
fn script(block: &Block) -> Result<(), String> {
    let compiler = root().join("target/setup/sdk-node/node_modules/typescript");
    let compiler = compiler.exists().then_some(compiler).ok_or("TypeScript is missing: run `cargo xtask setup`")?;
    reads(block, Command::new("node").args(["-e", READ_SCRIPT]).arg(compiler))
}

const READ_SCRIPT: &str = "
const ts = require(process.argv[1]);
const text = require('fs').readFileSync(0, 'utf8');
const options = { target: ts.ScriptTarget.ESNext, module: ts.ModuleKind.ESNext };
const { diagnostics } = ts.transpileModule(text, { reportDiagnostics: true, compilerOptions: options });
for (const each of diagnostics) console.error(ts.flattenDiagnosticMessageText(each.messageText, ' '));
process.exit(diagnostics.length ? 1 : 0);
";

fn reads(block: &Block, command: &mut Command) -> Result<(), String> {
    let program = PathBuf::from(command.get_program());
    let told = |error: std::io::Error| format!("{block}: {}: {error}: run `cargo xtask setup`", program.display());
    let command = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut reader = command.spawn().map_err(told)?;
    reader.stdin.take().expect("piped").write_all(block.text.as_bytes()).map_err(told)?;
    let output = reader.wait_with_output().map_err(told)?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{block}: {said}")) }
}
