//! `fencepost config`: each setting, and where it comes from.

use serde::Serialize;

use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::table;
use crate::settings::Settings;

#[derive(Serialize)]
struct Listing {
    settings: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    key: &'static str,
    value: Option<String>,
    source: String,
}

pub(crate) fn config(settings: &Settings) -> Result<ExitCode, Failure> {
    let config = &settings.config;
    let (label, label_source) = match &config.label {
        Some(label) => (Some(label.value.clone()), label.source.to_string()),
        None => (None, "default".into()),
    };
    let records_source = config.records.as_ref().map_or("default".into(), |records| records.source.to_string());
    let ttl = humantime::format_duration(config.ttl.value).to_string();
    let rows = vec![
        Row { key: "store", value: Some(config.store_redacted()), source: config.store.source.to_string() },
        Row { key: "records", value: config.records_redacted(), source: records_source },
        Row { key: "label", value: label, source: label_source },
        Row { key: "ttl", value: Some(ttl), source: config.ttl.source.to_string() },
    ];
    let text = table(&["KEY", "VALUE", "SOURCE"], rows.iter().map(Row::cells).collect());
    settings.output.answer(Listing { settings: rows }, || text)?;
    Ok(ExitCode::DONE)
}

impl Row {
    fn cells(&self) -> Vec<String> {
        let unset = if self.key == "records" { "in the store" } else { "host:pid" };
        let value = self.value.clone().unwrap_or_else(|| unset.into());
        vec![self.key.into(), value, self.source.clone()]
    }
}
