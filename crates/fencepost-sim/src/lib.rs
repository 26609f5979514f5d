//! Fencepost's engine in a simulated world.
//!
//! The engine of `fencepost-core` runs as it is: guards, watchdog, waiting, all kinds of lock, Redlock's votes. Around it
//! everything is simulated, in one thread and in virtual time: nodes (the reference semantics on rows that can be
//! lost), wires that lose, delay, double and reorder, clocks that drift, jump and strobe, processes that stand still or
//! die, resources that check tokens. One seed is one run, event for event.
//!
//! - [`Plan`]: what a seed decides beforehand; [`run`]: what comes of it, judged by the
//!   [checker](fencepost_testkit::checker).
//! - [`campaign`]: many seeds; [`explain()`]: one that went wrong, made short.
//! - [`Flaw`]: planted bugs, which the checker must find; [`Control`]: other ways to lock, which must fail beside ours;
//!   [`Story`]: what everybody tells about locks, played.

mod brief;
mod campaign;
mod control;
mod evidence;
mod explain;
mod flaw;
mod net;
mod node;
mod outcome;
mod plan;
mod process;
mod resource;
mod rows;
mod story;
mod time;
mod wire;
mod worker;
mod world;

pub use campaign::{Tally, all, campaign, hunt};
pub use control::Control;
pub use evidence::{evidence, outdated};
pub use explain::{command, explain};
pub use flaw::Flaw;
pub use outcome::Run;
pub use plan::{Mode, Plan};
pub use story::Story;
pub use world::run;
