//! `fencepost leader`: who leads.

use fencepost::{Blocking, Holder};
use serde::Serialize;

use super::state::{HolderData, or_dash, span, token};
use super::watch::Away;
use crate::args::Leader;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::settings::{Settings, checked_name};

#[derive(Serialize)]
struct LeaderData<'a> {
    name: &'a str,
    leader: Option<HolderData>,
}

pub(crate) fn leader(arguments: &Leader, settings: &Settings) -> Result<ExitCode, Failure> {
    checked_name(&arguments.name)?;
    let election = settings.locks()?.election(&arguments.name).ttl(settings.config.ttl.value);
    let tell = |leader: Option<&Holder>| {
        let data = LeaderData { name: &arguments.name, leader: leader.map(HolderData::from) };
        settings.output.answer(data, || text(&arguments.name, leader))
    };
    if !arguments.watch {
        let leader = election.leader().block()?;
        tell(leader.as_ref())?;
        return Ok(if leader.is_some() { ExitCode::DONE } else { ExitCode::NOBODY });
    }
    let (mut leaders, mut away) = (election.observe(), Away::new(settings.output));
    while let Some(leader) = leaders.next().block() {
        if let Some(leader) = away.heard(leader)? {
            tell(leader.as_ref())?;
        }
    }
    Ok(ExitCode::DONE)
}

/// One line: a watcher prints many.
fn text(name: &str, leader: Option<&Holder>) -> String {
    let Some(leader) = leader else { return format!("{name}: nobody leads") };
    let payload = leader.payload.as_ref().map(|payload| format!(" at {payload}")).unwrap_or_default();
    let (term, since) = (or_dash(token(leader), |term| term), or_dash(leader.held_for, span));
    format!("{name}: {}{payload}, term {term}, for {since}", leader.label)
}
