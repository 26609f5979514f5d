//! What error replies mean.

use fencepost_core::store::{StoreErrorKind, Trouble};

pub(crate) const IS_REPLICA: &str = "it is a replica: name a master";
const PASSWORD_CURE: &str = "set ?password_file=, FENCEPOST_REDIS_PASSWORD or redis://USER:PASSWORD@HOST";
const RIGHTS_CURE: &str = "an ACL user needs scripts, INFO, the keys of the prefix and `fp:*`, the channels `fp:inbox:*`, or `redisson_lock__channel:*` with `layout=redisson`; with `replicas` also WAIT";

/// What an error reply means.
pub(crate) fn trouble(text: &str) -> Trouble {
    let code = text.split(' ').next().unwrap_or_default();
    let kind = match code {
        "WRONGTYPE" => StoreErrorKind::OtherKind,
        "DEAF" => StoreErrorKind::Unsupported,
        "NOAUTH" | "NOPERM" | "WRONGPASS" => StoreErrorKind::Denied,
        "READONLY" | "MOVED" | "CROSSSLOT" => StoreErrorKind::Misconfigured,
        "LOADING" | "BUSY" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" => StoreErrorKind::Unreachable,
        // It takes no writes for now: its disk is full, its memory is, or it has too few replicas. Nothing was done.
        "MISCONF" | "OOM" | "NOREPLICAS" => StoreErrorKind::Unreachable,
        _ if text.contains("-MISCONF") || text.contains("-OOM") => StoreErrorKind::Unreachable,
        _ if text.contains("max number of clients") => StoreErrorKind::Unreachable,
        _ if text.contains("WRONGTYPE") => StoreErrorKind::OtherKind,
        _ if text.contains("READONLY") => StoreErrorKind::Misconfigured,
        _ if text.contains("NOPERM") || text.contains("no permissions") => StoreErrorKind::Denied,
        _ => StoreErrorKind::Unexpected,
    };
    let message = match (&kind, code) {
        (StoreErrorKind::OtherKind, _) => {
            "the key is taken by something else than a lock of this layout; Redisson's locks \
                                           are those of ?layout=redisson, all others are not"
                .to_owned()
        }
        (_, "DEAF") => format!("it is held by Redisson {}, which cannot be asked: force it, or wait", &text[5..]),
        (_, "MOVED" | "CROSSSLOT") => "it is a node of a cluster: such a URL is redis+cluster://HOST:PORT".to_owned(),
        (StoreErrorKind::Misconfigured, _) => IS_REPLICA.to_owned(),
        (StoreErrorKind::Denied, "NOAUTH") => format!("it requires a password: {PASSWORD_CURE}"),
        (StoreErrorKind::Denied, "WRONGPASS") => format!("it does not know this user and password: {PASSWORD_CURE}"),
        (StoreErrorKind::Denied, _) => format!("{text}: {RIGHTS_CURE}"),
        _ => text.to_owned(),
    };
    Trouble::new(kind, message)
}
