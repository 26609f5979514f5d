//! `fencepost reconfigure`.

use clap::Args;

use crate::exit_code::TABLE;

const STEPS: &str = "\
Each run goes as far as it can, says what is to be done next, and exits with 75 until all is done; then with 0. Run it again,
on whatever machine, and it goes on where it stopped: how far it is, the servers know.
  1 prepared  the servers take clients of both sets: give all clients the URL of both, which it prints
  2 closed    when nobody uses the old URL any more: its clients are refused, and told the other URL
  3 opened    when every lease of the old set is over: give all clients the new URL
  4 done      when nobody uses the URL of both any more: servers that are left may be switched off
The old and the new set never vote side by side, and fencing tokens go on rising. To go back, from whatever step, run it with
the URLs changed over. Every server of --to has to be up, and of --from all that are not --gone, which must be a majority.
docs/reconfigure.md has more.";

#[derive(Args, Debug)]
#[command(after_help = [STEPS, "\n\n", TABLE].concat())]
pub(crate) struct Reconfigure {
    /// The servers that vote now: redlock://A,B,C
    #[arg(long, value_name = "URL")]
    pub(crate) from: String,
    /// The servers that are to vote: redlock://C,D,E
    #[arg(long, value_name = "URL")]
    pub(crate) to: String,
    /// Do not wait for clients that still use an old URL: they lose their locks
    #[arg(long)]
    pub(crate) force: bool,
    /// This server of --from is off for good and need not be told; may be given several times
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) gone: Vec<String>,
}
