//! The file that says who may do what.
//!
//! ```toml
//! [[key]]
//! principal = "orders"
//! sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
//! allow = ["acquire:orders/", "observe:orders/"]
//!
//! [[certificate]]
//! principal = "billing"
//! san = "billing.internal"
//! allow = ["acquire:billing/"]
//! ```
//!
//! A principal may have several keys, each with rights of its own: add the new one, move the clients, take out the old.

use serde::Deserialize;
use subtle::ConditionallySelectable;

use super::key::KeyDigest;
use super::scope::{Principal, Scope};
use crate::hidden::without_quotes;

/// The longest name of a principal, in bytes.
const PRINCIPAL_BYTES_MAX: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    key: Vec<KeyEntry>,
    #[serde(default)]
    certificate: Vec<CertificateEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyEntry {
    principal: String,
    sha256: String,
    allow: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CertificateEntry {
    principal: String,
    san: String,
    allow: Vec<String>,
}

/// The entry of a key, as it stands in the file.
pub fn key_entry(principal: &str, digest: &KeyDigest, scopes: &[Scope]) -> Result<String, String> {
    checked_principal(principal)?;
    // A JSON string is a TOML string too.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let allow: Vec<String> = scopes.iter().map(|scope| quoted(&scope.to_string())).collect();
    let (principal, allow) = (quoted(principal), allow.join(", "));
    Ok(format!("[[key]]\nprincipal = {principal}\nsha256 = \"{digest}\"\nallow = [{allow}]\n"))
}

/// All credentials that are good now.
#[derive(Debug)]
pub struct Credentials {
    keys: Vec<(KeyDigest, Principal)>,
    certificates: Vec<(String, Principal)>,
}

impl Credentials {
    /// Reads the file. An error names the entry and the cure, and repeats no secret.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| unread(text, &error))?;
        if file.key.is_empty() && file.certificate.is_empty() {
            return Err("it has no entry: add a [[key]], which `fencepost key` makes, or a [[certificate]]".into());
        }
        let mut keys: Vec<(KeyDigest, Principal)> = Vec::new();
        for (number, entry) in (1..).zip(&file.key) {
            let of_entry = |why: String| format!("[[key]] number {number}: {why}");
            let digest: KeyDigest = entry.sha256.parse().map_err(of_entry)?;
            if keys.iter().any(|(known, _)| *known == digest) {
                return Err(of_entry("the same sha256 twice: give every entry a key of its own".into()));
            }
            // While a key is changed for another, both stand for the first.
            let first = keys.iter().find(|(_, known)| **known.name() == *entry.principal).map(|(first, _)| *first);
            let principal = principal(&entry.principal, &entry.allow).map_err(of_entry)?;
            keys.push((digest, principal.knowing(first.or(Some(digest)))));
        }
        let mut certificates: Vec<(String, Principal)> = Vec::new();
        for (number, entry) in (1..).zip(&file.certificate) {
            let of_entry = |why: String| format!("[[certificate]] number {number}: {why}");
            if entry.san.is_empty() || certificates.iter().any(|(known, _)| *known == entry.san) {
                return Err(of_entry(format!("san {:?}: one name per entry, and no name twice", entry.san)));
            }
            let principal = principal(&entry.principal, &entry.allow).map_err(of_entry)?;
            certificates.push((entry.san.clone(), principal));
        }
        Ok(Self { keys, certificates })
    }

    /// Whose key this is. It looks at all of them, always, and takes the same time for each.
    pub(crate) fn by_key(&self, shown: &[u8]) -> Option<Principal> {
        let shown = KeyDigest::of(shown);
        let mut found = 0u64;
        for (place, (digest, _)) in (1..).zip(&self.keys) {
            found.conditional_assign(&place, digest.equals(&shown));
        }
        let place = usize::try_from(found).ok()?.checked_sub(1)?;
        self.keys.get(place).map(|(_, principal)| principal.clone())
    }

    /// Whose certificate this is, by the names in it. Several entries for one certificate: the first in the file.
    pub(crate) fn by_names(&self, names: &[String]) -> Option<Principal> {
        self.certificates.iter().find(|(san, _)| names.contains(san)).map(|(_, principal)| principal.clone())
    }
}

