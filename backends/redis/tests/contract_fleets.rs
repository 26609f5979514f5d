//! The contract of every back end behind sentinels and in a cluster, with and without replicas to wait for.

mod fleets;

mod behind_sentinels {
    fencepost_testkit::contract!(crate::fleets::Place::behind_sentinels(""));
}

mod behind_sentinels_with_replicas {
    fencepost_testkit::contract!(crate::fleets::Place::behind_sentinels("replicas=2&replicas_within_ms=1000"));
}

mod in_a_cluster {
    fencepost_testkit::contract!(crate::fleets::Place::in_a_cluster(""));
}

mod in_a_cluster_with_replicas {
    fencepost_testkit::contract!(crate::fleets::Place::in_a_cluster("replicas=1&replicas_within_ms=1000"));
}

mod redisson_behind_sentinels {
    fencepost_testkit::contract!(
        crate::fleets::Place::behind_sentinels("layout=redisson"), without line and readers);
}

mod redisson_in_a_cluster {
    fencepost_testkit::contract!(crate::fleets::Place::in_a_cluster("layout=redisson"), without line and readers);
}

mod redisson_in_a_cluster_with_replicas {
    fencepost_testkit::contract!(
        crate::fleets::Place::in_a_cluster("layout=redisson&replicas=1&replicas_within_ms=1000"),
        without line and readers);
}
