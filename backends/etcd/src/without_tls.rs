//! TLS, in a build without it: said when it is asked for.

use fencepost_core::Invalid;
use tonic::transport::Endpoint;

use crate::url::Settings;

pub(crate) fn dress(endpoint: Endpoint, settings: &Settings, server: &str) -> Result<Endpoint, Invalid> {
    if settings.tls {
        return Err(Invalid::new(
            "store",
            server,
            "this build has no TLS for etcd: build it with the feature etcd-tls",
        ));
    }
    Ok(endpoint)
}
