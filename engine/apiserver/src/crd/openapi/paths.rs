//! The operations on custom resources.

use serde_json::{Map, Value, json};

use super::{META, definition_name, list, part, text};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/{namespace}/deployments";
const ALL_DEPLOYMENTS: &str = "/apis/apps/v1/deployments";
const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";

/// The paths that one version of a custom resource adds to a document.
pub(super) fn paths(crd: &Value, version: &str, apps: &Value) -> Map<String, Value> {
    let spec = &crd["spec"];
    let group = text(spec, "group").to_owned();
    let (kind, plural) = (text(&spec["names"], "kind"), text(&spec["names"], "plural"));
    let namespaced = text(spec, "scope") == "Namespaced";
    let resource = Resource {
        kind,
        version,
        namespaced,
        object: definition_name(&group, version, kind),
        objects: definition_name(&group, version, text(&spec["names"], "listKind")),
        group,
        like: Like(apps),
    };
    let root = format!("/apis/{}/{version}/", resource.group);
    let mut paths = Map::new();
    let mut base = format!("{root}{plural}");
    if namespaced {
        let all = json!({
            "get": resource.operation(&Verb::LIST, "", Suffix::AllNamespaces),
            "parameters": resource.like.parameters_of(ALL_DEPLOYMENTS),
        });
        paths.insert(base, all);
        base = format!("{root}namespaces/{{namespace}}/{plural}");
    }
    paths.insert(base.clone(), resource.item("", &[&Verb::LIST, &Verb::CREATE, &Verb::DELETE_COLLECTION]));
    let verbs = [&Verb::READ, &Verb::REPLACE, &Verb::DELETE, &Verb::PATCH];
    paths.insert(format!("{base}/{{name}}"), resource.item("/{name}", &verbs));
    let given = list(spec, "versions").iter().find(|one| text(one, "name") == version);
    for subresource in ["status", "scale"] {
        if given.is_some_and(|one| part(&one["subresources"], subresource).is_some()) {
            let below = format!("/{{name}}/{subresource}");
            let item = resource.item(&below, &[&Verb::READ, &Verb::REPLACE, &Verb::PATCH]);
            paths.insert(format!("{base}{below}"), item);
        }
    }
    paths
}

/// What one operation does.
struct Verb {
    method: &'static str,
    /// As operation ids and descriptions call it.
    name: &'static str,
    /// As `x-kubernetes-action` calls it.
    action: &'static str,
    codes: &'static [(&'static str, &'static str)],
}

impl Verb {
    const OK: (&'static str, &'static str) = ("200", "OK");
    const CREATED: (&'static str, &'static str) = ("201", "Created");
    const ACCEPTED: (&'static str, &'static str) = ("202", "Accepted");
    const LIST: Verb = Verb { method: "get", name: "list", action: "list", codes: &[Self::OK] };
    const CREATE: Verb = Verb {
        method: "post",
        name: "create",
        action: "post",
        codes: &[Self::OK, Self::CREATED, Self::ACCEPTED],
    };
    const DELETE_COLLECTION: Verb =
        Verb { method: "delete", name: "deletecollection", action: "deletecollection", codes: &[Self::OK] };
    const READ: Verb = Verb { method: "get", name: "read", action: "get", codes: &[Self::OK] };
    const REPLACE: Verb =
        Verb { method: "put", name: "replace", action: "put", codes: &[Self::OK, Self::CREATED] };
    const DELETE: Verb =
        Verb { method: "delete", name: "delete", action: "delete", codes: &[Self::OK, Self::ACCEPTED] };
    const PATCH: Verb = Verb { method: "patch", name: "patch", action: "patch", codes: &[Self::OK] };
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Suffix {
    None,
    AllNamespaces,
}

/// The built-in document that parameters are taken from.
struct Like<'a>(&'a Value);

impl Like<'_> {
    fn parameters_of(&self, path: &str) -> Value {
        self.0["paths"][path]["parameters"].clone()
    }

    fn parameters(&self, verb: &Verb) -> Value {
        let collection = matches!(verb.action, "list" | "deletecollection" | "post");
        let path = if collection { DEPLOYMENTS.to_owned() } else { format!("{DEPLOYMENTS}/{{name}}") };
        let method = match verb.action {
            "deletecollection" => "get",
            "get" => {
                let all = self.0["paths"][DEPLOYMENTS]["get"]["parameters"].as_array();
                let version = all.into_iter().flatten().find(|one| one["name"] == "resourceVersion");
                return version.cloned().into_iter().collect();
            }
            _ => verb.method,
        };
        self.0["paths"][path][method]["parameters"].clone()
    }
}

struct Resource<'a> {
    group: String,
    version: &'a str,
    kind: &'a str,
    namespaced: bool,
    object: String,
    objects: String,
    like: Like<'a>,
}

