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

/// Nobody can lock there, so this is no place for the whole contract.
mod redlock_of_five_with_three_stopped {
    use std::time::Duration;

    use fencepost_testkit::contract::edges::{self, Reachable};
    use fencepost_testkit::process::Other;
    use fencepost_testkit::proxy::Flow;

    use crate::common::{Place, until_heard};

    #[test]
    fn in_another_process() {
        edges::in_another_process(|| Place::quorum(5));
    }

    /// The links are up when the servers stop. What the other two granted is given back at the end of `main`: requests take so
    /// long to them that a program which does not wait ends before they arrive.
    #[test]
    fn a_try_in_vain_leaves_nothing_behind() {
        let place = Place::quorum(5).behind_proxies();
        let mut program = Other::start_in(module_path!(), "tries without a majority", &place.address());
        program.says("connected");
        place.servers.iter().for_each(|server| until_heard(server, 1));
        let place = place.with_stopped(3);
        place.proxies[3..].iter().for_each(|proxy| proxy.requests(Flow::Late(Duration::from_millis(40))));
        program.give_leave();
        assert_eq!(program.ends(), Some(0));
        assert_eq!(place.left_behind(), Vec::<String>::new());
    }
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
