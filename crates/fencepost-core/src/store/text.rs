//! Text as it stands in URLs and keys: what every back end reads.

use crate::error::Invalid;

/// Undoes percent-encoding. `None`: after a % come no two digits, or the bytes are no UTF-8.
pub fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        bytes.push(u8::try_from(digit()? * 16 + digit()?).ok()?);
    }
    String::from_utf8(bytes).ok()
}

/// The password in a file, without the end of its line.
///
/// # Errors
/// A file that cannot be read.
pub fn password_from(path: &str) -> Result<String, Invalid> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Invalid::new("password_file", path, format!("name a file that can be read: {error}")))?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded_and_what_is_not_is_refused() {
        assert_eq!(percent_decoded("a%20b%C3%BC%2f").as_deref(), Some("a bü/"));
        for bad in ["%", "%2", "%zz", "%ff"] {
            assert_eq!(percent_decoded(bad), None, "{bad}");
        }
    }
}
