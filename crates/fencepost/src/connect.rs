//! URL to store: the only list of back ends.

use fencepost_core::fence::Sql;
use fencepost_core::store::{self, Memory};
use fencepost_core::{Connect, Invalid, StoreError};

/// Connects to where a URL says that locks live.
///
/// `connect("sqlite:").await?`, options between: `connect("sqlite:").label("api-3").await?`. A bad URL is reported when
/// the answer is awaited.
///
/// | URL | where locks live |
/// |---|---|
/// | `sqlite:` | a file below the user's state directory, created on first use |
/// | `sqlite:PATH` | that file |
/// | `redis://HOST:PORT` | one Redis server |
/// | `rediss://HOST:PORT` | the same, by TLS |
/// | `redis+unix://PATH` | one Redis server, by its socket |
/// | `redlock://A,B,C` | several independent Redis servers, of which a majority decides |
/// | `redlock+tls://A,B,C` | the same, by TLS |
/// | `redis+sentinel://A,B,C/MASTER_NAME` | the Redis master that sentinels name |
/// | `rediss+sentinel://A,B,C/MASTER_NAME` | the same, by TLS |
/// | `redis+cluster://A,B,C` | a Redis Cluster |
/// | `rediss+cluster://A,B,C` | the same, by TLS |
/// | `etcd://A,B,C` | keys in an etcd cluster |
/// | `etcd+tls://A,B,C` | the same, by TLS |
/// | `zk://A,B,C/NODE` or `zookeeper://` | nodes in a ZooKeeper ensemble |
/// | `postgres://USER:PASSWORD@HOST:PORT/DATABASE` | tables in PostgreSQL |
/// | `mysql://USER:PASSWORD@HOST:PORT/DATABASE` | tables in MySQL or MariaDB |
/// | `fencepost+http://A,B` | whatever is behind a lock service, `fencepost serve`; several replicas |
/// | `fencepost+https://A,B` | the same, by TLS |
/// | `memory:` | this connection |
pub fn connect(url: impl Into<String>) -> Connect {
    let url = url.into();
    match url.split_once(':') {
        Some(("memory", "")) => store::connect(|opening| Ok(vec![Memory::new(opening.clock)])),
        #[cfg(feature = "sqlite")]
        Some(("sqlite", path)) => fencepost_sqlite::connect(path),
        #[cfg(feature = "redis")]
        Some((scheme, rest)) if fencepost_redis::SCHEMES.contains(&scheme) => fencepost_redis::connect(scheme, rest),
        #[cfg(feature = "etcd")]
        Some((scheme, rest)) if fencepost_etcd::SCHEMES.contains(&scheme) => fencepost_etcd::connect(scheme, rest),
        #[cfg(feature = "postgres")]
        Some((scheme, rest)) if fencepost_postgres::SCHEMES.contains(&scheme) => {
            fencepost_postgres::connect(scheme, rest)
        }
        #[cfg(feature = "mysql")]
        Some((scheme, rest)) if fencepost_mysql::SCHEMES.contains(&scheme) => fencepost_mysql::connect(scheme, rest),
        #[cfg(feature = "zookeeper")]
        Some((scheme, rest)) if fencepost_zookeeper::SCHEMES.contains(&scheme) => {
            fencepost_zookeeper::connect(scheme, rest)
        }
        #[cfg(feature = "service")]
        Some((scheme, rest)) if fencepost_service::SCHEMES.contains(&scheme) => {
            fencepost_service::connect(scheme, rest)
        }
        _ => Connect::invalid(unknown(&url)),
    }
}

/// Makes a new store ready: marks the nodes of a `redlock://` cluster as trusted, creates or migrates tables.
///
/// A cluster must hold no locks yet: a Redis node that forgot a lock and is trusted all the same may grant it twice.
/// Tables may be in use.
///
/// # Errors
/// If the store cannot be reached; of a cluster, any node.
pub async fn init(url: &str) -> Result<(), StoreError> {
    match url.split_once(':') {
        #[cfg(feature = "redis")]
        Some((scheme, rest)) if fencepost_redis::SCHEMES.contains(&scheme) => fencepost_redis::init(scheme, rest).await,
        #[cfg(feature = "postgres")]
        Some((scheme, rest)) if fencepost_postgres::SCHEMES.contains(&scheme) => {
            fencepost_postgres::ensure_schema(scheme, rest).await
        }
        #[cfg(feature = "mysql")]
        Some((scheme, rest)) if fencepost_mysql::SCHEMES.contains(&scheme) => {
            fencepost_mysql::ensure_schema(scheme, rest).await
        }
        _ => connect(url).await.map(drop),
    }
}

/// The statements that create the tables of a SQL store, for those who run them by hand instead of [`init`]. `namespace`
/// is the schema (MySQL: the database) and `tables` what their names begin with, as `schema` and `tables` in the URL.
///
/// # Errors
/// Names that cannot be; a dialect that this build does not know, or whose store makes its tables itself.
pub fn schema(dialect: Sql, namespace: Option<&str>, tables: &str) -> Result<String, Invalid> {
    match dialect {
        #[cfg(feature = "postgres")]
        Sql::Postgres => fencepost_postgres::schema(namespace, tables),
        #[cfg(feature = "mysql")]
        Sql::MySql => fencepost_mysql::schema(namespace, tables),
        Sql::Sqlite => Err(Invalid::new("dialect", "sqlite", "its file is made on first use: nothing is to be run")),
        other => {
            let _ = (namespace, tables);
            Err(Invalid::new("dialect", format!("{other:?}"), "this build does not know that store"))
        }
    }
}

pub(crate) fn unknown(url: &str) -> Invalid {
    Invalid::new("store", redacted(url), cure())
}

fn cure() -> String {
    let known = [
        ("sqlite:PATH", cfg!(feature = "sqlite")),
        ("redis://HOST:PORT", cfg!(feature = "redis")),
        ("redlock://A,B,C", cfg!(feature = "redis")),
        ("redis+sentinel://A,B,C/MASTER_NAME", cfg!(feature = "redis")),
        ("redis+cluster://A,B,C", cfg!(feature = "redis")),
        ("etcd://A,B,C", cfg!(feature = "etcd")),
        ("zk://A,B,C/NODE", cfg!(feature = "zookeeper")),
        ("postgres://HOST:PORT/DATABASE", cfg!(feature = "postgres")),
        ("mysql://HOST:PORT/DATABASE", cfg!(feature = "mysql")),
        ("fencepost+http://HOST:PORT", cfg!(feature = "service")),
        ("memory:", true),
    ];
    let known: Vec<&str> = known.into_iter().filter(|(_, built_in)| *built_in).map(|(url, _)| url).collect();
    format!("this build knows {}", known.join(", "))
}

/// A URL without its credentials, for errors and logs.
pub(crate) fn redacted(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    match rest.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://…@{host}"),
        None => url.to_owned(),
    }
}
