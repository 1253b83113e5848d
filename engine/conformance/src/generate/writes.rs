//! Creates, updates, patches, subresources and deletes.

use serde_json::{Value, json};

use super::kinds::Kind;
use super::{Plan, json, with_query};
use crate::client::Request;
use crate::pointer;
use crate::sequence::Action;

const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

impl Plan {
    pub(super) fn create(&mut self) {
        let kind = self.kind();
        let name = kind.name(&mut self.rng);
        let mut object = kind.object(&mut self.rng, &name);
        let edits = *self.rng.pick(&[0, 0, 0, 1, 1, 1, 2, 3]);
        for _ in 0..edits {
            kind.edit(&mut self.rng, &mut object);
        }
        if self.rng.chance(5) {
            self.create_generated(kind, object);
            return;
        }
        let options = self.write_options();
        let mut request = json("POST", &kind.collection(), &options, &object);
        if self.rng.chance(6) {
            request.headers = vec![("content-type".to_owned(), "application/yaml".to_owned())];
        }
        let step = self.send(request);
        if edits == 0 || self.rng.chance(50) {
            self.shown(kind, &name, step);
        }
    }

    /// A generated name does not stay: where it stands in a list is left to chance.
    fn create_generated(&mut self, kind: &'static Kind, mut object: Value) {
        pointer::put(&mut object, "/metadata/name", None);
        pointer::put(&mut object, "/metadata/finalizers", None);
        pointer::put(&mut object, "/metadata/generateName", Some("${ns}-gen-".into()));
        let step = self.send(json("POST", &kind.collection(), &[], &object));
        let path = format!("{}/${{{step}.name}}", kind.collection());
        self.send(Request::new("GET", path.clone()));
        self.send(Request::new("DELETE", format!("{path}?propagationPolicy=Background")));
        self.settle(kind, &path);
    }

    pub(super) fn update(&mut self) {
        let (kind, name, seen) = self.target();
        let api = self.version_of(kind);
        let path = format!("{}/{name}", kind.collection_in(&api));
        let options = self.write_options();
        let version = self.version(&seen);
        let step = match seen.last() {
            Some(base) if self.rng.chance(60) => {
                let mut edits = Vec::new();
                for _ in 0..1 + self.rng.below(2) {
                    let (at, value) = kind.change(&mut self.rng);
                    edits.push((at, Some(value)));
                }
                if self.rng.chance(60) {
                    edits.push(("/metadata/resourceVersion".to_owned(), version.map(Value::from)));
                }
                if api != kind.api {
                    edits.push(("/apiVersion".to_owned(), Some(api.into())));
                }
                let request = Request::new("PUT", with_query(&path, &options))
                    .header("content-type", "application/json");
                self.push(Action::Resend(request, *base, edits))
            }
            _ => {
                let mut object = kind.object(&mut self.rng, &name);
                object["apiVersion"] = api.into();
                for _ in 0..self.rng.below(3) {
                    kind.edit(&mut self.rng, &mut object);
                }
                if let Some(version) = version {
                    pointer::put(&mut object, "/metadata/resourceVersion", Some(version.into()));
                }
                self.send(json("PUT", &path, &options, &object))
            }
        };
        self.shown(kind, &name, step);
    }

    pub(super) fn patch(&mut self) {
        let (kind, name, seen) = self.target();
        let path = format!("{}/{name}", kind.collection_in(&self.version_of(kind)));
        let step = self.patch_at(kind, &name, &path, &seen, Kind::change);
        self.shown(kind, &name, step);
    }

    fn patch_at(
        &mut self,
        kind: &'static Kind,
        name: &str,
        path: &str,
        seen: &[usize],
        change: fn(&Kind, &mut crate::rng::Rng) -> (String, Value),
    ) -> usize {
        let mut options = self.write_options();
        let (content_type, body) = match self.rng.below(10) {
            0..3 => (MERGE, self.merge_patch(kind, seen, change)),
            3..5 => (JSON_PATCH, self.json_patch(kind, change)),
            5..7 => (STRATEGIC, self.strategic_patch(kind, seen, change)),
            _ => {
                options.retain(|option| !option.starts_with("fieldManager"));
                if !self.rng.chance(3) {
                    options.push(format!("fieldManager={}", self.rng.pick(&["alpha", "beta", "gamma"])));
                }
                if self.rng.chance(35) {
                    options.push("force=true".to_owned());
                }
                (APPLY, self.configuration(kind, name, change))
            }
        };
        self.send(
            Request::new("PATCH", with_query(path, &options))
                .header("content-type", content_type)
                .body(body.to_string()),
        )
    }

