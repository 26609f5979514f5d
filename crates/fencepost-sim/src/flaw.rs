//! Planted bugs: wrong nodes, wrong wires, wrong processes, wrong resources. The product has no switch for any of them.

/// Something that is done wrongly on purpose.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs, reason = "each is described by `Flaw::describe`")]
pub enum Flaw {
    // Nodes.
    ReleaseAnybody,
    GetThenDelete,
    ReleaseRaisesNothing,
    RenewalRecreates,
    RenewalKeepsAnybody,
    RenewalKeepsNewer,
    AnyToken,
    NoLowerBound,
    NoUpperBound,
    NoQuarantine,
    ShortQuarantine,
    EarlyExpiry,
    FenceExpires,
    NoWakeUp,
    LastFirst,
    LosesPlaces,
    StalePass,
    ReaderBesideWriter,
    WriterBesideReaders,
    Evicts,
    LosesLastWrites,
    CountingSemaphore,
    // Wires.
    WatchdogOutlivesRelease,
    UnknownIsKept,
    UnknownIsGranted,
    DatedFromTheNewest,
    PushDatedFromTheNewest,
    NeverReleases,
    NoCleanUp,
    // Processes.
    ClockStopsInPauses,
    SharedOwners,
    DifferentNodes,
    NodeTwice,
    // Resources.
    NoFence,
    ForgetfulFence,
    ReadsWithoutToken,
}

impl Flaw {
    /// All of them.
    pub const ALL: [Self; 36] = [
        Self::ReleaseAnybody,
        Self::GetThenDelete,
        Self::ReleaseRaisesNothing,
        Self::RenewalRecreates,
        Self::RenewalKeepsAnybody,
        Self::RenewalKeepsNewer,
        Self::AnyToken,
        Self::NoLowerBound,
        Self::NoUpperBound,
        Self::NoQuarantine,
        Self::ShortQuarantine,
        Self::EarlyExpiry,
        Self::FenceExpires,
        Self::NoWakeUp,
        Self::LastFirst,
        Self::LosesPlaces,
        Self::StalePass,
        Self::ReaderBesideWriter,
        Self::WriterBesideReaders,
        Self::Evicts,
        Self::LosesLastWrites,
        Self::CountingSemaphore,
        Self::WatchdogOutlivesRelease,
        Self::UnknownIsKept,
        Self::UnknownIsGranted,
        Self::DatedFromTheNewest,
        Self::PushDatedFromTheNewest,
        Self::NeverReleases,
        Self::NoCleanUp,
        Self::ClockStopsInPauses,
        Self::SharedOwners,
        Self::DifferentNodes,
        Self::NodeTwice,
        Self::NoFence,
        Self::ForgetfulFence,
        Self::ReadsWithoutToken,
    ];

    /// The one with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|flaw| format!("{flaw:?}") == name)
    }

    /// What is wrong.
    pub fn describe(self) -> &'static str {
        match self {
            Self::ReleaseAnybody => "a node frees the lock without comparing the owner",
            Self::GetThenDelete => "a node compares the owner and deletes in two commands, with a pause between",
            Self::ReleaseRaisesNothing => "a release does not raise the fence",
            Self::RenewalRecreates => "a renewal re-creates a missing grant with SET NX, whatever came since",
            Self::RenewalKeepsAnybody => "a renewal does not compare the owner",
            Self::RenewalKeepsNewer => "a renewal counts what a late request of the same owner took after another",
            Self::AnyToken => "a node grants a token that is not above the last",
            Self::NoLowerBound => "a node grants tokens from before its own clock",
            Self::NoUpperBound => "a node grants tokens from the far future",
            Self::NoQuarantine => "a node that forgot grants at once",
            Self::ShortQuarantine => "a node that forgot keeps still for less than a lease",
            Self::EarlyExpiry => "a node keeps a grant for half of its ttl",
            Self::FenceExpires => "a node forgets the last token together with the grant",
            Self::NoWakeUp => "a node hands over and tells nobody",
            Self::LastFirst => "a node hands over to the last in line",
            Self::LosesPlaces => "who asks again goes to the end of the line",
            Self::StalePass => "a node hands over under a token that is not above the last",
            Self::ReaderBesideWriter => "a node lets readers in beside a writer",
            Self::WriterBesideReaders => "a node lets a writer in beside readers",
            Self::Evicts => "a node evicts locks when its memory is full",
            Self::LosesLastWrites => "a node that crashed lost its last writes and grants at once",
            Self::CountingSemaphore => "a semaphore of two permits whose nodes count members",
            Self::WatchdogOutlivesRelease => "the watchdog goes on after the release",
            Self::UnknownIsKept => "a renewal that was not answered, or refused, counts as a success",
            Self::UnknownIsGranted => "an acquire that was not answered counts as a grant",
            Self::DatedFromTheNewest => {
                "validity is dated from the newest request instead of the one that was answered"
            }
            Self::PushDatedFromTheNewest => {
                "a pushed grant is dated from the newest attempt instead of the one it names"
            }
            Self::NeverReleases => "a guard that is dropped releases nothing",
            Self::NoCleanUp => "who gave up waiting leaves its requests behind",
            Self::ClockStopsInPauses => "a process has a clock that stands still while it sleeps",
            Self::SharedOwners => "two processes have the same owners: random numbers from one seed",
            Self::DifferentNodes => "processes that do not agree on the list of nodes",
            Self::NodeTwice => "one node is listed twice",
            Self::NoFence => "the resource does not check the token",
            Self::ForgetfulFence => "the resource forgets the newest token when it restarts",
            Self::ReadsWithoutToken => "the resource checks the token of writes, but not of the reads before them",
        }
    }
}
