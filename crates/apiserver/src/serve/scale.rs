//! The scale of a workload: one number, under the same address for every kind that has one.

use axum::body::Body;
use serde_json::{Value, json};

use super::accept::Form;
use super::call::Call;
use super::object::text;
use super::parts::Part;
use super::patch::{self, Kind};
use super::query::FieldValidation;
use super::respond::Reply;
use super::write::Managed;
use super::{incoming, print, update};
use crate::catalog::Resource;
use crate::field;
use crate::jsonpath;
use crate::schema::raw::Json;
use crate::selector::LabelSelector;
use crate::status::{Error, Result};
use crate::table::{self, CustomColumns, Printer};

/// Where a kind keeps its scale.
struct Paths {
    spec: String,
    status: String,
    selector: Option<String>,
}

impl Paths {
    fn of(resource: &Resource) -> Paths {
        let plain = |selector: &str| Paths {
            spec: ".spec.replicas".into(),
            status: ".status.replicas".into(),
            selector: Some(selector.into()),
        };
        match &resource.custom {
            None => plain(".spec.selector"),
            Some(custom) => match &custom.version().scale {
                Some(scale) => Paths {
                    spec: scale.spec_path.clone(),
                    status: scale.status_path.clone(),
                    selector: scale.selector_path.clone(),
                },
                None => plain(".status.selector"),
            },
        }
    }
}

/// A stand-in resource, so that Scale objects are decoded like all others.
fn scale_resource(call: &Call) -> Resource {
    Resource {
        group: "autoscaling".into(),
        version: "v1".into(),
        plural: call.resource.plural.clone(),
        singular: String::new(),
        kind: "Scale".into(),
        list_kind: String::new(),
        namespaced: true,
        verbs: Vec::new(),
        short_names: Vec::new(),
        categories: Vec::new(),
        subresources: Vec::new(),
        storage: "".into(),
        custom: None,
    }
}

pub(crate) async fn serve(call: &mut Call, body: Body) -> Result<Reply> {
    let paths = Paths::of(&call.resource);
    let name = call.info.name.clone();
    if call.info.verb == "get" {
        let entry = call.entry(&name)?;
        let scale = scale_of(&call.resource, &paths, &call.value(entry.revision, &entry.body))?;
        return reply(call, scale);
    }
    let body = incoming::read_body(body).await?;
    let options = if call.info.verb == "update" { "UpdateOptions" } else { "PatchOptions" };
    let dry_run = call.query.dry_run(options)?;
    let validation = call.query.field_validation(options)?;
    let kind = (call.info.verb == "patch").then(|| Kind::of(call)).transpose()?;
    let given = match kind {
        None | Some(Kind::Apply) => Some(
            incoming::parse(&call.headers, &body, "autoscaling/v1", "Scale")
                .or_else(|_| incoming::parse_yaml(&body))?,
        ),
        Some(_) => None,
    };
    let stand_in = scale_resource(call);
    let resource = call.resource.clone();
    let mut warnings = Vec::new();
    let change = |current: &Value| {
        let scale = scale_of(&resource, &paths, current)?;
        let wanted = match (&given, kind) {
            (None, Some(kind)) => {
                let patched = patch::patched(kind, &stand_in, &scale, &body, validation)?;
                patch::checked(kind, &body, &stand_in, &scale, patched, validation, &mut warnings)?
            }
            (Some(given), _) => read_scale(&stand_in, given, &scale, validation, &mut warnings)?,
            (None, None) => scale,
        };
        Ok((scaled(current, &paths, &wanted, &name)?, Managed::Track))
    };
    let before = call.warnings.len();
    let stored = update::modify(call, &name, Part::Scale, dry_run, change).await;
    call.warnings.splice(before..before, warnings);
    let stored = stored?;
    let object = call.value(stored.revision, &stored.body);
    let scale = scale_of(&call.resource, &paths, &object)?;
    reply(call, scale)
}

fn reply(call: &Call, scale: Value) -> Result<Reply> {
    Ok(Reply::ok(match call.accept.form {
        Form::Whole => scale,
        Form::PartialMetadata(version) | Form::PartialMetadataList(version) => {
            table::partial(&scale, version)
        }
        Form::Table(version) => {
            let printer = Printer::Custom(CustomColumns::scale());
            let row = print::row(call, &printer, &scale, print::include(call)?, version);
            table::table(&printer, Some(&printer.columns()), [row], &scale["metadata"], version)
        }
    }))
}

fn read_scale(
    stand_in: &Resource,
    given: &Json,
    scale: &Value,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<Value> {
    let wanted = incoming::object(stand_in, given.clone(), validation, warnings)?;
    let (given, name) = (text(&wanted, &["metadata", "name"]), text(scale, &["metadata", "name"]));
    if !given.is_empty() && given != name {
        return Err(Error::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        )));
    }
    Ok(wanted)
}

/// The current object with the wanted number of replicas.
fn scaled(current: &Value, paths: &Paths, wanted: &Value, name: &str) -> Result<Value> {
    let replicas = wanted["spec"]["replicas"].as_i64().unwrap_or(0);
    if replicas < 0 {
        let path = field::Path::new("spec.replicas");
        let why = "must be greater than or equal to 0";
        return Err(Error::invalid(
            "autoscaling",
            "Scale",
            name,
            &[field::Error::invalid(&path, replicas, why)],
        ));
    }
    let mut new = current.clone();
    // An old revision or another object's uid is refused where all updates are.
    for key in ["resourceVersion", "uid"] {
        let given = text(wanted, &["metadata", key]);
        if !given.is_empty() {
            new["metadata"][key] = given.into();
        }
    }
    jsonpath::set(&mut new, &paths.spec, replicas.into()).map_err(Error::internal)?;
    Ok(new)
}

/// The Scale of an object.
fn scale_of(resource: &Resource, paths: &Paths, object: &Value) -> Result<Value> {
    let number = |path: &str| jsonpath::get(object, path).and_then(Value::as_i64);
    let metadata = &object["metadata"];
    let mut scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {},
        "spec": {}, "status": {"replicas": number(&paths.status).unwrap_or(0)},
    });
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = metadata.get(key) {
            scale["metadata"][key] = value.clone();
        }
    }
    match number(&paths.spec) {
        Some(0) | None if resource.custom.is_none() => {}
        Some(replicas) => scale["spec"]["replicas"] = replicas.into(),
        None => {
            return Err(Error::internal(format!("the spec replicas field {:?} does not exist", paths.spec)));
        }
    }
    let selector = paths.selector.as_deref().and_then(|path| jsonpath::get(object, path));
    let selector = match selector {
        Some(Value::String(text)) => Some(text.clone()),
        // A ReplicationController selects by a plain map.
        Some(map @ Value::Object(_)) if &*resource.kind == "ReplicationController" => {
            Some(LabelSelector::from_map(map).to_string())
        }
        Some(selector @ Value::Object(_)) => {
            LabelSelector::from_label_selector(selector).ok().map(|selector| selector.to_string())
        }
        _ => None,
    };
    if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
        scale["status"]["selector"] = selector.into();
    }
    Ok(scale)
}

#[cfg(test)]
mod tests {
    #[test]
    fn scale_has_a_schema() {
        assert!(crate::catalog::builtin_schema("autoscaling", "v1", "Scale").is_some());
    }
}
