//! The contract of every back end, on real servers: one, and three, four and five that vote, also with some of them
//! dead or stopped; and on every version of the servers that we promise, alone and as three that vote.

mod common;

mod one_server {
    fencepost_testkit::contract!(crate::common::Place::one());
}

/// Redisson's layout has no line and no readers; `redisson.rs` has what happens there instead.
mod redisson {
    fencepost_testkit::contract!(crate::common::Place::one().settings("layout=redisson"), without line and readers);
}

mod redlock_of_one {
    fencepost_testkit::contract!(crate::common::Place::quorum(1));
}

mod redlock_of_three {
    fencepost_testkit::contract!(crate::common::Place::quorum(3));
}

mod redlock_of_four {
    fencepost_testkit::contract!(crate::common::Place::quorum(4));
}

mod redlock_of_five {
    fencepost_testkit::contract!(crate::common::Place::quorum(5));
}

mod redlock_of_five_with_two_dead {
    fencepost_testkit::contract!(crate::common::Place::quorum(5).with_dead(2));
}

mod redlock_of_five_with_two_stopped {
    fencepost_testkit::contract!(crate::common::Place::quorum(5).with_stopped(2));
}

macro_rules! editions {
    ($($name:ident: $edition:ident),+) => {$(
        mod $name {
            use crate::common::Place;
            use fencepost_testkit::redis::{Edition, Redis};

            fn server() -> Redis {
                Redis::new().edition(Edition::$edition)
            }

            mod alone {
                fencepost_testkit::contract!(super::Place::alone(super::server()));
            }

            mod redisson {
                fencepost_testkit::contract!(
                    super::Place::alone(super::server()).settings("layout=redisson"), without line and readers);
            }

            mod redlock_of_three {
                fencepost_testkit::contract!(super::Place::voting(vec![super::server(); 3], ""));
            }
        }
    )+};
}

editions!(redis_6_2: Redis6, redis_8_0: Redis8, valkey_8_1: Valkey8, valkey_9_1: Valkey9);
