//! Settings of the evaluations: those of an effort or a file, and what the suite has in place of them.

use super::suite::{SettingsFile, Written};
use hambo::adversary::SearchConfig;
use hambo::dynamics::BnnConfig;
use hambo::evaluate::Effort;
use hambo::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Settings of the networks.
pub fn networks(written: &Written, at: &str, file: &SettingsFile) -> Result<BnnConfig> {
    let base = match &file.model_config {
        Some(path) => {
            let path = written.path_of(path);
            let problem = |e: Error| written.problem(&format!("{at}.model_config"), e);
            let bytes = std::fs::read(&path).map_err(|e| problem(Error::io(&path, "read", e)))?;
            let found: BnnConfig = serde_json::from_slice(&bytes)
                .map_err(|e| problem(Error::file(&path, e.to_string())))?;
            found.validate().map_err(problem)?;
            found
        }
        None => effort(written, at, file)?.networks(),
    };
    overlaid(written, &format!("{at}.model"), base, file.model.as_ref(), BnnConfig::validate)
}

/// Settings of the search for adversaries.
pub fn search(written: &Written, at: &str, file: &SettingsFile) -> Result<SearchConfig> {
    let base = effort(written, at, file)?.search();
    overlaid(written, &format!("{at}.search"), base, file.search.as_ref(), SearchConfig::validate)
}

fn effort(written: &Written, at: &str, file: &SettingsFile) -> Result<Effort> {
    match file.effort.as_deref() {
        None | Some("standard") => Ok(Effort::Standard),
        Some("quick") => Ok(Effort::Quick),
        Some("best") => Ok(Effort::Best),
        Some(other) => {
            let problem = format!("{other}: expected quick, standard or best");
            Err(written.problem(&format!("{at}.effort"), problem))
        }
    }
}

/// Settings with those of a table in place of their own.
fn overlaid<T: Serialize + DeserializeOwned>(
    written: &Written,
    at: &str,
    base: T,
    table: Option<&toml::Table>,
    validate: fn(&T) -> Result<()>,
) -> Result<T> {
    let Some(table) = table else { return Ok(base) };
    let mut settings = json!(base);
    merge(&mut settings, &json!(table));
    let found: T = serde_json::from_value(settings).map_err(|e| written.problem(at, e))?;
    validate(&found).map_err(|e| written.problem(at, e))?;
    Ok(found)
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}
