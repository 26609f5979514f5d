//! The contract of every back end: on a server, and behind a transaction pooler.

mod common;

mod on_a_server {
    fencepost_testkit::contract!(<crate::common::Place as fencepost_testkit::sql::SqlPlace>::new());
}

/// S-24: every promise holds where each transaction may have another server connection, and nothing is pushed.
mod behind_a_transaction_pooler {
    use std::sync::Arc;

    use fencepost_core::Connect;
    use fencepost_testkit::contract::Subject;
    use fencepost_testkit::contract::edges::Reachable;
    use fencepost_testkit::pgbouncer::PgBouncer;
    use fencepost_testkit::server::Server;
    use fencepost_testkit::shared::Shared;
    use fencepost_testkit::sql::SqlPlace;

    use crate::common::Place;

    static POOLER: Shared<PgBouncer> = Shared::new();

    struct Behind {
        // First, because it is dropped first.
        pooler: Arc<Server<PgBouncer>>,
        place: Place,
    }

    impl Behind {
        fn new() -> Self {
            let place = Place::new();
            let pooler = POOLER.get(|| PgBouncer::of(place.server.port()));
            Self { pooler, place }
        }
    }

    impl Subject for Behind {
        fn connect(&self) -> Connect {
            Self::reach(&self.address())
        }
    }

    impl Reachable for Behind {
        fn address(&self) -> String {
            self.place.url_at(&self.pooler.address())
        }

        fn reach(address: &str) -> Connect {
            Place::connect_url(address)
        }
    }

    fencepost_testkit::contract!(Behind::new());
}
