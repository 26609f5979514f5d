//! A build without TLS says so.

use fencepost_core::Invalid;
use fencepost_sql::Settings;
use tokio_postgres::NoTls;

pub(crate) type Connector = NoTls;

pub(crate) fn connector(settings: &Settings) -> Result<Connector, Invalid> {
    match settings.tls {
        true => Err(Invalid::new("sslmode", "require", "this build has no TLS: switch on the feature `postgres-tls`")),
        false => Ok(NoTls),
    }
}