impl Resource<'_> {
    fn item(&self, below: &str, verbs: &[&Verb]) -> Value {
        let mut item = Map::new();
        for verb in verbs {
            item.insert(verb.method.to_owned(), self.operation(verb, below, Suffix::None));
        }
        let path = if below.is_empty() { DEPLOYMENTS.to_owned() } else { format!("{DEPLOYMENTS}/{{name}}") };
        let parameters = self.like.parameters_of(&path);
        let mut parameters = parameters.as_array().cloned().unwrap_or_default();
        parameters.retain(|one| self.namespaced || one["name"] != "namespace");
        for parameter in parameters.iter_mut().filter(|one| one["name"] == "name") {
            parameter["description"] = format!("name of the {}", self.kind).into();
        }
        item.insert("parameters".to_owned(), parameters.into());
        item.into()
    }

    fn operation(&self, verb: &Verb, below: &str, suffix: Suffix) -> Value {
        let subresource = below.strip_prefix("/{name}/").unwrap_or_default();
        let model = match (verb.action, subresource) {
            ("list", _) => self.objects.clone(),
            ("delete" | "deletecollection", _) => format!("{META}.Status"),
            (_, "scale") => SCALE.to_owned(),
            _ => self.object.clone(),
        };
        let mut responses = json!({"401": {"description": "Unauthorized"}});
        for (code, meaning) in verb.codes {
            responses[*code] = json!({"description": meaning, "content": content(&model, &JSON_AND_YAML)});
        }
        let mut operation = json!({
            "tags": [format!("{}_{}", self.group_id(false), self.version)],
            "description": self.description(verb, subresource),
            "operationId": self.operation_id(verb, subresource, suffix),
            "responses": responses,
            "x-kubernetes-action": verb.action,
            "x-kubernetes-group-version-kind":
                {"group": self.group, "version": self.version, "kind": self.kind},
        });
        if suffix == Suffix::None {
            operation["parameters"] = self.like.parameters(verb);
        }
        let body = match verb.action {
            "post" | "put" => json!({"content": content(&model, &JSON_AND_YAML), "required": true}),
            "patch" => json!({"content": content(&format!("{META}.Patch"), &PATCHES), "required": true}),
            "delete" => json!({"content": content(&format!("{META}.DeleteOptions"), &JSON_AND_YAML)}),
            _ => return operation,
        };
        operation["requestBody"] = body;
        operation
    }

    fn description(&self, verb: &Verb, subresource: &str) -> String {
        let of = if subresource.is_empty() { String::new() } else { format!(" {subresource} of") };
        let kind = self.kind;
        match verb.name {
            "list" => format!("list{of} objects of kind {kind}"),
            "patch" => format!("partially update{of} the specified {kind}"),
            "deletecollection" => format!("delete collection of{of} {kind}"),
            "create" | "delete" => format!("{}{of}{}{kind}", verb.name, article(kind)),
            name => format!("{name}{of} the specified {kind}"),
        }
    }

    fn operation_id(&self, verb: &Verb, subresource: &str, suffix: Suffix) -> String {
        let (verb, collection) = match verb.name {
            "deletecollection" => ("delete", "Collection"),
            name => (name, ""),
        };
        let namespaced = if self.namespaced && suffix == Suffix::None { "Namespaced" } else { "" };
        let all = if suffix == Suffix::AllNamespaces { "ForAllNamespaces" } else { "" };
        let version = identifier(self.version, true);
        let (group, kind) = (self.group_id(true), self.kind);
        format!("{verb}{group}{version}{collection}{namespaced}{kind}{}{all}", identifier(subresource, true))
    }

    fn group_id(&self, capital: bool) -> String {
        identifier(self.group.strip_suffix(".k8s.io").unwrap_or(&self.group), capital)
    }
}

const JSON_AND_YAML: [&str; 2] = ["application/json", "application/yaml"];
const PATCHES: [&str; 3] =
    ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];

fn content(model: &str, types: &[&str]) -> Value {
    let schema = json!({"schema": {"$ref": format!("#/components/schemas/{model}")}});
    types.iter().map(|one| ((*one).to_owned(), schema.clone())).collect::<Map<_, _>>().into()
}

fn article(kind: &str) -> &'static str {
    if kind.ends_with('s') && !kind.ends_with("ss") {
        return " ";
    }
    if kind.starts_with(['A', 'E', 'I', 'O', 'U', 'a', 'e', 'i', 'o', 'u']) { " an " } else { " a " }
}

/// Letters and digits, each word after the first with a capital.
fn identifier(text: &str, capital: bool) -> String {
    let mut capital = capital;
    let mut out = String::new();
    for (at, letter) in text.char_indices() {
        if letter.is_alphabetic() || letter == '_' || (at > 0 && letter.is_numeric()) {
            if std::mem::take(&mut capital) {
                out.extend(letter.to_uppercase());
            } else {
                out.push(letter);
            }
        } else {
            capital = true;
        }
    }
    out
}