    fn merge_patch(
        &mut self,
        kind: &Kind,
        seen: &[usize],
        change: fn(&Kind, &mut crate::rng::Rng) -> (String, Value),
    ) -> Value {
        let mut patch = json!({});
        for _ in 0..1 + self.rng.below(2) {
            let (at, value) = change(kind, &mut self.rng);
            let value = if self.rng.chance(15) { Value::Null } else { value };
            if pointer::nested(&at, value.clone()).is_some() {
                pointer::put(&mut patch, &at, Some(value));
            }
        }
        if self.rng.chance(20)
            && let Some(version) = self.version(seen)
        {
            pointer::put(&mut patch, "/metadata/resourceVersion", Some(version.into()));
        }
        patch
    }

    fn json_patch(
        &mut self,
        kind: &Kind,
        change: fn(&Kind, &mut crate::rng::Rng) -> (String, Value),
    ) -> Value {
        let mut operations = Vec::new();
        for _ in 0..1 + self.rng.below(3) {
            let (at, value) = change(kind, &mut self.rng);
            let other = change(kind, &mut self.rng).0;
            operations.push(match self.rng.below(12) {
                0..4 => json!({"op": "add", "path": at, "value": value}),
                4..7 => json!({"op": "replace", "path": at, "value": value}),
                7 => json!({"op": "remove", "path": at}),
                8 => json!({"op": "test", "path": at, "value": value}),
                9 => json!({"op": "copy", "from": at, "path": other}),
                10 => json!({"op": "move", "from": at, "path": "/metadata/annotations"}),
                _ => self
                    .rng
                    .pick(&[
                        json!({"op": "odd", "path": "/x"}),
                        json!({"op": "add", "path": "/metadata/labels/added", "value": "yes"}),
                        json!({"op": "add", "path": "/metadata/annotations", "value": {"p": "q"}}),
                        json!({"op": "add", "path": "nopath", "value": 1}),
                        json!({"op": "test", "path": "/kind", "value": "Wrong"}),
                        json!({"op": "remove", "path": "/nothing/here"}),
                        json!({"path": "/x"}),
                        json!({"op": "test", "path": "/metadata/labels/seq", "value": "${ns}"}),
                    ])
                    .clone(),
            });
        }
        operations.into()
    }

    fn strategic_patch(
        &mut self,
        kind: &Kind,
        seen: &[usize],
        change: fn(&Kind, &mut crate::rng::Rng) -> (String, Value),
    ) -> Value {
        if kind.strategic.is_empty() || self.rng.chance(30) {
            self.merge_patch(kind, seen, change)
        } else {
            self.rng.pick(&kind.strategic).clone()
        }
    }

    /// What a manager applies: a valid object, some of its parts left out, perhaps changed.
    fn configuration(
        &mut self,
        kind: &Kind,
        name: &str,
        change: fn(&Kind, &mut crate::rng::Rng) -> (String, Value),
    ) -> Value {
        let mut object = kind.object(&mut self.rng, name);
        if self.rng.chance(30)
            && let Value::Object(fields) = &mut object
            && let Some(Value::Object(spec)) = fields.get_mut("spec")
        {
            let keep = spec.keys().filter(|_| self.rng.chance(70)).cloned().collect::<Vec<_>>();
            spec.retain(|key, _| keep.contains(key));
        }
        if self.rng.chance(40) {
            let (at, value) = change(kind, &mut self.rng);
            pointer::put(&mut object, &at, Some(value));
        }
        object
    }

