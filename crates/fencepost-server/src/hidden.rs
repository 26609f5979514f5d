//! What a parser says, less what it quotes: that may be a secret in the wrong place.

/// Everything from the first double quote to the last is left out, and the value of an unknown variant.
pub(crate) fn without_quotes(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let text = match (line.split_once('"'), line.rsplit_once('"')) {
        (Some((before, _)), Some((_, after))) => format!("{before}\"(hidden)\"{after}"),
        _ => line.to_owned(),
    };
    match text.split_once("unknown variant `").and_then(|(before, rest)| Some((before, rest.split_once("`, ")?.1))) {
        Some((before, after)) => format!("{before}unknown variant, {after}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_hidden_and_its_place_is_told() {
        for (said, shown) in [
            (
                "invalid type: string \"secret\", expected u64 at line 1",
                "invalid type: string \"(hidden)\", expected u64 at line 1",
            ),
            ("unknown field `ttl`, expected `ttl_ms` at line 1", "unknown field `ttl`, expected `ttl_ms` at line 1"),
            ("unknown variant `secret`, expected `shared` at 1", "unknown variant, expected `shared` at 1"),
            ("string \"sec\"ret\" at line 1", "string \"(hidden)\" at line 1"),
            ("plain\nsecret", "plain"),
        ] {
            assert_eq!(without_quotes(said), shown);
        }
    }
}