fn unread(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.as_bytes().get(..span.start));
    let line = before.map(|before| 1 + before.iter().filter(|byte| **byte == b'\n').count());
    let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
    format!("{line}{}", without_quotes(error.message()))
}

fn principal(name: &str, allow: &[String]) -> Result<Principal, String> {
    checked_principal(name)?;
    let scopes = allow.iter().map(|scope| scope.parse()).collect::<Result<Vec<Scope>, String>>()?;
    Ok(Principal::new(name, scopes))
}

fn checked_principal(name: &str) -> Result<(), String> {
    let fits = !name.is_empty() && name.len() <= PRINCIPAL_BYTES_MAX && !name.chars().any(char::is_control);
    fits.then_some(())
        .ok_or_else(|| format!("principal {name:?}: use 1 to {PRINCIPAL_BYTES_MAX} bytes without control characters"))
}

#[cfg(test)]
mod tests {
    use super::super::key::ApiKey;
    use super::super::scope::Verb;
    use super::*;

    fn scopes(texts: &[&str]) -> Vec<Scope> {
        texts.iter().map(|text| text.parse().expect("a scope")).collect()
    }

    #[test]
    fn a_principal_may_have_two_keys_while_clients_move() {
        let keys = [(); 3].map(|()| ApiKey::random().expect("random"));
        let entries = [
            key_entry("orders", &keys[0].digest(), &scopes(&["acquire:orders/"])),
            key_entry("orders", &keys[1].digest(), &scopes(&["acquire:orders/", "observe:*"])),
            key_entry("a \"name\" with\\ all", &keys[2].digest(), &[]),
        ];
        let text = entries.map(|entry| entry.expect("an entry")).join("\n");
        let credentials = Credentials::parse(&text).expect("a file");
        let who = |key: &ApiKey| credentials.by_key(key.expose().as_bytes()).expect("known");
        assert_eq!((&**who(&keys[0]).name(), &**who(&keys[1]).name()), ("orders", "orders"));
        assert!(who(&keys[1]).may(Verb::Observe, "x") && !who(&keys[0]).may(Verb::Observe, "x"));
        assert_eq!(&**who(&keys[2]).name(), "a \"name\" with\\ all");
        for stranger in [&b""[..], b"fpk_", keys[0].digest().to_string().as_bytes(), b"\xff"] {
            assert_eq!(credentials.by_key(stranger), None);
        }
    }

    #[test]
    fn a_certificate_is_known_by_a_name_in_it() {
        let text = "[[certificate]]\nprincipal = 'b'\nsan = 'b.internal'\nallow = ['acquire:b/']\n";
        let credentials = Credentials::parse(text).expect("a file");
        assert_eq!(&**credentials.by_names(&["x".into(), "b.internal".into()]).expect("known").name(), "b");
        assert_eq!(credentials.by_names(&["internal".into(), "B.internal".into(), String::new()]), None);
    }

    #[test]
    fn a_broken_file_says_where_and_repeats_no_secret() {
        let secret = "fpk_canary";
        let digest = KeyDigest::of(b"x");
        let twice = key_entry("p", &digest, &[]).expect("an entry").repeat(2);
        for (text, says) in [
            ("", "no entry"),
            (&format!("\n[[key]]\nsha256 = {secret}"), "line 3"),
            (&format!("[[key]]\nprincipal='p'\nsha256='{secret}'\nallow=[]"), "[[key]] number 1: sha256 has 64"),
            (&format!("[[key]]\nprincipal='p'\nkey='{secret}'\nallow=[]"), "line 3: unknown field `key`"),
            (&format!("[[key]]\nprincipal='p'\nsha256='{digest}'\nallow='{secret}'"), "line 4: invalid type"),
            (&format!("[[key]]\nprincipal='p'\nsha256='{digest}'\nallow=['grab:x']"), "the verbs are"),
            (&format!("[[key]]\nprincipal=''\nsha256='{digest}'\nallow=[]"), "principal"),
            (&twice, "number 2: the same sha256 twice"),
            ("[[certificate]]\nprincipal='p'\nsan=''\nallow=[]", "[[certificate]] number 1"),
        ] {
            let why = Credentials::parse(text).expect_err("refused");
            assert!(why.contains(says), "{why:?} should say {says:?}");
            assert!(!why.contains(secret), "{why:?}");
        }
    }
}
