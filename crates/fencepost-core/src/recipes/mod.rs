//! Recipes: jobs that people need locks for, each with its lock, its record and its fencing inside.
//!
//! All of them work alike. Whoever has the lock *seals* the record with its token, decides by what is there, works, and
//! *puts* the outcome under the same token. So a worker that slept through its lease cannot write over its successor's
//! outcome. What the work does elsewhere is not undone by that: show the token there, too.

mod noted;
mod once_per_key;
mod once_per_window;
#[cfg(feature = "schedule")]
mod schedule;
mod single_flight;
mod stock;
mod windows;

pub use crate::fence::Settled;
pub use once_per_key::{Finished, Once, OnceError, OncePerKey};
pub use once_per_window::OncePerWindow;
#[cfg(feature = "schedule")]
pub use schedule::Schedule;
pub(crate) use single_flight::Rebuilding;
pub use single_flight::{Boxed, SingleFlight, Values};
pub use stock::{Reservation, Stock};
pub use windows::{Ran, Window, WindowState};

use std::time::Duration;

use crate::locks::Locks;

impl Locks {
    /// Work that is done once for a key, however often it is asked for. `payload` is what the request says: the same key
    /// with another payload is an error.
    ///
    /// ```
    /// # use fencepost_core::{Blocking, Once, store};
    /// # let locks = store::connect(|at| Ok(vec![store::Memory::new(at.clock)])).block()?;
    /// let charge = locks.once_per_key("order-17", b"100 USD");
    /// let paid = async |_: &_| Ok::<_, std::io::Error>("receipt 1".to_owned());
    /// assert_eq!(charge.run(paid).block()?, Once::Ran("receipt 1".to_owned()));
    /// assert_eq!(charge.run(paid).block()?, Once::Replayed("receipt 1".to_owned()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn once_per_key(&self, key: impl Into<String>, payload: impl AsRef<[u8]>) -> OncePerKey {
        OncePerKey::new(self.clone(), key.into(), payload.as_ref())
    }

    /// [`once_per_key`](Self::once_per_key) for a payload of which only the SHA-256 is known.
    pub fn once_per_digest(&self, key: &str, payload: [u8; 32]) -> OncePerKey {
        OncePerKey::of_digest(self.clone(), key, payload)
    }

    /// A job that runs once per window of time in the whole cluster, or once for a named window.
    ///
    /// ```
    /// # use fencepost_core::{Blocking, store};
    /// # use std::time::Duration;
    /// # let locks = store::connect(|at| Ok(vec![store::Memory::new(at.clock)])).block()?;
    /// let nightly = locks.once_per_window("report", Duration::from_secs(24 * 3600));
    /// let report = async |_: &_| Ok::<_, std::io::Error>("sent");
    /// assert_eq!(nightly.run(report).block()?, Some("sent"));
    /// assert_eq!(nightly.run(report).block()?, None, "it has run today");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn once_per_window(&self, name: impl Into<String>, window: impl Into<Window>) -> OncePerWindow {
        OncePerWindow::new(self.clone(), name.into(), window.into())
    }

    /// A value that many read and one rebuilds.
    ///
    /// ```
    /// # use fencepost_core::{Blocking, store};
    /// # use std::time::Duration;
    /// # let locks = store::connect(|at| Ok(vec![store::Memory::new(at.clock)])).block()?;
    /// let top = locks.single_flight("top-sellers").fresh_for(Duration::from_secs(60));
    /// let rebuilt = top.get(async || Ok::<_, std::io::Error>(vec![3, 1, 4])).block()?;
    /// let cached = top.get(async || -> Result<Vec<i32>, std::io::Error> { unreachable!("it is fresh") }).block()?;
    /// assert_eq!(rebuilt, cached);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn single_flight(&self, key: impl Into<String>) -> SingleFlight {
        SingleFlight::new(self.clone(), key.into())
    }

    /// So many of an item, of which never more are sold.
    ///
    /// ```
    /// # use fencepost_core::{Blocking, Settled, store};
    /// # use std::time::Duration;
    /// # let locks = store::connect(|at| Ok(vec![store::Memory::new(at.clock)])).block()?;
    /// let seats = locks.stock("concert");
    /// seats.set(2).block()?;
    /// let mine = seats.reserve(2, Duration::from_secs(600)).block()?.expect("there are two");
    /// assert!(seats.reserve(1, Duration::from_secs(600)).block()?.is_none(), "none is left");
    /// assert_eq!(seats.confirm(&mine.id).block()?, Settled::Confirmed);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stock(&self, item: impl Into<String>) -> Stock {
        Stock::new(self.clone(), item.into())
    }
}

/// How long a recipe waits for its lock where nobody says otherwise.
const WAIT: Duration = Duration::from_secs(10);
