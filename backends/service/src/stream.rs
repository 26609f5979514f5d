//! The answer to a claim that waits, piece by piece.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::timeout;

/// A service says something every second; after so long it is not there any more.
const SILENCE_MAX: Duration = Duration::from_secs(4);
/// The longest event.
const EVENT_MAX: usize = 64 * 1024;

/// One event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) kind: String,
    pub(crate) data: String,
}

/// Events as they come.
pub(crate) struct Events {
    body: Incoming,
    text: Text,
}

impl Events {
    pub(crate) fn new(body: Incoming) -> Self {
        Self { body, text: Text::default() }
    }

    /// The next one. `None`: the stream broke, or was silent for too long.
    pub(crate) async fn next(&mut self) -> Option<Said> {
        loop {
            if let Some(said) = self.text.event() {
                return Some(said);
            }
            let frame = timeout(SILENCE_MAX, self.body.frame()).await.ok()??.ok()?;
            if let Some(bytes) = frame.data_ref() {
                self.text.take(bytes)?;
            }
        }
    }
}

/// What has come, as far as it is not read.
#[derive(Default)]
struct Text(Vec<u8>);

impl Text {
    fn take(&mut self, bytes: &Bytes) -> Option<()> {
        self.0.extend_from_slice(bytes);
        (self.0.len() <= EVENT_MAX).then_some(())
    }

    /// A whole event, if there is one. Comments, which only say that the service is there, are none.
    fn event(&mut self) -> Option<Said> {
        loop {
            let end = self.0.windows(2).position(|pair| pair == b"\n\n")?;
            let block: Vec<u8> = self.0.drain(..end + 2).collect();
            let block = String::from_utf8_lossy(&block).into_owned();
            let mut said = Said::default();
            for line in block.lines() {
                match line.split_once(':') {
                    Some(("event", kind)) => said.kind = kind.trim_start().to_owned(),
                    Some(("data", data)) => said.data.push_str(data.trim_start()),
                    _ => {}
                }
            }
            if !said.kind.is_empty() {
                return Some(said);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_whole_wherever_they_are_cut() {
        let whole = ":\n\nevent: waiting\ndata: {\"a\":1}\n\n:\n\nevent: granted\ndata: {}\n\n";
        let wanted = [("waiting", "{\"a\":1}"), ("granted", "{}")];
        for cut in 0..whole.len() {
            let mut text = Text::default();
            let mut heard = Vec::new();
            for piece in [&whole[..cut], &whole[cut..]] {
                text.take(&Bytes::copy_from_slice(piece.as_bytes())).expect("short");
                heard.extend(std::iter::from_fn(|| text.event()));
            }
            let heard: Vec<(&str, &str)> = heard.iter().map(|said| (&*said.kind, &*said.data)).collect();
            assert_eq!(heard, wanted);
        }
    }
}
