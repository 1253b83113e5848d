//! How the fields of each kind lie on the wire, from the data of the Kubernetes release. The table is
//! unpacked when first used, and the fields of a message are read when that message first is.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

use crate::data;

/// One message: a struct of Kubernetes' Go types.
#[derive(Debug)]
pub(super) struct Message {
    definition: &'static str,
    text: &'static str,
    fields: OnceLock<Box<[Field]>>,
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) number: u16,
    pub(super) many: Many,
    pub(super) holds: Holds,
    pub(super) omit_empty: bool,
    pub(super) omit_zero: bool,
    /// The name in JSON; `None` for an embedded struct, whose fields JSON has one level up.
    pub(super) name: Option<&'static str>,
    go_name: Option<&'static str>,
}

/// How often a field is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Many {
    /// Always: its zero value is written.
    One,
    /// On the wire only if it was set.
    Pointer,
    List,
    /// By string.
    Map,
}

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    String,
    Bool,
    Int32,
    Int64,
    Double,
    Bytes,
    Message(Place),
    /// A list of strings that is a message with them as its first field.
    Names,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// Text that is JSON, as the first field of a message of that name.
    Raw(&'static str),
    SchemaOrArray(Place),
    SchemaOrBool(Place),
    SchemaOrNames(Place),
}

/// Where a message is in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(u16);

impl Place {
    pub(super) fn message(self) -> &'static Message {
        &table().messages[usize::from(self.0)]
    }
}

/// The message of a kind, `None` if it has none: custom resources and Tables.
pub(super) fn message(api_version: &str, kind: &str) -> Option<&'static Message> {
    let table = table();
    let find = |name: &str| {
        let at = table.kinds.binary_search_by(|(known, _)| (*known).cmp(name)).ok()?;
        Some(table.kinds[at].1.message())
    };
    // The list of versions at /api has none itself.
    let api_version = if api_version.is_empty() { "v1" } else { api_version };
    // Options belong to every version, and are in the table without one.
    find(&format!("{api_version} {kind}")).or_else(|| find(kind).filter(|_| !kind.contains(' ')))
}

/// All kinds that have a message, as (apiVersion, kind).
#[cfg(test)]
pub(super) fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    table().kinds.iter().map(|(name, _)| name.split_once(' ').unwrap_or(("v1", name)))
}

impl Message {
    /// What Go calls the type.
    pub(super) fn go_name(&self) -> &'static str {
        self.definition.rsplit('.').next().unwrap_or(self.definition)
    }

    /// By ascending number, which is the order on the wire.
    pub(super) fn fields(&self) -> &[Field] {
        self.fields.get_or_init(|| self.text.split_ascii_whitespace().map(Field::parse).collect())
    }

    pub(super) fn field(&self, number: i32) -> Option<&Field> {
        let fields = self.fields();
        fields.binary_search_by(|field| i32::from(field.number).cmp(&number)).ok().map(|at| &fields[at])
    }
}

impl Field {
    /// `number:what:name[:GoName]`, as the dump describes it.
    fn parse(text: &'static str) -> Field {
        let mut parts = text.split(':');
        let mut part = || parts.next().unwrap_or_default();
        let (number, what, name, go_name) = (part(), part(), part(), part());
        let (what, omit_empty) = strip(what, '?');
        let (what, omit_zero) = strip(what, '~');
        let many = match what.as_bytes().first() {
            Some(b'*') => Many::Pointer,
            Some(b'[') => Many::List,
            Some(b'{') => Many::Map,
            _ => Many::One,
        };
        let what = what.trim_start_matches(['*', '[', '{']);
        Field {
            number: number.parse().expect("fields have numbers"),
            many,
            holds: Holds::parse(what),
            omit_empty,
            omit_zero,
            name: (!name.is_empty()).then_some(name),
            go_name: (!go_name.is_empty()).then_some(go_name),
        }
    }

    /// What Go calls the field: its JSON name with a capital, unless the table knows better.
    pub(super) fn go_name(&self) -> String {
        if let Some(name) = self.go_name {
            return name.to_owned();
        }
        let mut letters = self.name.unwrap_or_default().chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
    }
}

fn strip(text: &str, mark: char) -> (&str, bool) {
    text.strip_prefix(mark).map_or((text, false), |rest| (rest, true))
}

impl Holds {
    fn parse(text: &str) -> Holds {
        let (letter, place) = text.split_at(1);
        let place = || Place(place.parse().expect("messages have places"));
        match letter {
            "s" => Holds::String,
            "b" => Holds::Bool,
            "i" => Holds::Int32,
            "l" => Holds::Int64,
            "d" => Holds::Double,
            "y" => Holds::Bytes,
            "m" => Holds::Message(place()),
            "n" => Holds::Names,
            "t" => Holds::Time,
            "u" => Holds::MicroTime,
            "q" => Holds::Quantity,
            "o" => Holds::IntOrString,
            "x" => Holds::Raw("RawExtension"),
            "f" => Holds::Raw("FieldsV1"),
            "j" => Holds::Raw("JSON"),
            "A" => Holds::SchemaOrArray(place()),
            "B" => Holds::SchemaOrBool(place()),
            "S" => Holds::SchemaOrNames(place()),
            other => panic!("the data has a field of unknown form {other:?}"),
        }
    }
}

struct Table {
    /// By name, `apps/v1 Deployment`.
    kinds: Box<[(&'static str, Place)]>,
    messages: Box<[Message]>,
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        // Names and fields stay slices of the unpacked text, which lives as long as the program.
        let text: &'static [u8] = data::read("protobuf").expect("the data knows protobuf").leak();
        let dumped: Dumped<'static> = serde_json::from_slice(text).expect("the protobuf table is JSON");
        let message = |(definition, text)| Message { definition, text, fields: OnceLock::new() };
        Table {
            kinds: dumped.kinds.into_iter().map(|(name, place)| (name, Place(place))).collect(),
            messages: dumped.messages.into_iter().map(message).collect(),
        }
    })
}

/// The entry in the data file.
#[derive(Deserialize)]
struct Dumped<'a> {
    #[serde(borrow)]
    kinds: BTreeMap<&'a str, u16>,
    #[serde(borrow)]
    messages: Vec<(&'a str, &'a str)>,
}
