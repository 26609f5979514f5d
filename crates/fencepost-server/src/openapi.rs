//! The description of the interface, from the handlers themselves.

use serde_json::Value;
use utoipa::OpenApi;

use crate::routes::{
    batches, elections, events, health, history, keys, locks, records, semaphores, store, whoami, windows,
};

#[derive(OpenApi)]
#[openapi(
    info(title = "Fencepost", description = "Distributed locks with a fencing token on every lock."),
    paths(
        locks::list,
        locks::inspect,
        locks::try_acquire,
        locks::acquire,
        locks::renew,
        locks::release,
        locks::force_release,
        locks::ask,
        locks::check,
        history::history,
        records::read,
        records::seal,
        records::put,
        semaphores::try_acquire,
        semaphores::acquire,
        semaphores::renew,
        semaphores::release,
        batches::try_acquire,
        batches::acquire,
        batches::renew,
        batches::release,
        elections::inspect,
        elections::campaign,
        elections::renew,
        elections::resign,
        elections::observe,
        windows::inspect,
        windows::start,
        windows::renew,
        windows::finish,
        keys::start,
        keys::renew,
        keys::finish,
        store::deadlocks,
        store::nodes,
        events::events,
        whoami::whoami,
        health::healthz,
        health::readyz,
        health::metrics,
    )
)]
struct Interface;

/// The interface as OpenAPI 3.1, in JSON.
///
/// # Panics
/// Never: what describes it is part of the program.
pub fn openapi() -> String {
    let mut described = serde_json::to_value(Interface::openapi()).expect("BUG: the description is plain data");
    let schemas = described["components"]["schemas"].clone();
    numbers(&mut described);
    let paths = described["paths"].as_object_mut().into_iter().flat_map(|paths| paths.values_mut());
    for operation in paths.flat_map(|path| path.as_object_mut()).flat_map(|path| path.values_mut()) {
        // A handler is called like its verb; all over the interface, a name must be its own.
        if let (Some(tag), Some(verb)) = (operation["tags"][0].as_str(), operation["operationId"].as_str()) {
            operation["operationId"] = format!("{tag}_{verb}").into();
        }
        problems(&mut operation["responses"]);
        // No body is an empty one: it is needed where a field of it is.
        let needed = described_by(&operation["requestBody"]["content"]["application/json"], &schemas)
            .is_some_and(|schema| schema.get("required").is_some());
        if let Some(body) = operation.get_mut("requestBody") {
            body["required"] = needed.into();
        }
    }
    format!("{described:#}\n")
}

/// Errors have a media type of their own.
fn problems(responses: &mut Value) {
    for response in responses.as_object_mut().into_iter().flat_map(|responses| responses.values_mut()) {
        let Some(content) = response.get_mut("content").and_then(Value::as_object_mut) else { continue };
        let is_problem =
            |content: &Value| content["schema"]["$ref"].as_str().is_some_and(|schema| schema.ends_with("/ProblemBody"));
        if content.get("application/json").is_some_and(is_problem)
            && let Some(problem) = content.remove("application/json")
        {
            content.insert("application/problem+json".into(), problem);
        }
    }
}

/// What a body is, if it is described elsewhere.
fn described_by<'a>(content: &Value, schemas: &'a Value) -> Option<&'a Value> {
    schemas.get(content["schema"]["$ref"].as_str()?.rsplit('/').next()?)
}

/// Our numbers have no sign; formats for those with one would cut them in half.
fn numbers(described: &mut Value) {
    match described {
        Value::Object(fields) => {
            let most = match fields.get("format").and_then(Value::as_str) {
                Some("int32") => u64::from(u32::MAX),
                Some("int64") => u64::MAX,
                _ => return fields.values_mut().for_each(numbers),
            };
            fields.remove("format");
            fields.entry("maximum").or_insert(most.into());
        }
        Value::Array(items) => items.iter_mut().for_each(numbers),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    #[test]
    fn every_operation_has_a_name_of_its_own() {
        let described: Value = serde_json::from_str(&super::openapi()).expect("JSON");
        let paths = described["paths"].as_object().expect("paths");
        let operations = paths.values().flat_map(|path| path.as_object().expect("operations").values());
        let names: Vec<&str> = operations.map(|operation| operation["operationId"].as_str().expect("a name")).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
        assert!(names.contains(&"locks_acquire"), "{names:?}");
    }
}