    pub(super) fn subresource(&mut self) {
        let (kind, name, seen) = self.target();
        if kind.scale && self.rng.chance(45) {
            self.scale(kind, &name, &seen);
            return;
        }
        let path = format!("{}/{name}/status", kind.collection());
        let step = match self.rng.below(10) {
            0..2 => self.send(Request::new("GET", path)),
            2..6 => match seen.last() {
                None => self.send(Request::new("GET", path)),
                Some(base) => {
                    let (at, value) = kind.status_change(&mut self.rng);
                    let mut edits = vec![(at, Some(value))];
                    if self.rng.chance(50) {
                        let version = self.version(&seen);
                        edits.push(("/metadata/resourceVersion".to_owned(), version.map(Value::from)));
                    }
                    let options = self.write_options();
                    let request = Request::new("PUT", with_query(&path, &options))
                        .header("content-type", "application/json");
                    self.push(Action::Resend(request, *base, edits))
                }
            },
            _ => self.patch_at(kind, &name, &path, &seen, Kind::status_change),
        };
        self.shown(kind, &name, step);
    }

    fn scale(&mut self, kind: &'static Kind, name: &str, seen: &[usize]) {
        let path = format!("{}/{name}/scale", kind.collection());
        let replicas = self.rng.pick(&[json!(0), json!(2), json!(-1), json!("x"), json!(7)]).clone();
        let request = match self.rng.below(10) {
            0..3 => Request::new("GET", path),
            3..6 => Request::new("PATCH", path)
                .header("content-type", MERGE)
                .body(json!({"spec": {"replicas": replicas}}).to_string()),
            6 => Request::new("PATCH", path)
                .header("content-type", JSON_PATCH)
                .body(json!([{"op": "replace", "path": "/spec/replicas", "value": replicas}]).to_string()),
            7 => Request::new("PATCH", format!("{path}?fieldManager=scaler&force=true")).header("content-type", APPLY).body(
                json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name}, "spec": {"replicas": replicas}})
                    .to_string(),
            ),
            _ => {
                let mut body = json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
                    "metadata": {"name": name, "namespace": "${ns}"}, "spec": {"replicas": replicas}});
                if let Some(version) = self.version(seen) {
                    body["metadata"]["resourceVersion"] = version.into();
                }
                let options = self.write_options();
                json("PUT", &path, &options, &body)
            }
        };
        self.send(request);
    }

    pub(super) fn delete(&mut self) {
        let (kind, name, seen) = self.target();
        let path = format!("{}/{name}", kind.collection());
        let mut options = Vec::new();
        if self.rng.chance(12) {
            options.push("dryRun=All".to_owned());
        }
        if self.rng.chance(12) {
            options.push(format!("gracePeriodSeconds={}", self.rng.pick(&["0", "1", "10", "-1"])));
        }
        // These are left to the collector by default, which takes its time.
        let orphaning = ["jobs", "replicationcontrollers"].contains(&kind.plural.as_str());
        if orphaning || self.rng.chance(12) {
            options.push("propagationPolicy=Background".to_owned());
        }
        let mut request = Request::new("DELETE", with_query(&path, &options));
        if self.rng.chance(30) {
            let mut body = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
            if let Some(version) = self.version(&seen) {
                body["preconditions"]["resourceVersion"] = version.into();
            }
            if let Some(last) = seen.last() {
                let uid =
                    if self.rng.chance(70) { format!("${{{last}.uid}}") } else { "no-such-uid".to_owned() };
                body["preconditions"]["uid"] = uid.into();
            }
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        if self.rng.chance(12) && !kind.is_namespace() {
            let selector = self.rng.pick(&["seq%3D${ns}", "seq%3D${ns},app%3Da"]);
            request.path =
                format!("{}?propagationPolicy=Background&labelSelector={selector}", kind.collection());
        }
        let waits = !request.path.contains("dryRun") && request.body.is_none();
        self.send(request);
        if waits {
            self.settle(kind, &path);
        }
    }

    /// Mostly the kind's own version, at times another that the same objects have.
    fn version_of(&mut self, kind: &Kind) -> String {
        if kind.also.is_empty() || self.rng.chance(75) {
            kind.api.clone()
        } else {
            self.rng.pick(&kind.also).clone()
        }
    }
}
