//! What the nodes of a cluster say about who has which slots.

use crate::keys::SLOTS;
use crate::url::Address;
use crate::wire::Value;

/// Who has which slots: the first and the last, and their master.
pub(crate) type Ranges = Vec<(u16, u16, Address)>;

/// Reads the reply to CLUSTER SLOTS. A node that does not know its own address leaves it out: `asked` is where it is.
pub(crate) fn ranges(value: &Value, asked: &Address) -> Option<Ranges> {
    let ranges = value.array()?.iter().map(|range| {
        let [first, last, master, ..] = range.array()? else { return None };
        let slot =
            |value: &Value| value.number().and_then(|slot| u16::try_from(slot).ok()).filter(|slot| *slot < SLOTS);
        let [host, port, ..] = master.array()? else { return None };
        let port = u16::try_from(port.number()?).ok()?;
        Some((slot(first)?, slot(last)?, at(&host.text().unwrap_or_default(), port, asked)))
    });
    ranges.collect()
}

/// Where a server sent us: `MOVED SLOT HOST:PORT`, `ASK SLOT HOST:PORT`.
pub(crate) fn redirection(text: &str, asked: &Address) -> Option<(u16, Address)> {
    let mut words = text.split(' ').skip(1);
    let slot = words.next()?.parse().ok().filter(|slot| *slot < SLOTS)?;
    let (host, port) = words.next()?.rsplit_once(':')?;
    Some((slot, at(host, port.parse().ok()?, asked)))
}

fn at(host: &str, port: u16, asked: &Address) -> Address {
    match (host, asked) {
        ("" | "?", Address::Tcp { host, .. }) => Address::Tcp { host: host.clone(), port },
        _ => Address::Tcp { host: host.to_owned(), port },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> Address {
        Address::Tcp { host: "here".into(), port: 1 }
    }

    #[test]
    fn a_redirection_names_slot_and_address() {
        let read = |text: &str| redirection(text, &here()).map(|(slot, address)| format!("{slot} {address}"));
        assert_eq!(read("MOVED 3999 127.0.0.1:6381").as_deref(), Some("3999 127.0.0.1:6381"));
        assert_eq!(read("ASK 0 ::1:6381").as_deref(), Some("0 [::1]:6381"));
        assert_eq!(read("MOVED 3999 :6381").as_deref(), Some("3999 here:6381"));
        assert_eq!(read("MOVED 99999 a:1"), None);
        assert_eq!(read("MOVED"), None);
    }

    #[test]
    fn ranges_name_the_master_of_each() {
        let text = |text: &str| Value::Text(text.as_bytes().to_vec());
        let server = |host: Value| Value::Array(vec![host, Value::Number(7000), text("id")]);
        let range = |host| Value::Array(vec![Value::Number(0), Value::Number(16383), server(host), server(text("r"))]);
        let all = |host| ranges(&Value::Array(vec![range(host)]), &here()).expect("well formed");
        assert_eq!(all(text("a"))[0].2.to_string(), "a:7000");
        assert_eq!(all(Value::Null)[0].2.to_string(), "here:7000");
        assert!(ranges(&text("odd"), &here()).is_none());
    }
}
