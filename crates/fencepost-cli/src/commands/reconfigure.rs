//! `fencepost reconfigure`: other servers for a cluster, while its clients go on.

use std::time::Duration;

use fencepost::reconfigure::{MemberState, Orders, Progress, Reconfiguration, reconfigure as go_on};
use serde::Serialize;

use crate::args::Reconfigure;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::{Output, table};

/// The steps, in order.
const STEPS: [(&str, &str); 4] = [
    ("prepared", "the servers take clients of both sets"),
    ("closed", "clients of the old set are refused"),
    ("opened", "the new set votes: every lease of the old one is over"),
    ("done", "the new set votes alone"),
];

/// More addresses than these are of no use to anybody.
const CLIENTS_SHOWN: usize = 10;

#[derive(Serialize)]
struct State<'a> {
    /// `prepared`, `old_clients`, `closing`, `opened`, `both_clients` or `done`.
    state: &'static str,
    done: Vec<&'static str>,
    remains: Vec<&'static str>,
    /// What to do next. Nothing: it is done.
    next: String,
    /// What clients are to use now.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<&'a str>,
    /// How long leases of the old set may last.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_ms: Option<u128>,
    /// Who uses a set that is to be left.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    clients: &'a [String],
    servers: Vec<ServerData<'a>>,
    warnings: &'a [String],
}

#[derive(Serialize)]
struct ServerData<'a> {
    server: &'a str,
    from: bool,
    to: bool,
    /// The clients that it takes: `old`, `both`, `new`. Nothing: nobody knows.
    votes_for: Option<&'a [&'static str]>,
    trouble: Option<&'a str>,
}

impl<'a> From<&'a MemberState> for ServerData<'a> {
    fn from(member: &'a MemberState) -> Self {
        let MemberState { server, in_old, in_new, votes_for, trouble, .. } = member;
        let votes_for = is_known(member).then_some(votes_for.as_slice());
        Self { server, from: *in_old, to: *in_new, votes_for, trouble: trouble.as_deref() }
    }
}

/// Whether it said for whom it votes.
fn is_known(member: &MemberState) -> bool {
    member.trouble.is_none() || !member.votes_for.is_empty()
}

/// How many steps are done, by which name the rest goes, and what is to be done next.
fn said(progress: &Progress) -> (usize, &'static str, String) {
    let move_to = |clients: &[String], url: &str| {
        let (count, shown) = (clients.len(), clients.iter().take(CLIENTS_SHOWN).cloned().collect::<Vec<_>>());
        let more = if count > CLIENTS_SHOWN { ", …" } else { "" };
        format!(
            "{count} connections are still by the URL that is left ({}{more}): give those clients {url} and run this again; \
             or --force, and they lose their locks",
            shown.join(", ")
        )
    };
    match progress {
        Progress::Prepared { url } => (1, "prepared", format!("give all clients {url} and run this again")),
        Progress::OldClients { clients, url } => (1, "old_clients", move_to(clients, url)),
        Progress::Closing { left } => {
            (2, "closing", format!("leases of the old set still run: try again in {}", rounded(*left)))
        }
        Progress::Opened { url } => (3, "opened", format!("give all clients {url} and run this again")),
        Progress::BothClients { clients, url } => (3, "both_clients", move_to(clients, url)),
        _ => (4, "done", String::new()),
    }
}

/// A span that is over when it is said to be.
fn rounded(span: Duration) -> String {
    humantime::format_duration(Duration::from_secs(span.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX)))
        .to_string()
}

pub(crate) fn reconfigure(arguments: &Reconfigure, output: Output) -> Result<ExitCode, Failure> {
    let orders = Orders { force: arguments.force, gone: arguments.gone.clone() };
    let report = go_on(&arguments.from, &arguments.to, &orders)?;
    report.warnings.iter().for_each(|warning| output.note(warning));
    let Reconfiguration { progress, servers, warnings, .. } = &report;
    let (done, state, next) = said(progress);
    let names = STEPS.map(|(name, _)| name);
    let (url, clients): (Option<&str>, &[String]) = match progress {
        Progress::Prepared { url } | Progress::Opened { url } => (Some(url), &[]),
        Progress::OldClients { clients, url } | Progress::BothClients { clients, url } => (Some(url), clients),
        _ => (None, &[]),
    };
    let left_ms = match progress {
        Progress::Closing { left } => Some(left.as_millis()),
        _ => None,
    };
    let data = State {
        state,
        done: names[..done].to_vec(),
        remains: names[done..].to_vec(),
        next: next.clone(),
        url,
        left_ms,
        clients,
        servers: servers.iter().map(ServerData::from).collect(),
        warnings,
    };
    output.answer(&data, || text(done, &next, servers))?;
    Ok(if done == STEPS.len() { ExitCode::DONE } else { ExitCode::NOT_OBTAINED })
}

fn text(done: usize, next: &str, servers: &[MemberState]) -> String {
    let step = |(number, (name, what)): (usize, (&str, &str))| {
        let state = if number < done { "done" } else { "to do" };
        vec![(number + 1).to_string(), name.to_owned(), state.to_owned(), what.to_owned()]
    };
    let mut text = table(&["STEP", "", "", ""], STEPS.into_iter().enumerate().map(step).collect());
    let row = |member: &MemberState| {
        let sets = [(member.in_old, "from"), (member.in_new, "to")];
        let sets: Vec<&str> = sets.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect();
        let votes = match (is_known(member), member.votes_for.is_empty()) {
            (false, _) => "unknown".to_owned(),
            (true, true) => "nobody".to_owned(),
            (true, false) => member.votes_for.join(", "),
        };
        vec![member.server.clone(), sets.join(", "), votes, member.trouble.clone().unwrap_or_default()]
    };
    text += "\n";
    text += &table(&["SERVER", "IN", "VOTES FOR CLIENTS OF", ""], servers.iter().map(row).collect());
    if !next.is_empty() {
        text += &format!("\nnext: {next}\n");
    }
    text
}
