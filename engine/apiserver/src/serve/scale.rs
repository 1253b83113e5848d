//! The scale of a workload: one number, under the same address for every kind that has one.

use axum::body::Body;
use bytes::Bytes;
use serde_json::{Value, json};

use super::accept::Form;
use super::call::Call;
use super::incoming::{Configuration, Parsed};
use super::object::text;
use super::ownership::Ownership;
use super::parts::Part;
use super::patch::{self, Kind};
use super::query::FieldValidation;
use super::respond::Reply;
use super::write::{self, Managed};
use super::{incoming, print, update, yaml};
use crate::apply::{self, Element, Force, Path, ReplicaPaths};
use crate::catalog::{Resource, group_version};
use crate::field;
use crate::jsonpath;
use crate::selector::LabelSelector;
use crate::status::{Error, GroupResource, Result};
use crate::table::{self, CustomColumns, Printer};

const SCALE: &str = "autoscaling/v1";
/// Stands for a number that a custom resource does not have.
const NEVER_SET: i64 = i32::MIN as i64;

/// Where a kind keeps its scale.
struct Paths {
    spec: String,
    status: String,
    selector: Option<String>,
    /// The number's place in each version, for who owns it.
    owned: ReplicaPaths,
}

impl Paths {
    fn of(resource: &Resource) -> Paths {
        let plain = |selector: &str| Paths {
            spec: ".spec.replicas".into(),
            status: ".status.replicas".into(),
            selector: Some(selector.into()),
            owned: [(resource.api_version(), Some(path_of(".spec.replicas")))].into(),
        };
        match &resource.custom {
            None => plain(".spec.selector"),
            Some(custom) => match &custom.version().scale {
                Some(scale) => Paths {
                    spec: scale.spec_path.clone(),
                    status: scale.status_path.clone(),
                    selector: scale.selector_path.clone(),
                    owned: custom
                        .crd
                        .versions
                        .iter()
                        .map(|version| {
                            let path = version.scale.as_ref().map(|scale| path_of(&scale.spec_path));
                            (group_version(&resource.group, &version.name), path)
                        })
                        .collect(),
                },
                None => plain(".status.selector"),
            },
        }
    }

    fn replicas(&self, object: &Value) -> Option<i64> {
        jsonpath::get(object, &self.spec).and_then(Value::as_i64)
    }

    /// The Scale of an object, with those of its entries that own the number.
    fn tracked(&self, resource: &Resource, object: &Value) -> Result<Value> {
        let mut scale = scale_of(resource, self, object);
        if resource.custom.is_some() && self.replicas(object).is_none() {
            scale["spec"]["replicas"] = NEVER_SET.into();
        }
        apply::scale_fields(object, &self.owned, &mut scale).map_err(Error::internal)?;
        Ok(scale)
    }

    /// The current object with the wanted number of replicas.
    fn scaled(&self, resource: &Resource, current: &Value, wanted: &Value) -> Result<Value> {
        let replicas = number(wanted);
        let name = text(current, &["metadata", "name"]);
        let uid = (text(wanted, &["metadata", "uid"]), text(current, &["metadata", "uid"]));
        if resource.custom.is_none() {
            if replicas < 0 {
                let path = field::Path::new("spec.replicas");
                let why = "must be greater than or equal to 0";
                let errors = [field::Error::invalid(&path, replicas, why)];
                return Err(Error::invalid("autoscaling", "Scale", name, &errors));
            }
            if !uid.0.is_empty() && uid.0 != uid.1 {
                let (given, stored) = uid;
                let what = GroupResource::new(&resource.group, &format!("{}/scale", resource.plural));
                let why = format!(
                    "Precondition failed: UID in precondition: {given}, UID in object meta: {stored}"
                );
                return Err(Error::conflict(&what, name, &why));
            }
        } else if replicas == NEVER_SET {
            let why = format!("the spec replicas field {:?} cannot be empty", self.spec);
            return Err(Error::bad_request(why));
        }
        let mut new = current.clone();
        // An old revision is refused where all updates are.
        let revision = text(wanted, &["metadata", "resourceVersion"]);
        if !revision.is_empty() {
            new["metadata"]["resourceVersion"] = revision.into();
        }
        jsonpath::set(&mut new, &self.spec, replicas.into()).map_err(Error::internal)?;
        apply::scale_fields_to_parent(&mut new, &resource.api_version(), wanted, &self.owned)
            .map_err(Error::internal)?;
        Ok(new)
    }
}

fn path_of(path: &str) -> Path {
    path.trim_start_matches('.').split('.').map(Element::field).collect()
}

fn scale_resource(call: &Call) -> Resource {
    Resource::below(&call.resource.plural, "autoscaling", "Scale")
}

pub(crate) async fn serve(call: &mut Call, body: Body) -> Result<Reply> {
    let paths = Paths::of(&call.resource);
    let name = call.info.name.clone();
    if call.info.verb == "get" {
        let entry = call.entry(&name)?;
        let object = call.value(entry.revision, &entry.body);
        if call.resource.custom.is_some() && paths.replicas(&object).is_none() {
            return Err(Error::internal(format!("the spec replicas field {:?} does not exist", paths.spec)));
        }
        return reply(call, scale_of(&call.resource, &paths, &object));
    }
    let body = incoming::read_body(body).await?;
    let options = if call.info.verb == "update" { "UpdateOptions" } else { "PatchOptions" };
    let asked = Asked::parse(call, &body)?;
    let dry_run = call.query.dry_run(options)?;
    let validation = call.query.field_validation(options)?;
    let stand_in = scale_resource(call);
    let writer = Ownership::by(&call.server, &stand_in, call.field_manager(), Part::Scale);
    let resource = call.resource.clone();
    let mut warnings = Vec::new();
    let change = |current: &Value| {
        warnings.clear();
        if let Asked::Put { scale, .. } = &asked {
            update::check_uid(&resource, text(scale, &["metadata", "uid"]), current, dry_run)?;
        }
        let old = paths.tracked(&resource, current)?;
        let wanted = asked.scale(&stand_in, &old, &writer, validation, &mut warnings)?;
        Ok((paths.scaled(&resource, current, &wanted)?, Managed::Done))
    };
    let before = call.warnings.len();
    let stored = update::modify(call, &name, Part::Scale, dry_run, change).await;
    call.warnings.splice(before..before, warnings);
    let stored = stored?;
    let object = call.value(stored.revision, &stored.body);
    reply(call, scale_of(&call.resource, &paths, &object))
}

