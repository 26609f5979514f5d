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
        Sql::Sqlite => {
            Err(Invalid::new("dialect", "sqlite", "SQLite needs no statements: its file is made on first use"))
        }
        other => {
            let _ = (namespace, tables);
            Err(Invalid::new("dialect", format!("{other:?}"), "this build does not know that store"))
        }
    }
}

pub(crate) fn unknown(url: &str) -> Invalid {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    let cure = absent(scheme, |feature| BUILT_IN.contains(&(feature, true))).unwrap_or_else(cure);
    Invalid::new("store", redacted(url), cure)
}

/// The features that a URL may need, and whether this build has them.
const BUILT_IN: [(&str, bool); 12] = [
    ("etcd", cfg!(feature = "etcd")),
    ("etcd-tls", cfg!(feature = "etcd-tls")),
    ("mysql", cfg!(feature = "mysql")),
    ("mysql-tls", cfg!(feature = "mysql-tls")),
    ("postgres", cfg!(feature = "postgres")),
    ("postgres-tls", cfg!(feature = "postgres-tls")),
    ("redis", cfg!(feature = "redis")),
    ("redis-tls", cfg!(feature = "redis-tls")),
    ("service", cfg!(feature = "service")),
    ("service-tls", cfg!(feature = "service-tls")),
    ("sqlite", cfg!(feature = "sqlite")),
    ("zookeeper", cfg!(feature = "zookeeper")),
];

/// Schemes, and the feature that each needs.
const SCHEMES: [(&str, &str); 20] = [
    ("sqlite", "sqlite"),
    ("redis", "redis"),
    ("rediss", "redis-tls"),
    ("redis+unix", "redis"),
    ("redlock", "redis"),
    ("redlock+tls", "redis-tls"),
    ("redis+sentinel", "redis"),
    ("rediss+sentinel", "redis-tls"),
    ("redis+cluster", "redis"),
    ("rediss+cluster", "redis-tls"),
    ("etcd", "etcd"),
    ("etcd+tls", "etcd-tls"),
    ("zk", "zookeeper"),
    ("zookeeper", "zookeeper"),
    ("postgres", "postgres"),
    ("postgresql", "postgres"),
    ("mysql", "mysql"),
    ("mariadb", "mysql"),
    ("fencepost+http", "service"),
    ("fencepost+https", "service-tls"),
];

/// What to do about a scheme whose back end was left out of a build that has these features.
fn absent(scheme: &str, has: impl Fn(&str) -> bool) -> Option<String> {
    let (_, feature) = SCHEMES.iter().find(|(known, _)| *known == scheme)?;
    (!has(feature)).then(|| {
        format!(
            "not in this build: enable the feature `{feature}` of the crate `fencepost`, \
             as in `cargo add fencepost --features {feature}`"
        )
    })
}

fn cure() -> String {
    let known = [
        ("sqlite:PATH", "sqlite"),
        ("redis://HOST:PORT", "redis"),
        ("redlock://A,B,C", "redis"),
        ("redis+sentinel://A,B,C/MASTER_NAME", "redis"),
        ("redis+cluster://A,B,C", "redis"),
        ("etcd://A,B,C", "etcd"),
        ("zk://A,B,C/NODE", "zookeeper"),
        ("postgres://HOST:PORT/DATABASE", "postgres"),
        ("mysql://HOST:PORT/DATABASE", "mysql"),
        ("fencepost+http://HOST:PORT", "service"),
    ];
    let built_in = known.into_iter().filter(|(_, feature)| BUILT_IN.contains(&(feature, true)));
    let known: Vec<&str> = built_in.map(|(url, _)| url).chain(["memory:"]).collect();
    format!("no such store: this build knows {}", known.join(", "))
}

/// A URL without its credentials, for errors and logs.
pub(crate) fn redacted(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    match rest.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://…@{host}"),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_was_left_out_of_the_build_names_the_feature_and_its_crate() {
        for (scheme, feature) in SCHEMES {
            let cure = absent(scheme, |_| false).expect("it is left out");
            assert!(cure.contains(&format!("feature `{feature}` of the crate `fencepost`")), "{scheme}: {cure}");
            assert_eq!(absent(scheme, |has| has == feature), None, "{scheme} is there");
        }
        assert_eq!(absent("carrier-pigeon", |_| false), None);
        let told = unknown("carrier-pigeon://coop").to_string();
        assert!(told.contains("no such store: this build knows") && told.contains("memory:"), "{told}");
    }

    /// The list above is kept by hand; the back ends have their own.
    #[test]
    #[cfg(all(feature = "redis", feature = "etcd", feature = "zookeeper", feature = "postgres", feature = "mysql"))]
    fn every_scheme_of_a_back_end_has_its_feature() {
        let theirs = [
            &fencepost_redis::SCHEMES[..],
            &fencepost_etcd::SCHEMES[..],
            &fencepost_zookeeper::SCHEMES[..],
            &fencepost_postgres::SCHEMES[..],
            &fencepost_mysql::SCHEMES[..],
        ];
        for scheme in theirs.concat() {
            assert!(SCHEMES.iter().any(|(known, _)| *known == scheme), "{scheme} is not in SCHEMES");
        }
    }
}
