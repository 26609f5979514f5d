//! The description of the interface, from the handlers themselves.

use utoipa::OpenApi;

use crate::routes::{batches, elections, events, health, locks, records, semaphores, store};

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
        store::deadlocks,
        store::nodes,
        events::events,
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
    let paths = described["paths"].as_object_mut().into_iter().flat_map(|paths| paths.values_mut());
    for operation in paths.flat_map(|path| path.as_object_mut()).flat_map(|path| path.values_mut()) {
        // A handler is called like its verb; all over the interface, a name must be its own.
        if let (Some(tag), Some(verb)) = (operation["tags"][0].as_str(), operation["operationId"].as_str()) {
            operation["operationId"] = format!("{tag}_{verb}").into();
        }
    }
    format!("{described:#}\n")
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
