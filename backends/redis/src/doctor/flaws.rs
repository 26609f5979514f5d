//! Versions of servers in which somebody who may log in can do more than they may.

/// What is known of a version.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Flaws {
    /// Nothing bad.
    None,
    /// What is wrong with it, and where that is mended.
    Some(Vec<String>),
    /// Its line is not in the list.
    Unknown,
}

struct Flaw {
    names: &'static str,
    what: &'static str,
    /// Kind of server, its line, and the first version of that line without it; `None`: no version of the line is.
    mended: &'static [(&'static str, (u64, u64), Option<u64>)],
}

const FLAWS: [Flaw; 3] = [
    Flaw {
        names: "CVE-2024-46981",
        what: "a script may take over the server",
        mended: &[("Redis", (6, 2), Some(17)), ("Redis", (7, 2), Some(7)), ("Redis", (7, 4), Some(2))],
    },
    Flaw {
        names: "CVE-2025-49844, CVE-2025-46817, CVE-2025-46818",
        what: "a script may take over the server",
        mended: &[
            ("Redis", (6, 2), Some(20)),
            ("Redis", (7, 2), Some(11)),
            ("Redis", (7, 4), Some(6)),
            ("Redis", (8, 0), Some(4)),
            ("Redis", (8, 2), Some(2)),
            ("Valkey", (7, 2), Some(11)),
            ("Valkey", (8, 0), Some(6)),
            ("Valkey", (8, 1), Some(4)),
        ],
    },
    Flaw {
        names: "CVE-2026-23479",
        what: "a client that blocks may take over the server",
        mended: &[
            ("Redis", (6, 2), Some(22)),
            ("Redis", (7, 2), Some(14)),
            ("Redis", (7, 4), Some(9)),
            ("Redis", (8, 0), None),
            ("Redis", (8, 2), Some(6)),
            ("Redis", (8, 4), Some(3)),
            ("Redis", (8, 6), Some(3)),
            ("Valkey", (9, 0), Some(4)),
        ],
    },
];

/// What is known of a version.
pub(super) fn known(kind: &str, version: &str) -> Flaws {
    let mut numbers = version.split('.').map(|part| part.parse::<u64>().ok());
    let (Some(Some(major)), Some(Some(minor)), Some(Some(patch))) = (numbers.next(), numbers.next(), numbers.next())
    else {
        return Flaws::Unknown;
    };
    let line = (major, minor);
    let lines = || FLAWS.iter().flat_map(|flaw| flaw.mended).filter(|(of, _, _)| *of == kind).map(|(_, line, _)| *line);
    if !lines().any(|known| known == line) {
        return if lines().max().is_some_and(|newest| line > newest) { Flaws::None } else { Flaws::Unknown };
    }
    let has = |flaw: &Flaw| {
        let (_, _, first) = flaw.mended.iter().find(|(of, known, _)| *of == kind && *known == line)?;
        let cure = match first {
            Some(first) if patch >= *first => return None,
            Some(first) => format!("{major}.{minor}.{first} fixes it"),
            None => format!("no {major}.{minor} fixes it"),
        };
        Some(format!("{} ({}); {cure}", flaw.what, flaw.names))
    };
    let flaws: Vec<String> = FLAWS.iter().filter_map(has).collect();
    if flaws.is_empty() { Flaws::None } else { Flaws::Some(flaws) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_within_their_line() {
        let flaws = |kind, version| match known(kind, version) {
            Flaws::Some(flaws) => flaws.len(),
            Flaws::None => 0,
            Flaws::Unknown => 99,
        };
        assert_eq!(flaws("Redis", "7.2.6"), 3);
        assert_eq!(flaws("Redis", "7.2.10"), 2);
        assert_eq!(flaws("Redis", "7.2.11"), 1);
        assert_eq!(flaws("Redis", "7.2.14"), 0);
        assert_eq!(flaws("Redis", "7.0.15"), 99);
        assert_eq!(flaws("Redis", "8.0.9"), 1);
        assert_eq!(flaws("Redis", "8.8.0"), 0);
        assert_eq!(flaws("Valkey", "8.1.1"), 1);
        assert_eq!(flaws("Valkey", "9.0.3"), 1);
        assert_eq!(flaws("Valkey", "9.1.2"), 0);
        assert_eq!(flaws("Redis", ""), 99);
    }

    #[test]
    fn each_flaw_is_told_with_its_cure() {
        let Flaws::Some(flaws) = known("Redis", "8.0.3") else { panic!("it has some") };
        assert!(flaws[0].contains("CVE-2025-49844") && flaws[0].ends_with("8.0.4 fixes it"), "{flaws:?}");
        assert!(flaws[1].contains("CVE-2026-23479") && flaws[1].ends_with("no 8.0 fixes it"), "{flaws:?}");
    }
}
