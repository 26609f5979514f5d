//! `fencepost verify`: many clients, real faults, and a checker, against a deployment as it is.

mod address;
mod book;
mod bugs;
mod cell;
pub(crate) mod client;
mod crew;
mod faults;
mod figures;
mod leftovers;
mod page;
mod picture;
mod reds;
mod relay;
mod session;
mod talk;
mod verdict;

use std::sync::mpsc::channel;
use std::time::Duration;

use fencepost::store::LockName;
use fencepost::{Invalid, Locks};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use address::Place;
use session::Session;
use talk::any;
use verdict::Judgement;

use crate::args::{Bug, Fault, Verify};
use crate::child::signals;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::report::Report;
use crate::settings::Settings;

const CLIENTS: std::ops::RangeInclusive<usize> = 2..=64;
const LOCKS: std::ops::RangeInclusive<usize> = 1..=16;
const SPAN: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);
const TTL: std::ops::RangeInclusive<Duration> = Duration::from_millis(500)..=Duration::from_secs(30);

/// What is to be done, checked.
pub(super) struct Plan {
    clients: usize,
    span: Duration,
    ttl: Duration,
    faults: Vec<Fault>,
    bug: Option<Bug>,
    url: String,
    /// Where the servers are, if wires are to be cut.
    place: Option<Place>,
    /// Of this run alone.
    prefix: String,
    names: Vec<String>,
    /// The store without its password.
    store: String,
}

pub(crate) fn verify(arguments: &Verify, settings: &Settings) -> Result<ExitCode, Failure> {
    let plan = Plan::of(arguments, settings)?;
    let page = arguments.html.as_deref().map(|path| Report::prepare("--html", path)).transpose()?;
    raise_limit();
    // Before any other thread exists, so that all of them leave signals to one.
    let (sender, inbox) = channel();
    signals::listen(sender.clone()).map_err(|error| Failure::ours("cannot listen to signals", error))?;
    let locks = settings.locks()?;
    plan.fits(&locks)?;
    let progress = Progress::new(settings.output);
    let seen = Session::new(&plan, sender, inbox, progress)?.run()?;
    let left = leftovers::look(&plan, &locks);
    let judgement = Judgement::of(&plan, seen, left);
    // First: whoever reads our output may go away.
    if let Some(page) = page {
        let written = page.put(&page::page(&plan, &judgement));
        written.map_err(|error| Failure::ours("cannot write the page of --html", error))?;
    }
    settings.output.answer(&judgement.figures, || verdict::text(&plan, &judgement))?;
    Ok(judgement.exit_code())
}

/// Each client has a socket of ours for each connection that may be cut: as many as we may have.
fn raise_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        // Without it there is room for fewer clients, which is remarked on if it was too little.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

impl Plan {
    fn of(arguments: &Verify, settings: &Settings) -> Result<Self, Failure> {
        let Verify { clients, span, locks, ttl, prefix, faults, plant, .. } = arguments;
        let url = &settings.config.store.value;
        let spoken = |span: &Duration| humantime::format_duration(*span).to_string();
        let refused = [
            (!CLIENTS.contains(clients), "--clients", clients.to_string(), "2 to 64 clients"),
            (!LOCKS.contains(locks), "--locks", locks.to_string(), "1 to 16 locks"),
            (!SPAN.contains(span), "--for", spoken(span), "1s to 1h"),
            (!TTL.contains(ttl), "--ttl", spoken(ttl), "500ms to 30s"),
        ];
        if let Some((_, field, value, cure)) = refused.into_iter().find(|(wrong, ..)| *wrong) {
            return Err(Invalid::new(field, value, format!("name {cure}")).into());
        }
        if url == "memory:" {
            let cure = "clients are processes, and cannot share the memory of one; name a store that they can all reach, \
                        such as sqlite:PATH";
            return Err(Failure::new(ExitCode::CONFIGURATION, Invalid::new("--store", url, cure).to_string()));
        }
        let mut faults = faults.clone();
        faults.sort_unstable();
        faults.dedup();
        let place = match (faults.contains(&Fault::Cut), Place::read(url)) {
            (false, _) => None,
            (true, Ok(place)) => Some(place),
            (true, Err(why)) => {
                let scheme = url.split(':').next().unwrap_or_default();
                let cure = format!("not possible with {scheme}: {why}; leave it out");
                return Err(Invalid::new("--faults", "cut", cure).into());
            }
        };
        // Nobody else's lock is called so.
        let prefix = format!("{prefix}{:08x}/", any() as u32);
        let names: Vec<String> = (1..=*locks).map(|number| format!("{prefix}{number}")).collect();
        if let Some(Err(invalid)) = names.last().map(LockName::new) {
            return Err(Invalid::new("--prefix", &arguments.prefix, invalid.cure).into());
        }
        Ok(Self {
            clients: *clients,
            span: *span,
            ttl: *ttl,
            faults,
            bug: *plant,
            url: url.clone(),
            place,
            prefix,
            names,
            store: settings.config.store_redacted(),
        })
    }

    /// Whether the store takes such locks.
    fn fits(&self, locks: &Locks) -> Result<(), Failure> {
        let guarantees = locks.guarantees();
        let spoken = |span| humantime::format_duration(span).to_string();
        let cure = match guarantees.largest_ttl {
            _ if self.ttl < guarantees.smallest_ttl => {
                format!("this store takes no ttl below {}", spoken(guarantees.smallest_ttl))
            }
            Some(largest) if self.ttl > largest => format!("this store takes no ttl above {}", spoken(largest)),
            _ => return Ok(()),
        };
        Err(Invalid::new("--ttl", spoken(self.ttl), cure).into())
    }
}