/// What a request wants of a Scale.
enum Asked {
    Put { scale: Value, findings: Vec<String> },
    Patch(Kind, Bytes),
    Apply { config: Configuration, force: Force, custom: bool },
}

impl Asked {
    fn parse(call: &Call, body: &Bytes) -> Result<Asked> {
        if call.info.verb == "update" {
            write::check_field_manager(call, "UpdateOptions")?;
            let read = incoming::parse(&call.headers, body, SCALE, "Scale")
                .or_else(|_| yaml::parse(body).map(Parsed::from))
                .and_then(|parsed| read_scale(call, parsed));
            let (scale, findings) = read.map_err(|error| match call.resource.custom {
                // Who serves custom resources does not know this type well enough to say more.
                Some(_) if error.code == 400 => Error::bad_request(
                    "no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:111\"",
                ),
                _ => error,
            })?;
            return Ok(Asked::Put { scale, findings });
        }
        let kind = Kind::of(call)?;
        patch::check_options(call, kind)?;
        if kind != Kind::Apply {
            return Ok(Asked::Patch(kind, body.clone()));
        }
        let config = incoming::configuration(&scale_resource(call), body)?;
        let force = if call.query.flag("force") { Force::Yes } else { Force::No };
        Ok(Asked::Apply { config, force, custom: call.resource.custom.is_some() })
    }

    /// The Scale as the request wants it, with who owns its number.
    fn scale(
        &self,
        stand_in: &Resource,
        old: &Value,
        writer: &Ownership,
        validation: FieldValidation,
        warnings: &mut Vec<String>,
    ) -> Result<Value> {
        match self {
            Asked::Put { scale, findings } => {
                warnings.extend(findings.iter().cloned());
                let mut wanted = scale.clone();
                write::fit_namespace(text(old, &["metadata", "namespace"]), &mut wanted)?;
                writer.update(Some(old), &mut wanted);
                Ok(wanted)
            }
            Asked::Patch(kind, body) => {
                let patched = patch::patched(*kind, stand_in, old, body, validation)?;
                let mut wanted = patch::checked(*kind, body, stand_in, old, patched, validation, warnings)?;
                writer.update(Some(old), &mut wanted);
                Ok(wanted)
            }
            Asked::Apply { config, force, custom } => {
                let applied = writer.apply(Some(old), &config.value, *force)?;
                // What was applied to the Scale of a custom resource has no way back, unless it changed nothing.
                if *custom && number(&applied) != number(old) {
                    return Err(Error::new(
                        500,
                        "",
                        format!(
                            "failed to convert new object ({}) to proper version: request to convert CR to an \
                             invalid group/version: {SCALE}",
                            apply::identity(&config.value)
                        ),
                    ));
                }
                config.report(stand_in, validation, warnings)?;
                let mut wanted = patch::completed(stand_in, &config.value, applied)?;
                write::fit_namespace(text(old, &["metadata", "namespace"]), &mut wanted)?;
                update::check_address(text(old, &["metadata", "name"]), &wanted)?;
                Ok(wanted)
            }
        }
    }
}

fn number(scale: &Value) -> i64 {
    scale["spec"]["replicas"].as_i64().unwrap_or(0)
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

/// A Scale that was sent, and what is odd about it.
fn read_scale(call: &Call, given: Parsed) -> Result<(Value, Vec<String>)> {
    let mut findings = Vec::new();
    let validation = call.query.field_validation("UpdateOptions")?;
    let scale = incoming::object(&scale_resource(call), given, validation, &mut findings)?;
    let (given, name) = (text(&scale, &["metadata", "name"]), call.info.name.as_str());
    if !given.is_empty() && given != name {
        return Err(Error::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        )));
    }
    Ok((scale, findings))
}

/// The Scale of an object, as others see it.
pub(crate) fn shown(resource: &Resource, object: &Value) -> Value {
    scale_of(resource, &Paths::of(resource), object)
}

/// The Scale of an object.
fn scale_of(resource: &Resource, paths: &Paths, object: &Value) -> Value {
    let number = |path: &str| jsonpath::get(object, path).and_then(Value::as_i64);
    let metadata = &object["metadata"];
    let mut scale = json!({
        "kind": "Scale", "apiVersion": SCALE,
        "metadata": {},
        "spec": {}, "status": {"replicas": number(&paths.status).unwrap_or(0)},
    });
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = metadata.get(key) {
            scale["metadata"][key] = value.clone();
        }
    }
    if let Some(replicas) = paths.replicas(object).filter(|replicas| *replicas != 0) {
        scale["spec"]["replicas"] = replicas.into();
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
    scale
}

#[cfg(test)]
mod tests {
    #[test]
    fn scale_has_a_schema() {
        assert!(crate::catalog::builtin_schema("autoscaling", "v1", "Scale").is_some());
    }
}
