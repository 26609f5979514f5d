//! From where to where: what two URLs say, checked before any server is asked.

use fencepost_core::Invalid;

use crate::sets;
use crate::url::Config;

/// The two sets, and the one between them.
pub(super) struct Plan {
    pub(super) old: Config,
    pub(super) new: Config,
    pub(super) both: Config,
    pub(super) names: Names,
    /// For clients of both sets, and of the new one. Without credentials.
    pub(super) both_url: String,
    pub(super) new_url: String,
}

/// What the three sets are called in markers.
pub(super) struct Names {
    pub(super) old: String,
    pub(super) new: String,
    pub(super) both: String,
}

impl Plan {
    /// Reads the URLs, `SCHEME:REST` both.
    pub(super) fn new(from: (&str, &str), to: (&str, &str)) -> Result<Self, Invalid> {
        for (field, (scheme, rest)) in [("from", from), ("to", to)] {
            if !matches!(scheme, "redlock" | "redlock+tls") {
                let cure = "only servers that vote are replaced set by set: redlock://A,B,C";
                return Err(Invalid::new(field, format!("{scheme}:…"), cure));
            }
            let settings = rest.split_once('?').map_or("", |(_, settings)| settings);
            if settings.split('&').any(|setting| setting.starts_with("next=")) {
                return Err(Invalid::new(field, "…next=…", "name each set by a URL of its own, without next"));
            }
        }
        if from.0 != to.0 {
            return Err(Invalid::new("to", format!("{}:…", to.0), format!("both need the same scheme, {}:", from.0)));
        }
        let (old, new) = (Config::parse(from.0, from.1)?, Config::parse(to.0, to.1)?);
        if old.max_ttl != new.max_ttl {
            let (value, other) = (new.max_ttl.as_millis().to_string(), old.max_ttl.as_millis());
            let cure = format!("it is part of what a set is, and {other} in --from: give both URLs the same");
            return Err(Invalid::new("max_ttl_ms", value, cure));
        }
        if old.prefix != new.prefix {
            let cure = format!("with another prefix it is other locks: {:?} is that of --from", old.prefix);
            return Err(Invalid::new("prefix", new.prefix, cure));
        }
        if old.nodes[0].database != new.nodes[0].database {
            let cure = format!("in another database it is other locks: {} is that of --from", old.nodes[0].database);
            return Err(Invalid::new("db", new.nodes[0].database.to_string(), cure));
        }
        let hosts = hosts(to.1);
        let joint =
            |rest: &str, hosts: &str| format!("{rest}{}next={hosts}", if rest.contains('?') { '&' } else { '?' });
        let both = Config::parse(from.0, &joint(from.1, hosts))?;
        let names =
            Names { old: sets::fingerprint(&old), new: sets::fingerprint(&new), both: sets::fingerprint(&both) };
        if names.old == names.new {
            return Err(Invalid::new(
                "to",
                redacted(hosts),
                "it names the same servers as --from: there is nothing to do",
            ));
        }
        let open = |rest: &str| rest.replacen(self::hosts(rest), &redacted(self::hosts(rest)), 1);
        let both_url = format!("{}:{}", from.0, joint(&open(from.1), &redacted(hosts)));
        let new_url = format!("{}:{}", to.0, open(to.1));
        Ok(Self { old, new, both, names, both_url, new_url })
    }

    /// Who is said to be gone is one of the old servers, and none of the new.
    pub(super) fn check_gone(&self, gone: &[String]) -> Result<(), Invalid> {
        let names =
            |config: &Config, label: &String| config.nodes.iter().any(|node| node.address.to_string() == *label);
        match gone.iter().find(|label| !names(&self.old, label) || names(&self.new, label)) {
            Some(label) => {
                Err(Invalid::new("gone", label, "name a server of --from that is not in --to, as HOST:PORT"))
            }
            None => Ok(()),
        }
    }

    /// What is odd, but no reason to stop.
    pub(super) fn warnings(&self) -> Vec<String> {
        let count = self.new.nodes.len();
        let even = count.is_multiple_of(2).then(|| {
            format!("--to names {count} servers, which bear no more failures than {}: name an odd number", count - 1)
        });
        even.into_iter().collect()
    }
}

/// The servers of a URL, with their credentials.
fn hosts(rest: &str) -> &str {
    rest.trim_start_matches('/').split(['/', '?']).next().unwrap_or_default()
}

/// Without credentials.
fn redacted(hosts: &str) -> String {
    let open = |host: &str| host.rsplit_once('@').map_or_else(|| host.to_owned(), |(_, host)| format!("…@{host}"));
    hosts.split(',').map(open).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(from: &str, to: &str) -> Result<Plan, Invalid> {
        let parts = |url: &'static str| url.split_once(':').expect("a scheme");
        Plan::new(parts(String::leak(from.to_owned())), parts(String::leak(to.to_owned())))
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_field_value_and_cure() {
        for (from, to, field, value, cure) in [
            ("redlock://a,b,c", "redlock://c,a,b", "to", "c,a,b", "nothing to do"),
            ("redis://a", "redlock://a,b,c", "from", "redis:…", "redlock://A,B,C"),
            ("redlock://a", "redis+sentinel://a,b,c/m", "to", "redis+sentinel:…", "redlock://A,B,C"),
            ("redlock://a", "redis+cluster://a", "to", "redis+cluster:…", "redlock://A,B,C"),
            ("redlock://a", "redlock+tls://b", "to", "redlock+tls:…", "same scheme"),
            ("redlock://a?next=b", "redlock://b", "from", "…next=…", "without next"),
            ("redlock://a?max_ttl_ms=1000", "redlock://b?max_ttl_ms=2000", "max_ttl_ms", "2000", "1000 in --from"),
            ("redlock://a", "redlock://b?prefix=other:", "prefix", "other:", "\"lock:\""),
            ("redlock://a?db=1", "redlock://b?db=2", "db", "2", "1 is that of --from"),
            ("redlock://a,b,c", "redlock://a,b,b", "store", "redlock:…", "listed twice"),
        ] {
            let error = plan(from, to).err().unwrap_or_else(|| panic!("{from} {to}"));
            let text = error.to_string();
            assert!(error.field == field && error.value == value && text.contains(cure), "{from} {to}: {text}");
        }
    }

    #[test]
    fn urls_to_give_to_clients_have_no_password() {
        let plan = plan("redlock://:secret@a:1,b:2?db=3", "redlock://u:secret@c:1,b:2?db=3").expect("fits");
        assert_eq!(plan.both_url, "redlock://…@a:1,b:2?db=3&next=…@c:1,b:2");
        assert_eq!(plan.new_url, "redlock://…@c:1,b:2?db=3");
        assert_eq!(plan.both.sets, [vec![0, 1], vec![2, 1]]);
    }

    #[test]
    fn only_servers_that_are_left_may_be_gone() {
        let plan = plan("redlock://a:1,b:2", "redlock://b:2,c:3").expect("fits");
        assert!(plan.check_gone(&["a:1".into()]).is_ok());
        for label in ["b:2", "c:3", "a"] {
            assert_eq!(plan.check_gone(&[label.into()]).expect_err(label).value, label);
        }
    }

    #[test]
    fn an_even_number_is_worth_a_word() {
        assert!(
            plan("redlock://a,b,c", "redlock://a,b,c,d").expect("fits").warnings()[0]
                .contains("no more failures than 3")
        );
        assert_eq!(plan("redlock://a,b,c", "redlock://a,b,d").expect("fits").warnings(), Vec::<String>::new());
    }
}
