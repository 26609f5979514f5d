//! The contract of every back end, on real servers: one, and three, four and five that vote, also with some of them
//! dead or stopped.

mod common;

mod one_server {
    fencepost_testkit::contract!(crate::common::Place::one());
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
