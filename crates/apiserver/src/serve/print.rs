//! Objects and lists in the form a client asked for: whole, as a Table, or metadata alone.

use serde_json::{Value, json};

use super::accept::Form;
use super::call::Call;
use crate::catalog::Resource;
use crate::kinds::convert;
use crate::status::Result;
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

/// A list whose items are at hand as values.
pub(crate) fn list(call: &Call, mut items: Vec<Value>, metadata: Value) -> Result<Value> {
    Ok(match call.accept.form {
        Form::Whole => json!({
            "kind": call.resource.list_kind, "apiVersion": call.api_version, "metadata": metadata, "items": items,
        }),
        Form::PartialMetadata(_) => return Err(table::not_a_single_object(&printer(&call.resource))),
        Form::PartialMetadataList(version) => table::partial_list(items.iter(), &metadata, version),
        Form::Table(version) => {
            let (printer, include) = (printer(&call.resource), include(call)?);
            if let Some(order) = printer.order() {
                items.sort_by(order);
            }
            let rows = items.iter().map(|item| row(call, &printer, item, include, version));
            table::table(&printer, Some(&printer.columns()), rows, &metadata, version)
        }
    })
}
