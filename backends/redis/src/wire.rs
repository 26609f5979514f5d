//! Commands to bytes, bytes to replies. The parsing is `redis-protocol`'s; here are only the shapes we use.

use redis_protocol::resp3::decode::complete::decode;
use redis_protocol::resp3::types::OwnedFrame;

/// A reply, or something the server says unasked.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    Null,
    Number(i64),
    Text(Vec<u8>),
    Array(Vec<Value>),
    Error(String),
    Push(Vec<Value>),
}

impl Value {
    /// The text, if it is one; numbers count.
    pub(crate) fn text(&self) -> Option<String> {
        match self {
            Self::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            Self::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    pub(crate) fn number(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok(),
            _ => None,
        }
    }

    pub(crate) fn array(&self) -> Option<&[Value]> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }
}

/// The first whole reply in the buffer and its length; `None`: there is more to come.
pub(crate) fn parse(buffer: &[u8]) -> Result<Option<(Value, usize)>, String> {
    let Some((frame, length)) = decode(buffer).map_err(|error| error.to_string())? else { return Ok(None) };
    Ok(Some((shaped(frame), length)))
}

fn shaped(frame: OwnedFrame) -> Value {
    let all = |frames: Vec<OwnedFrame>| frames.into_iter().map(shaped).collect();
    match frame {
        OwnedFrame::Null => Value::Null,
        OwnedFrame::Number { data, .. } => Value::Number(data),
        OwnedFrame::Boolean { data, .. } => Value::Number(i64::from(data)),
        OwnedFrame::Double { data, .. } => Value::Text(data.to_string().into_bytes()),
        OwnedFrame::BlobString { data, .. }
        | OwnedFrame::SimpleString { data, .. }
        | OwnedFrame::BigNumber { data, .. }
        | OwnedFrame::VerbatimString { data, .. } => Value::Text(data),
        OwnedFrame::SimpleError { data, .. } => Value::Error(data),
        OwnedFrame::BlobError { data, .. } => Value::Error(String::from_utf8_lossy(&data).into_owned()),
        OwnedFrame::Array { data, .. } => Value::Array(all(data)),
        OwnedFrame::Push { data, .. } => Value::Push(all(data)),
        OwnedFrame::Map { data, .. } => {
            Value::Array(data.into_iter().flat_map(|(key, value)| [shaped(key), shaped(value)]).collect())
        }
        OwnedFrame::Set { data, .. } => Value::Array(data.into_iter().map(shaped).collect()),
        _ => Value::Null,
    }
}

/// Writes a command behind what is already in the buffer.
pub(crate) fn write(out: &mut Vec<u8>, parts: &[&[u8]]) {
    head(out, b'*', parts.len());
    parts.iter().for_each(|part| write_bytes(out, part));
}

/// Writes one word of a command.
pub(crate) fn write_word(out: &mut Vec<u8>, word: &str) {
    write_bytes(out, word.as_bytes());
}

/// The same, of any bytes.
pub(crate) fn write_bytes(out: &mut Vec<u8>, word: &[u8]) {
    head(out, b'$', word.len());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

/// Writes the head of a command of so many words; the words follow.
pub(crate) fn write_head(out: &mut Vec<u8>, words: usize) {
    head(out, b'*', words);
}

fn head(out: &mut Vec<u8>, kind: u8, number: usize) {
    out.push(kind);
    write_number(out, number as u64);
    out.extend_from_slice(b"\r\n");
}

/// Writes a number in digits.
pub(crate) fn write_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return out.extend_from_slice(&digits[at..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_read_whole_or_not_at_all() {
        let bytes = b"*3\r\n:1\r\n$2\r\nab\r\n_\r\n-ERR no\r\n";
        let (value, length) = parse(bytes).expect("well formed").expect("whole");
        assert_eq!(value, Value::Array(vec![Value::Number(1), Value::Text(b"ab".to_vec()), Value::Null]));
        for cut in 0..length {
            assert_eq!(parse(&bytes[..cut]).expect("well formed so far"), None, "cut at {cut}");
        }
        assert_eq!(parse(&bytes[length..]).expect("well formed"), Some((Value::Error("ERR no".into()), 9)));
    }

    #[test]
    fn a_number_is_written_as_everybody_writes_it() {
        for number in [0, 7, 10, 99, 100, 1 << 53, u64::MAX] {
            let mut out = Vec::new();
            write_number(&mut out, number);
            assert_eq!(out, number.to_string().into_bytes());
        }
    }

    #[test]
    fn a_command_is_an_array_of_its_parts() {
        let mut out = Vec::new();
        write(&mut out, &[b"GET", b"a\r\nb"]);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n");
        out.clear();
        write_head(&mut out, 1);
        write_word(&mut out, "ab-12");
        assert_eq!(out, b"*1\r\n$5\r\nab-12\r\n");
    }
}
