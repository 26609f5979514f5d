//! The command line as one page of Markdown: `docs/cli.md`.

use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command};

use crate::exit_code::TABLE;

const HEAD: &str = "\
# The command `fencepost`: every command, flag and exit code

For anyone who writes a script or a crontab and needs an exact flag. `fencepost COMMAND --help` and the [man pages](man) say the
same; `cargo xtask generate` makes all of them from one source. [Start](start.md) shows the common commands at work.

```sh
fencepost --store sqlite:locks.db run --wait 30s nightly -- echo \"under the lock\"
```

```text output
under the lock
```
";

/// The whole page.
pub(crate) fn page(mut grammar: Command) -> String {
    grammar.build();
    let mut page = format!("{HEAD}\n");
    let verbs = || grammar.get_subcommands().filter(|verb| is_shown(verb));
    let _ = writeln!(page, "| command | what it does |\n|---|---|");
    for verb in verbs() {
        let name = format!("fencepost {}", verb.get_name());
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(page, "| [`{name}`](#{}) | {} |", name.replace(' ', "-"), plain(&about));
    }
    let _ = writeln!(page, "\n## Options of every command");
    options(&mut page, grammar.get_arguments());
    let after = grammar.get_after_help().map(ToString::to_string).unwrap_or_default();
    notes(&mut page, &after);
    let _ = writeln!(page, "\n## Exit codes");
    notes(&mut page, TABLE.split_once('\n').map_or("", |(_, rows)| rows));
    for verb in verbs() {
        self::verb(&mut page, verb);
        for inner in verb.get_subcommands().filter(|verb| is_shown(verb)) {
            self::verb(&mut page, inner);
        }
    }
    page
}

fn is_shown(verb: &Command) -> bool {
    !verb.is_hide_set() && verb.get_name() != "help"
}

fn verb(page: &mut String, verb: &Command) {
    let name = verb.get_bin_name().unwrap_or_else(|| verb.get_name());
    let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
    let end = if about.ends_with('?') { "" } else { "." };
    let _ = writeln!(page, "\n## {name}\n\n{}{end}\n", plain(&about));
    let usage = verb.clone().render_usage().to_string();
    for line in usage.trim_start_matches("Usage:").lines().filter(|line| !line.trim().is_empty()) {
        let _ = writeln!(page, "- `{}`", line.trim());
    }
    options(page, verb.get_arguments().filter(|option| !option.is_global_set()));
    let after = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
    notes(page, &after);
}

fn options<'a>(page: &mut String, options: impl Iterator<Item = &'a Arg>) {
    let shown: Vec<&Arg> = options.filter(|option| !option.is_hide_set() && !is_common(option)).collect();
    if shown.is_empty() {
        return;
    }
    let _ = writeln!(page, "\n| | |\n|---|---|");
    for option in shown {
        let _ = writeln!(page, "| {} | {} |", called(option), meant(option));
    }
}

fn is_common(option: &Arg) -> bool {
    matches!(option.get_id().as_str(), "help" | "version")
}

/// `-w`, `--wait D`
fn called(option: &Arg) -> String {
    let value =
        option.get_value_names().map(|names| names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" "));
    let value = value.unwrap_or_default();
    if option.is_positional() {
        return format!("`{value}`");
    }
    let takes = matches!(option.get_action(), ArgAction::Set | ArgAction::Append);
    let value = if takes { format!(" {value}") } else { String::new() };
    let short = option.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
    let long = option.get_long().map(|long| format!("`--{long}{value}`")).unwrap_or_default();
    format!("{short}{long}")
}

/// What it does, its choices and its default.
fn meant(option: &Arg) -> String {
    let mut text = plain(&option.get_help().map(ToString::to_string).unwrap_or_default());
    let is_flag = !matches!(option.get_action(), ArgAction::Set | ArgAction::Append);
    let choices = option.get_possible_values();
    if !is_flag && !choices.is_empty() && !option.is_hide_possible_values_set() {
        let choice = |choice: &clap::builder::PossibleValue| match choice.get_help() {
            Some(help) => format!("`{}`: {}", choice.get_name(), plain(&help.to_string()).trim_end_matches('.')),
            None => format!("`{}`", choice.get_name()),
        };
        let _ = write!(text, ". {}", choices.iter().map(choice).collect::<Vec<_>>().join("; "));
    }
    let defaults = option.get_default_values();
    if !is_flag && !defaults.is_empty() && !option.is_hide_default_value_set() {
        let values: Vec<_> = defaults.iter().map(|value| value.to_string_lossy()).collect();
        let _ = write!(text, " [default: {}]", values.join(" "));
    }
    text
}

/// What stands behind the options: paragraphs, lists of two columns as tables, and lines of a crontab, which are indented by
/// four. The exit codes have a place of their own.
fn notes(page: &mut String, text: &str) {
    let is_table = text.starts_with("  ");
    let text = if is_table { text } else { text.split(TABLE).next().unwrap_or_default() };
    let (mut in_table, mut begins) = (false, true);
    for line in text.trim_end().lines() {
        if let Some(command) = line.strip_prefix("    ").filter(|_| !in_table) {
            let _ = writeln!(page, "\n```crontab\n{command}\n```");
            begins = true;
            continue;
        }
        let row = line.strip_prefix("  ").filter(|row| !row.starts_with(' ')).and_then(columns);
        match row {
            _ if line.is_empty() => (in_table, begins) = (false, true),
            Some((name, what)) => {
                if !in_table {
                    let _ = writeln!(page, "\n| | |\n|---|---|");
                }
                in_table = true;
                let _ = writeln!(page, "| `{name}` | {} |", plain(what.trim()));
            }
            None if in_table && line.starts_with(' ') => {
                // A row that goes on: before its last bar.
                page.truncate(page.trim_end().trim_end_matches(" |").len());
                let _ = writeln!(page, " {} |", plain(line.trim()));
            }
            None => {
                let _ = writeln!(page, "{}{}", if begins || in_table { "\n" } else { "" }, plain(line.trim()));
                (in_table, begins) = (false, false);
            }
        }
    }
}

/// The first column ends at two spaces; a name that fills it, at one.
fn columns(row: &str) -> Option<(&str, &str)> {
    row.split_once("  ").or_else(|| row.split_once(' '))
}

/// Text that Markdown shows as it is; what stands in backticks is code already.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut in_code = false;
    for letter in text.chars() {
        in_code ^= letter == '`';
        match letter {
            '\n' => plain.push(' '),
            '|' => plain.push_str("\\|"),
            '*' | '<' if !in_code => plain.extend(['\\', letter]),
            _ => plain.push(letter),
        }
    }
    plain
}
