//! `fencepost release --force`: ends somebody's hold. `--ask` only asks for it.

use fencepost::{Blocking, Holder, NodeVote};
use serde::Serialize;

use super::state::HolderData;
use crate::args::Release;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::settings::{Settings, checked_name};

#[derive(Serialize)]
struct Released {
    name: String,
    holder: Option<HolderData>,
    /// Nodes that did not confirm a release by force.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreached: Vec<Unreached>,
}

#[derive(Serialize)]
struct Unreached {
    node: String,
    why: String,
}

impl From<&NodeVote> for Unreached {
    fn from(vote: &NodeVote) -> Self {
        Self { node: vote.node.clone(), why: vote.vote.to_string() }
    }
}

/// In words: who had it, what was done, and which nodes did not confirm that.
pub(super) fn report(name: &str, holder: Option<&Holder>, done: &str, unreached: &[NodeVote]) -> String {
    let said = match holder {
        Some(holder) => format!("{name} was held by {holder}; it {done}"),
        None => format!("{name} was free"),
    };
    let each: Vec<String> = unreached.iter().map(|vote| format!("{} ({})", vote.node, vote.vote)).collect();
    match each.is_empty() {
        true => said,
        false => format!("{said}; not confirmed by {}: what is held there ends with its lease", each.join(", ")),
    }
}

pub(crate) fn release(arguments: &Release, settings: &Settings) -> Result<ExitCode, Failure> {
    let name = &arguments.name;
    checked_name(name)?;
    let (done, holder, unreached) = match (arguments.force, arguments.ask) {
        (true, _) => {
            let forced = settings.locks()?.force_release(name, &arguments.reason).block()?;
            ("is released", forced.holder, forced.unreached)
        }
        (_, true) => ("was asked for", settings.locks()?.ask_to_yield(name, &arguments.note).block()?, Vec::new()),
        (false, false) => {
            let why = "release takes the lock away from its holder, whose command is ended: add --force, or use --ask to \
                       let the holder decide (a run releases its own lock when its command ends)";
            return Err(Failure::new(ExitCode::USAGE, why));
        }
    };
    let data = Released {
        name: name.clone(),
        holder: holder.as_ref().map(HolderData::from),
        unreached: unreached.iter().map(Unreached::from).collect(),
    };
    settings.output.answer(data, || report(name, holder.as_ref(), done, &unreached))?;
    Ok(ExitCode::DONE)
}
