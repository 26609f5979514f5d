//! What a terminal sends, as keys.

/// A key that was pressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    Char(char),
    /// With the control key: a letter.
    Control(char),
    Function(u8),
    Enter,
    Escape,
    Tab,
    Backspace,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
}

const ESCAPE: u8 = 0x1b;
/// No sequence of a key is longer; a longer one is noise.
const SEQUENCE_MAX: usize = 16;

/// Makes keys of bytes, of which the rest of a key may come later.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    pending: Vec<u8>,
}

/// What the first bytes are.
enum Read {
    /// A key, or nothing we know, of so many bytes.
    Some(Option<Key>, usize),
    /// Not known before more has come.
    More,
}

impl Decoder {
    /// Bytes that have come.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.pending.extend_from_slice(bytes);
        let mut keys = Vec::new();
        while let Some(&first) = self.pending.first() {
            let read = match first {
                ESCAPE => sequence(&self.pending),
                0x80.. => character(&self.pending),
                plain => Read::Some(plain_key(plain), 1),
            };
            let Read::Some(key, length) = read else { break };
            self.pending.drain(..length);
            keys.extend(key);
        }
        keys
    }

    /// A key may have begun: whether it was Escape alone is known when nothing follows for a moment.
    pub(super) fn is_undecided(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Nothing has followed.
    pub(super) fn settle(&mut self) -> Option<Key> {
        let begun = std::mem::take(&mut self.pending);
        (begun == [ESCAPE]).then_some(Key::Escape)
    }
}

fn plain_key(byte: u8) -> Option<Key> {
    Some(match byte {
        b'\r' | b'\n' => Key::Enter,
        b'\t' => Key::Tab,
        0x08 | 0x7f => Key::Backspace,
        1..=26 => Key::Control(char::from(byte - 1 + b'a')),
        0..32 => return None,
        byte => Key::Char(char::from(byte)),
    })
}

fn character(bytes: &[u8]) -> Read {
    let length = match bytes[0] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Read::Some(None, 1),
    };
    if bytes.len() < length {
        return Read::More;
    }
    match std::str::from_utf8(&bytes[..length]) {
        Ok(text) => Read::Some(text.chars().next().map(Key::Char), length),
        Err(_) => Read::Some(None, 1),
    }
}

/// What begins with an escape.
fn sequence(bytes: &[u8]) -> Read {
    match bytes.get(1) {
        None => Read::More,
        Some(b'[') => control_sequence(bytes),
        Some(b'O') => match bytes.get(2) {
            None => Read::More,
            Some(&letter) => Read::Some(lettered(letter), 3),
        },
        // Escape, and then something else.
        Some(_) => Read::Some(Some(Key::Escape), 1),
    }
}

fn control_sequence(bytes: &[u8]) -> Read {
    // The console of Linux has its own F1 to F5.
    if let Some(b'[') = bytes.get(2) {
        let Some(&letter) = bytes.get(3) else { return Read::More };
        let key = (b'A'..=b'E').contains(&letter).then(|| Key::Function(letter - b'A' + 1));
        return Read::Some(key, 4);
    }
    let Some(end) = bytes[2..].iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
        return if bytes.len() > SEQUENCE_MAX { Read::Some(None, bytes.len()) } else { Read::More };
    };
    let (numbers, last, length) = (&bytes[2..2 + end], bytes[2 + end], end + 3);
    let key = match last {
        b'~' => numbered(numbers),
        // A mouse's, which is Enter only without the bracket.
        b'M' => None,
        letter => lettered(letter),
    };
    Read::Some(key, length)
}

fn lettered(letter: u8) -> Option<Key> {
    Some(match letter {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'H' => Key::Home,
        b'F' => Key::End,
        b'M' => Key::Enter,
        b'P'..=b'S' => Key::Function(letter - b'P' + 1),
        _ => return None,
    })
}

fn numbered(numbers: &[u8]) -> Option<Key> {
    let first = numbers.split(|byte| *byte == b';').next()?;
    let number: u8 = std::str::from_utf8(first).ok()?.parse().ok()?;
    Some(match number {
        1 | 7 => Key::Home,
        4 | 8 => Key::End,
        5 => Key::PageUp,
        6 => Key::PageDown,
        11..=15 => Key::Function(number - 10),
        17..=21 => Key::Function(number - 11),
        23..=24 => Key::Function(number - 12),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        let mut decoder = Decoder::default();
        let mut keys = decoder.feed(bytes);
        keys.extend(decoder.settle());
        keys
    }

    #[test]
    fn keys_of_all_common_terminals_are_known() {
        let known: [(&[u8], Key); 20] = [
            (b"\x1b[A", Key::Up),
            (b"\x1bOB", Key::Down),
            (b"\x1b[H", Key::Home),
            (b"\x1b[1~", Key::Home),
            (b"\x1b[7~", Key::Home),
            (b"\x1bOF", Key::End),
            (b"\x1b[4~", Key::End),
            (b"\x1b[5~", Key::PageUp),
            (b"\x1b[6~", Key::PageDown),
            (b"\x1bOP", Key::Function(1)),
            (b"\x1b[11~", Key::Function(1)),
            (b"\x1b[[C", Key::Function(3)),
            (b"\x1b[15~", Key::Function(5)),
            (b"\x1b[17~", Key::Function(6)),
            (b"\x1b[21~", Key::Function(10)),
            (b"\x1b[1;2P", Key::Function(1)),
            (b"\r", Key::Enter),
            (b"\x7f", Key::Backspace),
            (b"\x03", Key::Control('c')),
            ("ü".as_bytes(), Key::Char('ü')),
        ];
        for (bytes, key) in known {
            assert_eq!(keys(bytes), [key], "{bytes:?}");
        }
    }

    #[test]
    fn escape_alone_is_a_key_once_nothing_follows() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.feed(b"\x1b"), []);
        assert!(decoder.is_undecided());
        assert_eq!(decoder.settle(), Some(Key::Escape));
        assert!(!decoder.is_undecided());
        assert_eq!(keys(b"\x1bq"), [Key::Escape, Key::Char('q')]);
        assert_eq!(keys(b"\x1b\x1b[A"), [Key::Escape, Key::Up]);
    }

    #[test]
    fn a_key_that_comes_in_pieces_is_one_key() {
        let mut decoder = Decoder::default();
        let whole = [&b"\x1b[17~"[..], "漢".as_bytes()].concat();
        let read: Vec<Key> = whole.iter().flat_map(|byte| decoder.feed(&[*byte])).collect();
        assert_eq!(read, [Key::Function(6), Key::Char('漢')]);
    }

    #[test]
    fn noise_is_no_key() {
        for noise in [&b"\x1b[200~"[..], b"\x1b[<0;1;1M\x00", b"\xff\xfe", b"\x00", b"\x1b[999;999;999;999;999"] {
            assert_eq!(keys(noise), [], "{noise:?}");
        }
    }
}
