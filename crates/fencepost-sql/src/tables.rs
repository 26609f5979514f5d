//! Names of tables: chosen by the user, quoted by us.

use fencepost_core::Invalid;
use fencepost_core::store::StoreErrorKind;

use crate::database::Failure;

/// The version of the tables that this program knows.
const SCHEMA_VERSION: i64 = 2;

/// Longer names are cut off by PostgreSQL, at 63 bytes; the longest ending of ours has 8.
const PREFIX_BYTES_MAX: usize = 50;
const SCHEMA_BYTES_MAX: usize = 63;

/// The names of our tables, quoted, as they go into statements.
#[derive(Clone, Debug)]
pub struct Tables {
    quote: char,
    schema: Option<String>,
    prefix: String,
}

impl Tables {
    /// Checks the names. `quote` is what the dialect puts around them.
    ///
    /// # Errors
    /// A name that is empty, too long, or has control characters.
    pub fn new(quote: char, schema: Option<&str>, prefix: &str) -> Result<Self, Invalid> {
        if let Some(schema) = schema {
            checked("schema", schema, SCHEMA_BYTES_MAX)?;
        }
        checked("tables", prefix, PREFIX_BYTES_MAX)?;
        Ok(Self { quote, schema: schema.map(str::to_owned), prefix: prefix.to_owned() })
    }

    /// The schema, quoted.
    pub fn schema(&self) -> Option<String> {
        self.schema.as_deref().map(|schema| self.quoted(schema))
    }

    /// Puts the names into a statement that has `{locks}`, `{holders}`, `{waiters}`, `{revoked}`, `{records}` or `{meta}` where they
    /// belong.
    pub fn fill(&self, statement: &str) -> String {
        let mut filled = String::with_capacity(statement.len() + 64);
        let mut rest = statement;
        while let Some((before, after)) = rest.split_once('{') {
            let (ending, after) = after.split_once('}').expect("BUG: every brace of ours is closed");
            filled.push_str(before);
            filled.push_str(&self.table(ending));
            rest = after;
        }
        filled + rest
    }

    fn table(&self, ending: &str) -> String {
        let table = self.quoted(&format!("{}_{ending}", self.prefix));
        self.schema().map_or(table.clone(), |schema| format!("{schema}.{table}"))
    }

    fn quoted(&self, name: &str) -> String {
        let quote = self.quote;
        format!("{quote}{}{quote}", name.replace(quote, &format!("{quote}{quote}")))
    }
}

/// Which tables are there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// None, or not all of them.
    Missing,
    /// Those of version 1, which can be brought up to ours.
    One,
    /// Ours.
    Ours,
}

impl Version {
    /// What the table of versions says.
    ///
    /// # Errors
    /// Tables that this program does not know.
    pub fn of(found: Option<i64>) -> Result<Self, Failure> {
        match found {
            None => Ok(Self::Missing),
            Some(1) => Ok(Self::One),
            Some(SCHEMA_VERSION) => Ok(Self::Ours),
            Some(other) => Err(Failure::new(
                StoreErrorKind::Misconfigured,
                format!("the tables have version {other}, and this program knows {SCHEMA_VERSION}"),
                "update this program, or give it tables of its own with `tables` in the URL",
            )),
        }
    }
}

/// What the table of versions says must be what we work with.
///
/// # Errors
/// Tables of another version, with the cure.
pub fn check_version(found: Option<i64>) -> Result<(), Failure> {
    let (what, cure) = match Version::of(found)? {
        Version::Ours => return Ok(()),
        Version::One => (
            format!("the tables have version 1, and this program works with {SCHEMA_VERSION}"),
            "bring them up to date with `fencepost init`; programs that know only version 1 stop working then",
        ),
        Version::Missing => ("the table of versions is empty".to_owned(), "create the tables with `fencepost init`"),
    };
    Err(Failure::new(StoreErrorKind::Misconfigured, what, cure))
}

fn checked(field: &'static str, name: &str, bytes_max: usize) -> Result<(), Invalid> {
    if name.is_empty() || name.len() > bytes_max {
        return Err(Invalid::new(field, name, format!("a name of 1 to {bytes_max} bytes")));
    }
    match name.chars().find(|c| c.is_control()) {
        Some(c) => Err(Invalid::new(field, name, format!("take out the control character U+{:04X}", u32::from(c)))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_and_a_quote_in_them_is_doubled() {
        let tables = Tables::new('"', Some("a\"b"), "x\"; DROP TABLE y; --").expect("odd, but a name");
        assert_eq!(tables.fill("SELECT 1 FROM {locks}"), r#"SELECT 1 FROM "a""b"."x""; DROP TABLE y; --_locks""#);
        let tables = Tables::new('`', None, "fp{locks}").expect("odd, but a name");
        assert_eq!(tables.fill("{holders}, {waiters}"), "`fp{locks}_holders`, `fp{locks}_waiters`");
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        for bad in ["", "a\0b", "a\nb", &"x".repeat(51)] {
            assert_eq!(Tables::new('"', None, bad).expect_err("refused").field, "tables");
        }
        assert_eq!(Tables::new('"', Some(&"x".repeat(64)), "fp").expect_err("refused").field, "schema");
    }
}
