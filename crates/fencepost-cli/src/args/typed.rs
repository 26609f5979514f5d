//! Values as somebody typed them, so that an error shows what its reader looks for.

use std::collections::BTreeMap;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use fencepost::Invalid;

/// The values on the command line, by flag.
#[derive(Clone, Default, Debug)]
pub(crate) struct Typed(BTreeMap<String, String>);

impl Typed {
    pub(super) fn of(grammar: &Command, found: &ArgMatches) -> Self {
        let Some((name, verb)) = found.subcommand() else { return Self::default() };
        let options = grammar.find_subcommand(name).into_iter().flat_map(Command::get_arguments);
        let text = |option: &Arg| {
            let (id, flag) = (option.get_id().as_str(), option.get_long()?);
            let raw = verb.try_get_raw(id).ok()??.next_back()?;
            let is_typed = verb.value_source(id) == Some(ValueSource::CommandLine);
            is_typed.then(|| Some((format!("--{flag}"), raw.to_str()?.to_owned())))?
        };
        Self(options.filter_map(text).collect())
    }

    /// An error about a flag with the value as it was typed: `999d`, where the program counts in seconds.
    pub(crate) fn restore(&self, mut invalid: Invalid) -> Invalid {
        let flag = format!("--{}", invalid.field.trim_start_matches("--"));
        if let Some(typed) = self.0.get(&flag) {
            invalid = Invalid::new(invalid.field, typed, invalid.cure);
        }
        invalid
    }
}
