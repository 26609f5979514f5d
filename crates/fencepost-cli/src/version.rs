//! What this program is: its version, the commit it was made from, and the stores it knows.

/// For `--version`; `-V` says only the first line.
pub(crate) fn long() -> String {
    let commit = match env!("FENCEPOST_COMMIT") {
        "" => "unknown",
        commit => commit,
    };
    let parts = [
        ("sqlite", cfg!(feature = "sqlite")),
        ("redis", cfg!(feature = "redis")),
        ("redis-tls", cfg!(feature = "redis-tls")),
        ("etcd", cfg!(feature = "etcd")),
        ("etcd-tls", cfg!(feature = "etcd-tls")),
        ("zookeeper", cfg!(feature = "zookeeper")),
        ("postgres", cfg!(feature = "postgres")),
        ("postgres-tls", cfg!(feature = "postgres-tls")),
        ("mysql", cfg!(feature = "mysql")),
        ("mysql-tls", cfg!(feature = "mysql-tls")),
        ("service", cfg!(feature = "service")),
        ("service-tls", cfg!(feature = "service-tls")),
        ("memory", true),
    ];
    let stores: Vec<&str> = parts.into_iter().filter(|(_, built_in)| *built_in).map(|(name, _)| name).collect();
    let serve = if cfg!(feature = "serve") { "yes" } else { "no" };
    format!("{}\ncommit: {commit}\nstores: {}\nserve: {serve}", env!("CARGO_PKG_VERSION"), stores.join(", "))
}
