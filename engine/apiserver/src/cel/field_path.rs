//! Paths such as `.spec.names['a.b']`, which tell where a rule's failure is shown.

use super::schema::Schema;
use crate::field::Path;

/// The path as messages show it; `None` when it leads nowhere.
pub(super) fn normalized(written: &str, schema: &Schema) -> Option<String> {
    let mut rest = written;
    let mut path = Path::root();
    let mut schema = schema;
    while !rest.is_empty() {
        let name;
        (name, rest) = step(rest)?;
        let (below, named) = match (&schema.properties, &schema.additional) {
            (Some(properties), _) => (properties.get(&name)?, true),
            (None, Some(values)) => (values, false),
            (None, None) => return None,
        };
        path = if named { path.child(&name) } else { path.key(&name) };
        schema = below;
    }
    Some(path.as_str().to_owned())
}

/// The first step of a path, and what follows it.
fn step(path: &str) -> Option<(String, &str)> {
    if let Some(rest) = path.strip_prefix('.') {
        let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        return (!name.is_empty()).then(|| (name.to_owned(), rest));
    }
    let rest = path.strip_prefix("['")?;
    let mut name = String::new();
    let mut letters = rest.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\'' => return rest[at + 1..].strip_prefix(']').map(|rest| (name, rest)),
            '\\' => name.push(match letters.next()?.1 {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                letter @ ('\'' | '\\') => letter,
                _ => return None,
            }),
            other => name.push(other),
        }
    }
    None
}
