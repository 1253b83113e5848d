//! The query of a request: typed access to the options that Kubernetes knows.

use crate::status::{Error, Result};

/// A parsed query string; of a key given twice the first counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

/// How unknown and duplicate fields are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

impl Query {
    pub(crate) fn parse(query: Option<&str>) -> Self {
        let pairs = form_urlencoded::parse(query.unwrap_or("").as_bytes());
        Query(pairs.map(|(key, value)| (key.into_owned(), value.into_owned())).collect())
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// The value, or nothing when it is absent or empty.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.get(key).filter(|value| !value.is_empty())
    }

    /// Kubernetes takes any value but `false`, however it is written, and `0` for yes, an empty one too.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.switch(key).unwrap_or(false)
    }

    /// The same where not to say anything means something else than no.
    pub(crate) fn switch(&self, key: &str) -> Option<bool> {
        self.get(key).map(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    pub(crate) fn number(&self, key: &str) -> Result<Option<i64>> {
        match self.text(key) {
            None => Ok(None),
            Some(value) => value.parse().map(Some).map_err(|_| {
                Error::bad_request(format!("strconv.ParseInt: parsing {value:?}: invalid syntax"))
            }),
        }
    }

    /// `dryRun=All`, the only value there is. `options` is how messages call the options of the request.
    pub(crate) fn dry_run(&self, options: &str) -> Result<bool> {
        let given: Vec<&str> = self.all("dryRun").filter(|value| !value.is_empty()).collect();
        if given.iter().all(|value| *value == "All") {
            return Ok(!given.is_empty());
        }
        Err(unsupported(options, "dryRun", serde_json::json!(given), &["All"]))
    }

    pub(crate) fn field_validation(&self, options: &str) -> Result<FieldValidation> {
        match self.text("fieldValidation") {
            None | Some("Warn") => Ok(FieldValidation::Warn),
            Some("Ignore") => Ok(FieldValidation::Ignore),
            Some("Strict") => Ok(FieldValidation::Strict),
            Some(other) => {
                Err(unsupported(options, "fieldValidation", other.into(), &["", "Ignore", "Strict", "Warn"]))
            }
        }
    }
}

fn unsupported(options: &str, field: &str, given: serde_json::Value, supported: &[&str]) -> Error {
    let path = crate::field::Path::new(field);
    let errors = [crate::field::Error::not_supported(&path, given, supported)];
    Error::invalid("meta.k8s.io", options, "", &errors)
}
