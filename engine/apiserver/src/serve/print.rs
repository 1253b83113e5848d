//! Objects and lists in the form a client asked for: whole, as a Table, or metadata alone.

use serde_json::{Value, json};

use super::accept::Form;
use super::call::Call;
use super::pieces::PIECE;
use crate::catalog::Resource;
use crate::kinds::convert;
use crate::status::Result;
use crate::store::Item;
use crate::table::{self, Include, MetaVersion, Printer, Row};

/// How much of each object a Table's rows carry.
pub(crate) fn include(call: &Call) -> Result<Include> {
    Include::parse(call.query.get("includeObject").unwrap_or(""))
}

/// How a resource's objects become rows.
pub(crate) fn printer(resource: &Resource) -> Printer {
    match &resource.custom {
        Some(custom) => Printer::Custom(custom.version().columns.clone()),
        None => Printer::built_in(&resource.group, &resource.version, &resource.kind),
    }
}

/// One object.
pub(crate) fn object(call: &Call, object: Value) -> Result<Value> {
    Ok(match call.accept.form {
        Form::Whole => object,
        Form::PartialMetadata(version) => table::partial(&object, version),
        Form::PartialMetadataList(_) => return Err(table::not_a_list(&printer(&call.resource))),
        Form::Table(version) => {
            let (printer, include) = (printer(&call.resource), include(call)?);
            let row = row(call, &printer, &object, include, version);
            table::table(&printer, Some(&printer.columns()), [row], &object["metadata"], version)
        }
    })
}

pub(crate) fn row(
    call: &Call,
    printer: &Printer,
    object: &Value,
    include: Include,
    version: MetaVersion,
) -> Row {
    let mut row = table::row(printer, object, include, version, call.server.context.now());
    // Autoscalers are printed as they are stored, but shown as they were asked for.
    if include == Include::Object
        && &*call.resource.storage == "autoscaling/horizontalpodautoscalers"
        && &*call.resource.version == "v1"
    {
        row.object =
            convert::convert("autoscaling", "v2", &call.resource.kind, row.object, "autoscaling", "v1");
    }
    row
}

/// A list of items that come as values. Where only a part of each is shown, one at a time is in memory.
pub(crate) fn list(call: &Call, items: impl Iterator<Item = Value>, metadata: Value) -> Result<Value> {
    Ok(match call.accept.form {
        Form::Whole => json!({
            "kind": call.resource.list_kind, "apiVersion": call.api_version, "metadata": metadata,
            "items": items.collect::<Vec<Value>>(),
        }),
        Form::PartialMetadata(_) => return Err(table::not_a_single_object(&printer(&call.resource))),
        Form::PartialMetadataList(version) => {
            let items: Vec<Value> = items.map(|item| table::partial(&item, version)).collect();
            table::partial_list(&items, &metadata, version)
        }
        Form::Table(version) => {
            let (printer, include) = (printer(&call.resource), include(call)?);
            let row = |item: Value| row(call, &printer, &item, include, version);
            let columns = printer.columns();
            match printer.order() {
                None => table::table(&printer, Some(&columns), items.map(row), &metadata, version),
                Some(order) => {
                    let mut items: Vec<Value> = items.collect();
                    items.sort_by(order);
                    table::table(&printer, Some(&columns), items.into_iter().map(row), &metadata, version)
                }
            }
        }
    })
}

/// A stored object as an item of a list of whole objects, or as what else is made of it.
pub(crate) fn value(call: &Call, item: &Item) -> Value {
    let mut value = call.printed(item.entry.revision, &item.entry.body);
    if call.accept.form == Form::Whole
        && call.resource.custom.is_none()
        && let Some(value) = value.as_object_mut()
    {
        value.remove("kind");
        value.remove("apiVersion");
    }
    value
}

/// Whether a list is shown in the order that it is stored in, so that it can be shown item by item.
pub(crate) fn keeps_order(call: &Call) -> bool {
    !matches!(call.accept.form, Form::Table(_)) || printer(&call.resource).order().is_none()
}

/// Stands in an empty list for its items.
const ITEMS: &str = "\u{1}items\u{1}";

/// The JSON text of a list, compact or with line breaks, in pieces: what [`list`] would make of it at once.
pub(crate) struct Pieces {
    call: Call,
    printer: Printer,
    include: Include,
    /// What comes next of what is around the items.
    head: Option<String>,
    tail: String,
    items: std::vec::IntoIter<Item>,
    is_first: bool,
    is_done: bool,
}

impl Pieces {
    pub(crate) fn new(call: &Call, items: Vec<Item>, metadata: Value) -> Result<Pieces> {
        let mut around = list(call, std::iter::empty(), metadata)?;
        let key = if matches!(call.accept.form, Form::Table(_)) { "rows" } else { "items" };
        around[key] = json!([ITEMS]);
        let text = if call.accept.pretty {
            serde_json::to_string_pretty(&around)
        } else {
            serde_json::to_string(&around).map(|text| text + "\n")
        };
        let text = text.expect("a value can be written");
        let mark = Value::from(ITEMS).to_string();
        // The last one: columns come before rows, and may be called anything.
        let (head, tail) = text.rsplit_once(&mark).expect("the mark was put there");
        Ok(Pieces {
            call: call.detached(),
            printer: printer(&call.resource),
            include: include(call)?,
            head: Some(head.to_owned()),
            tail: tail.to_owned(),
            items: items.into_iter(),
            is_first: true,
            is_done: false,
        })
    }

    fn shown(&self, item: &Item) -> Value {
        let value = value(&self.call, item);
        match self.call.accept.form {
            Form::Whole => value,
            Form::PartialMetadata(version) | Form::PartialMetadataList(version) => {
                table::partial(&value, version)
            }
            Form::Table(version) => {
                row(&self.call, &self.printer, &value, self.include, version).into_value()
            }
        }
    }

    fn write(&self, out: &mut Vec<u8>, value: &Value) {
        if !self.call.accept.pretty {
            serde_json::to_writer(out, value).expect("a value can be written");
            return;
        }
        let text = serde_json::to_string_pretty(value).expect("a value can be written");
        // A line break inside of a text is escaped: each one is between lines.
        out.extend_from_slice(text.replace('\n', "\n    ").as_bytes());
    }
}

impl Iterator for Pieces {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        if self.is_done {
            return None;
        }
        let mut out = self.head.take().unwrap_or_default().into_bytes();
        while out.len() < PIECE {
            let Some(item) = self.items.next() else {
                out.extend_from_slice(self.tail.as_bytes());
                self.is_done = true;
                break;
            };
            if !std::mem::take(&mut self.is_first) {
                out.extend_from_slice(if self.call.accept.pretty { b",\n    " } else { b"," });
            }
            let value = self.shown(&item);
            self.write(&mut out, &value);
        }
        Some(out)
    }
}
