//! Field selectors: `metadata.name=x,status.phase!=Running`, with `\` before `\`, `,` and `=` in values.

use std::fmt;

use super::Error;

/// What fields must be like. All requirements hold at once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldSelector(Vec<FieldRequirement>);

/// What one field must be like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldRequirement {
    pub field: String,
    /// Whether the field must differ from the value.
    pub differs: bool,
    pub value: String,
}

impl FieldSelector {
    /// Selects every object.
    pub fn everything() -> Self {
        FieldSelector::default()
    }

    /// Selects one object by its name.
    pub fn by_name(name: &str) -> Self {
        let field = "metadata.name".to_owned();
        FieldSelector(vec![FieldRequirement { field, differs: false, value: name.to_owned() }])
    }

    /// Parses the `fieldSelector` of a query. Which fields there are, [`FieldSelector::convert`] tells.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut terms = split_terms(text);
        // Sorted, so that of several faults the same one is reported.
        terms.sort_unstable();
        let requirements = terms.into_iter().filter(|term| !term.is_empty()).map(|term| {
            let (field, differs, value) = split_term(term)
                .ok_or_else(|| Error(format!("invalid selector: '{text}'; can't understand '{term}'")))?;
            Ok(FieldRequirement { field: field.to_owned(), differs, value: unescape(value)? })
        });
        let mut requirements = requirements.collect::<Result<Vec<_>, Error>>()?;
        // A requirement that is empty on both sides is none.
        requirements.retain(|one| !(one.field.is_empty() && one.value.is_empty()));
        Ok(FieldSelector(requirements))
    }

    /// Replaces each field by the one the kind keeps it under, or refuses it.
    ///
    /// [`super::field_label`] and [`super::CustomFields::label`] are such conversions.
    pub fn convert(self, to: impl Fn(&str) -> Result<String, Error>) -> Result<Self, Error> {
        let converted = self.0.into_iter().map(|requirement| {
            let field = to(&requirement.field)?;
            Ok(FieldRequirement { field, ..requirement })
        });
        Ok(FieldSelector(converted.collect::<Result<_, Error>>()?))
    }

    /// Whether the fields that `get` knows satisfy all requirements; an absent field is empty.
    pub fn matches(&self, get: impl Fn(&str) -> Option<String>) -> bool {
        self.0.iter().all(|one| (get(&one.field).unwrap_or_default() == one.value) != one.differs)
    }

    /// Whether this selects everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value that a field must have, if it must have one.
    pub fn exact(&self, field: &str) -> Option<&str> {
        let found = self.0.iter().find(|one| !one.differs && one.field == field);
        found.map(|one| one.value.as_str())
    }

    /// The requirements, in their canonical order.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.0
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, FieldRequirement { field, differs, value }) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let operator = if *differs { "!=" } else { "=" };
            let value = value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
            write!(f, "{comma}{field}{operator}{value}")?;
        }
        Ok(())
    }
}

/// Splits at commas that no backslash precedes.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    term.char_indices().find_map(|(at, _)| {
        let (field, rest) = term.split_at(at);
        if let Some(value) = rest.strip_prefix("!=") {
            return Some((field, true, value));
        }
        let value = rest.strip_prefix("==").or_else(|| rest.strip_prefix('='))?;
        Some((field, false, value))
    })
}

fn unescape(value: &str) -> Result<String, Error> {
    let mut text = String::with_capacity(value.len());
    let mut rest = value.chars();
    while let Some(next) = rest.next() {
        match next {
            '\\' => match rest.next() {
                Some(special @ ('\\' | ',' | '=')) => text.push(special),
                other => {
                    let other = other.map(String::from).unwrap_or_default();
                    return Err(Error(format!("invalid field selector: invalid escape sequence: \\{other}")));
                }
            },
            // The number is how the real server shows the character.
            ',' | '=' => {
                let code = u32::from(next);
                return Err(Error(format!("invalid field selector: unescaped character in value: {code}")));
            }
            plain => text.push(plain),
        }
    }
    Ok(text)
}
