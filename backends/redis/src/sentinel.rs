//! What sentinels are asked, and what they say.

use fencepost_core::store::{StoreErrorKind, Trouble};

use crate::error;
use crate::greeting;
use crate::url::{Address, Node};
use crate::wire::{self, Value};

/// Where sentinels tell of a new master.
pub(crate) const SWITCHED: &str = "+switch-master";

/// The first commands to a sentinel. Answers how many replies they have.
pub(crate) fn introduce(out: &mut Vec<u8>, node: &Node) -> usize {
    greeting::hello(out, node, None);
    wire::write(out, &[b"SUBSCRIBE", SWITCHED.as_bytes()]);
    2
}

/// Reads the replies to [`introduce`].
pub(crate) fn introduced(replies: &[Value]) -> Result<(), Trouble> {
    let refusal = replies.iter().find_map(|reply| match reply {
        Value::Error(text) => Some(text),
        _ => None,
    });
    let Some(text) = refusal else { return Ok(()) };
    let trouble = error::trouble(text);
    let message = match trouble.kind {
        StoreErrorKind::Denied => format!(
            "the sentinel denied us ({}): set ?sentinel_user= and ?sentinel_password_file=, or \
             FENCEPOST_SENTINEL_PASSWORD",
            text.split(' ').next().unwrap_or_default()
        ),
        _ => format!("the sentinel refused us: {text}"),
    };
    Err(Trouble::new(trouble.kind, message))
}

/// The question where the master is.
pub(crate) fn question(master: &str) -> [&[u8]; 3] {
    [b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", master.as_bytes()]
}

/// Reads the answer to [`question`].
pub(crate) fn answer(master: &str, value: &Value) -> Result<Address, Trouble> {
    match value {
        Value::Null => {
            let message = format!("it watches no master {master:?}: name one that `SENTINEL MASTERS` lists");
            Err(Trouble::new(StoreErrorKind::Misconfigured, message))
        }
        Value::Error(text) if text.to_lowercase().contains("unknown command") => {
            Err(Trouble::new(StoreErrorKind::Misconfigured, "it is no sentinel: such a URL is redis://HOST:PORT"))
        }
        Value::Error(text) => Err(error::trouble(text)),
        other => address(other.array().unwrap_or_default())
            .ok_or_else(|| Trouble::new(StoreErrorKind::Unexpected, format!("an odd reply: {other:?}"))),
    }
}

fn address(parts: &[Value]) -> Option<Address> {
    let [host, port] = parts else { return None };
    Some(Address::Tcp { host: host.text()?, port: u16::try_from(port.number()?).ok()? })
}

/// The new address, if the news are of this master: its name, where it was, where it is.
pub(crate) fn news(master: &str, word: &str) -> Option<Address> {
    let words: Vec<&str> = word.split(' ').collect();
    match words[..] {
        [name, _, _, host, port] if name == master => {
            Some(Address::Tcp { host: host.to_owned(), port: port.parse().ok()? })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_news_of_our_master_count() {
        let word = "main 10.0.0.1 6379 10.0.0.2 6380";
        assert_eq!(news("main", word).map(|address| address.to_string()).as_deref(), Some("10.0.0.2:6380"));
        assert_eq!(news("other", word), None);
        assert_eq!(news("main", "main 10.0.0.1"), None);
    }

    #[test]
    fn a_master_that_nobody_watches_is_a_mistake_of_the_url() {
        let trouble = answer("mian", &Value::Null).expect_err("unknown");
        assert_eq!(trouble.kind, StoreErrorKind::Misconfigured);
        assert!(trouble.message.contains("mian"));
    }
}
