//! Values as SQL text. Each is made of digits alone, decimal or hexadecimal, so no value can end its literal.
//!
//! Text, because only so several statements go in one packet: a step is two round trips instead of six.

/// Bytes.
pub(crate) fn bytes(value: impl AsRef<[u8]>) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let value = value.as_ref();
    let mut literal = String::with_capacity(value.len() * 2 + 3);
    literal.push_str("X'");
    for byte in value {
        literal.push(char::from(DIGITS[usize::from(byte >> 4)]));
        literal.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    literal.push('\'');
    literal
}

/// Text in UTF-8.
pub(crate) fn text(value: &str) -> String {
    format!("_utf8mb4 {}", bytes(value))
}

/// Text that may be missing.
pub(crate) fn maybe(value: Option<&str>) -> String {
    value.map_or_else(|| "NULL".to_owned(), text)
}

/// A list for `IN`, which must not be empty.
pub(crate) fn list<'a>(values: impl IntoIterator<Item = &'a str>) -> String {
    let all: Vec<String> = values.into_iter().map(text).collect();
    if all.is_empty() { "NULL".to_owned() } else { all.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_leaves_its_literal() {
        for hostile in ["'", "\\", "'; DROP TABLE x; --", "\u{1f525}", "%", "/*", "`"] {
            let literal = text(hostile);
            let digits = literal.strip_prefix("_utf8mb4 X'").and_then(|rest| rest.strip_suffix('\''));
            assert!(digits.expect("a literal").bytes().all(|byte| byte.is_ascii_hexdigit()), "{literal}");
        }
        assert_eq!((bytes(""), text("é"), maybe(None)), ("X''".into(), "_utf8mb4 X'c3a9'".into(), "NULL".into()));
        assert_eq!(list([]), "NULL");
    }
}
