//! Where the servers of a store are, so that a relay can stand before each.

/// A URL whose servers can be led through relays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// Up to the first server.
    head: String,
    /// Each with what stands before it, a user and a password perhaps.
    servers: Vec<(String, String)>,
    /// From the end of the last server.
    tail: String,
    /// The servers keep their names, and are reached elsewhere: clients of a quorum must mean the same servers, and
    /// certificates are for names.
    keeps_names: bool,
}

impl Place {
    /// Reads a URL.
    ///
    /// # Errors
    /// Why no relay can stand before this store.
    pub(super) fn read(url: &str) -> Result<Self, &'static str> {
        let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
        let port = port(scheme)?;
        let rest = rest.strip_prefix("//").ok_or("its URL names no server")?;
        let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
        let says = |is: &dyn Fn(&str) -> bool| query.is_some_and(|query| query.split('&').any(is));
        if says(&|pair| pair.starts_with("sslmode=") && pair != "sslmode=disable") {
            return Err(CERTIFIED);
        }
        if says(&|pair| pair.starts_with("via=") || pair.starts_with("next=")) {
            return Err("its URL names further servers, by via= or next=");
        }
        // A password may hold commas and slashes, except where each server may have one.
        let each = matches!(scheme, "redis" | "rediss" | "redlock" | "redlock+tls");
        let user = if each { None } else { place.rsplit_once('@').map(|(user, _)| user) };
        let hosts = user.map_or(place, |user| &place[user.len() + 1..]);
        let from = if each { hosts.rfind('@').unwrap_or(0) } else { 0 };
        let end = hosts[from..].find('/').map_or(hosts.len(), |slash| from + slash);
        let servers: Vec<(String, String)> = hosts[..end].split(',').map(|host| server(host, port)).collect();
        if servers.iter().any(|(_, address)| address.starts_with([':', '/', '%'])) {
            return Err("its URL names no server, but perhaps a socket");
        }
        let head = format!("{scheme}://{}", user.map(|user| format!("{user}@")).unwrap_or_default());
        let tail = format!("{}{}", &hosts[end..], query.map(|query| format!("?{query}")).unwrap_or_default());
        Ok(Self { head, servers, tail, keeps_names: each })
    }

    /// `HOST:PORT` of each server.
    pub(super) fn servers(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(|(_, address)| address.as_str())
    }

    /// The same store by way of these relays, one per server.
    pub(super) fn by_way_of(&self, relays: impl Iterator<Item = String>) -> String {
        let Self { head, servers, tail, keeps_names } = self;
        let joined = |servers: Vec<String>| servers.join(",");
        if *keeps_names {
            let servers = joined(servers.iter().map(|(user, address)| format!("{user}{address}")).collect());
            let mark = if tail.contains('?') { '&' } else { '?' };
            return format!("{head}{servers}{tail}{mark}via={}", joined(relays.collect()));
        }
        let servers = joined(servers.iter().zip(relays).map(|((user, _), relay)| format!("{user}{relay}")).collect());
        format!("{head}{servers}{tail}")
    }
}

const CERTIFIED: &str = "its servers prove who they are by TLS, and a relay could not";
const FOUND: &str = "its servers tell each other's addresses, which lead past a relay";

/// Where the servers of a scheme listen unless the URL says otherwise.
fn port(scheme: &str) -> Result<u16, &'static str> {
    match scheme {
        "redis" | "rediss" | "redlock" | "redlock+tls" => Ok(6379),
        "etcd" => Ok(2379),
        "zk" | "zookeeper" => Ok(2181),
        "postgres" | "postgresql" => Ok(5432),
        "mysql" | "mariadb" => Ok(3306),
        "fencepost+http" => Ok(7117),
        "sqlite" => Err("it is a file, and there is no connection to cut"),
        "redis+unix" => Err("it is reached by a socket of this machine, which no relay can stand before"),
        "redis+sentinel" | "rediss+sentinel" | "redis+cluster" | "rediss+cluster" => Err(FOUND),
        "etcd+tls" | "fencepost+https" => Err(CERTIFIED),
        _ => Err("nothing is known of how it is reached"),
    }
}

/// What stands before a server, and its `HOST:PORT`.
fn server(text: &str, port: u16) -> (String, String) {
    let at = text.rfind('@').map_or(0, |at| at + 1);
    let (user, host) = text.split_at(at);
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok() && !host.ends_with(']'));
    (user.to_owned(), if has_port { host.to_owned() } else { format!("{host}:{port}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_is_found_and_everything_around_it_kept() {
        for (url, servers, relayed) in [
            ("redis://h", vec!["h:6379"], "redis://h:6379?via=R0"),
            ("rediss://:p%40@h:1/3?prefix=a", vec!["h:1"], "rediss://:p%40@h:1/3?prefix=a&via=R0"),
            (
                "redlock://a,u:p@b:2,[::1]:3,[::1]",
                vec!["a:6379", "b:2", "[::1]:3", "[::1]:6379"],
                "redlock://a:6379,u:p@b:2,[::1]:3,[::1]:6379?via=R0,R1,R2,R3",
            ),
            ("etcd://u:a,b/c@x,y:9?prefix=p/q", vec!["x:2379", "y:9"], "etcd://u:a,b/c@R0,R1?prefix=p/q"),
            ("zk://a,b/jobs/x", vec!["a:2181", "b:2181"], "zk://R0,R1/jobs/x"),
            ("postgres://u@h/db", vec!["h:5432"], "postgres://u@R0/db"),
            ("mysql://u:p@h:33/db?sslmode=disable", vec!["h:33"], "mysql://u:p@R0/db?sslmode=disable"),
            ("fencepost+http://a,b:8", vec!["a:7117", "b:8"], "fencepost+http://R0,R1"),
        ] {
            let place = Place::read(url).unwrap_or_else(|why| panic!("{url}: {why}"));
            assert_eq!(place.servers().collect::<Vec<_>>(), servers, "{url}");
            assert_eq!(place.by_way_of((0..servers.len()).map(|number| format!("R{number}"))), relayed);
        }
    }

    #[test]
    fn a_store_that_no_relay_can_stand_before_says_why() {
        for (url, words) in [
            ("sqlite:/x", "a file"),
            ("redis+unix:///run/redis", "socket"),
            ("etcd+tls://h", "TLS"),
            ("redis://h?via=x", "via="),
            ("postgres://h/db?sslmode=require", "TLS"),
            ("postgres://%2Frun/db", "socket"),
            ("redis+cluster://a,b", "addresses"),
            ("carrier-pigeon://roof", "nothing is known"),
        ] {
            let why = Place::read(url).expect_err(url);
            assert!(why.contains(words), "{url}: {why}");
        }
    }
}
