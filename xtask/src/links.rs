//! Links of Markdown pages: to files and folders of this repository, to headings, and to tests by their names.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Looks at pages, and remembers the headings of those that are linked to.
#[derive(Default)]
pub(crate) struct Links {
    headings: BTreeMap<PathBuf, Vec<String>>,
}

impl Links {
    /// What is wrong with the links of a page, one sentence each.
    pub(crate) fn findings(&mut self, page: &Path, text: &str) -> Vec<String> {
        let prose = prose(text);
        let links = links(&prose);
        links.into_iter().filter_map(|(words, target)| self.finding(page, text, &words, &target)).collect()
    }

    fn finding(&mut self, page: &Path, text: &str, words: &str, target: &str) -> Option<String> {
        // Pages that are also documentation of a crate name its items so.
        if target.contains("://") || target.contains("::") || target.starts_with("mailto:") {
            return None;
        }
        let (path, heading) = target.split_once('#').unwrap_or((target, ""));
        let to = if path.is_empty() { page.to_owned() } else { page.parent()?.join(path) };
        if !to.exists() {
            return Some(format!("the link to {target} leads nowhere"));
        }
        if !heading.is_empty() {
            let slugs = self.headings.entry(to.clone()).or_insert_with(|| {
                if path.is_empty() { slugs(text) } else { slugs(&fs::read_to_string(&to).unwrap_or_default()) }
            });
            if !slugs.iter().any(|slug| slug == heading) {
                return Some(format!("the link to {target} leads to no heading"));
            }
        }
        let name = words.strip_prefix('`').and_then(|words| words.strip_suffix('`'))?;
        let is_name = name.contains('_') && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if is_name && path.ends_with(".rs") {
            let source = fs::read_to_string(&to).unwrap_or_default();
            if ![format!("fn {name}("), format!("fn {name}<")].iter().any(|start| source.contains(start)) {
                return Some(format!("there is no {name} in {path}"));
            }
        }
        None
    }
}

/// The page without its blocks of code: nothing is a link or a heading there.
pub(crate) fn prose(text: &str) -> String {
    let mut fence: Option<&str> = None;
    let mut kept = String::new();
    for line in text.lines() {
        let start = line.trim_start();
        let ticks = &start[..start.len() - start.trim_start_matches('`').len()];
        match fence {
            Some(opened) if start.trim_end() == opened => fence = None,
            Some(_) => {}
            None if ticks.len() >= 3 => fence = Some(ticks),
            None => {
                kept.push_str(line);
                kept.push('\n');
            }
        }
    }
    kept
}

/// Words and target of each link, of a picture too.
fn links(prose: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (at, _) in prose.match_indices("](") {
        let words = prose[..at].rsplit('[').next().unwrap_or_default();
        let target = prose[at + 2..].split([')', ' ', '\n']).next().unwrap_or_default();
        found.push((words.replace('\n', " "), target.to_owned()));
    }
    for line in prose.lines() {
        let named = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
        found.extend(named.map(|(words, target)| (words.to_owned(), target.trim().to_owned())));
    }
    found
}

/// What the headings of a page are called in links, as the common Git hosts make it.
fn slugs(text: &str) -> Vec<String> {
    let (mut slugs, mut seen) = (Vec::new(), BTreeMap::<String, u32>::new());
    for line in prose(text).lines() {
        let heading = line.trim_start_matches('#');
        let level = line.len() - heading.len();
        if level == 0 || level > 6 || !heading.starts_with(' ') {
            continue;
        }
        let slug = slug(heading.trim());
        let before = seen.entry(slug.clone()).or_insert(0);
        slugs.push(if *before == 0 { slug } else { format!("{slug}-{before}") });
        *before += 1;
    }
    slugs
}

fn slug(heading: &str) -> String {
    // Of a link, its words are the heading.
    let mut words = String::new();
    let mut rest = heading;
    while let Some((before, after)) = rest.split_once("](") {
        words.push_str(&before.replacen('[', "", 1));
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    words.push_str(rest);
    let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_are_called_as_git_hosts_call_them() {
        let page = "# Why it is safe, and where it is not\n## A lock with `curl`\n```sh\n# no heading\n```\n## The `x` of [y](z.md)\n## Limits\n## Limits\n";
        let expected = ["why-it-is-safe-and-where-it-is-not", "a-lock-with-curl", "the-x-of-y", "limits", "limits-1"];
        assert_eq!(slugs(page), expected);
    }

    #[test]
    fn links_are_found_in_prose_only() {
        let page = "See [a\nb](c.md#d) and ![e](f.svg).\n```text\n[g](h.md)\n```\n[i]: j.md\n";
        let found: Vec<_> =
            links(&prose(page)).into_iter().map(|(words, target)| format!("{words} {target}")).collect();
        assert_eq!(found, ["a b c.md#d", "e f.svg", "i j.md"]);
    }

    #[test]
    fn dead_links_headings_and_names_of_tests_are_findings() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/links.rs");
        let says = |text: &str| Links::default().findings(&here, text);
        assert!(says("[a](links.rs) [b](#c)\n# C\n").is_empty());
        assert_eq!(says("[a](nothing.rs)"), ["the link to nothing.rs leads nowhere"]);
        assert_eq!(says("[a](#nothing)"), ["the link to #nothing leads to no heading"]);
        assert!(says("[`links_are_found_in_prose_only`](links.rs)").is_empty());
        assert_eq!(says("[`links_are_lost`](links.rs)"), ["there is no links_are_lost in links.rs"]);
    }
}
