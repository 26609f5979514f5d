//! The floor of a hand-over on one server: unlock pushes a token onto a list, waiters block on it in a queue that the
//! server keeps. It is no lock: a holder that dies keeps the token for ever.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Contender, Kind, runtime};
use crate::Outcome;
use crate::contest::{Held, Task, all_turns, perform};
use crate::wire::command;

pub(crate) const BLPOP: Kind = Kind { name: "BLPOP", fenced: false, sets: true, program: None, run };

fn run(task: &Task) -> Outcome<()> {
    let runtime = runtime()?;
    perform(task, |task| runtime.block_on(all_turns(task, async |list| Blpop::connect(task.addresses, list).await)))
}

struct Blpop {
    link: TcpStream,
    list: String,
}

impl Blpop {
    async fn connect(address: &str, list: String) -> Outcome<Self> {
        let link = TcpStream::connect(address).await?;
        link.set_nodelay(true)?;
        let mut this = Self { link, list };
        // Whoever comes first puts the token there.
        let marker = format!("{}-is-there", this.list);
        if this.ask(&["SET", &marker, "1", "NX"]).await?.starts_with("+OK") {
            this.push().await?;
        }
        Ok(this)
    }

    async fn push(&mut self) -> Outcome<()> {
        let list = self.list.clone();
        match self.ask(&["RPUSH", &list, "t"]).await? {
            reply if reply.starts_with(':') => Ok(()),
            reply => Err(format!("RPUSH: {reply:?}").into()),
        }
    }

    /// Every reply is short enough to come in one piece.
    async fn ask(&mut self, words: &[&str]) -> Outcome<String> {
        self.link.write_all(&command(words)).await?;
        let mut reply = [0; 256];
        let length = self.link.read(&mut reply).await?;
        Ok(String::from_utf8_lossy(&reply[..length]).into_owned())
    }
}

impl Contender for Blpop {
    async fn turn(&mut self, hold: impl Future<Output = Held> + Send) -> Outcome<(Held, u64)> {
        let list = self.list.clone();
        let reply = self.ask(&["BLPOP", &list, "0"]).await?;
        if !reply.ends_with("t\r\n") {
            return Err(format!("BLPOP: {reply:?}").into());
        }
        let held = hold.await;
        self.push().await?;
        Ok((held, 0))
    }
}
