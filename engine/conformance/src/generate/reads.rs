//! Gets, lists and watches.

use super::kinds::Kind;
use super::{Plan, encode, json, with_query};
use crate::client::Request;
use crate::sequence::Action;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

const LABELS: &[&str] = &[
    "app=a",
    "app==b",
    "app!=a",
    "app in (a, b)",
    "app notin (a)",
    "app",
    "!app",
    "app=a,seq=${ns}",
    "app in (a",
    "app=bad value",
    "=x",
    "app in ()",
    "a b",
    "app>1",
    "app=a=b",
    "bad key!=x",
    ",",
    "app=",
];

const VERSIONS: &[&str] = &[
    "resourceVersion=0",
    "resourceVersion=0&resourceVersionMatch=NotOlderThan",
    "resourceVersion=${}.rv&resourceVersionMatch=Exact",
    "resourceVersion=${}.rv&resourceVersionMatch=NotOlderThan",
    "resourceVersion=${}.rv",
    "resourceVersion=0&resourceVersionMatch=Exact",
    "resourceVersionMatch=Exact",
    "resourceVersion=1&resourceVersionMatch=Odd",
    "resourceVersion=x",
    "resourceVersion=-1",
];

impl Plan {
    pub(super) fn get(&mut self) {
        let (kind, name, seen) = self.target();
        let api =
            if kind.also.is_empty() || self.rng.chance(70) { &kind.api } else { self.rng.pick(&kind.also) };
        let mut options = Vec::new();
        if self.rng.chance(8) {
            options.push("resourceVersion=0".to_owned());
        }
        let path = with_query(&format!("{}/{name}", kind.collection_in(api)), &options);
        let (request, whole) = self.accepting(Request::new("GET", path), METADATA);
        let step = self.send(request);
        if whole && !seen.is_empty() {
            self.shown(kind, &name, step);
        }
    }

    pub(super) fn list(&mut self) {
        let kind = self.kind();
        if self.rng.chance(20) {
            self.pages(kind);
            return;
        }
        let (mut path, mut options) = (kind.collection(), Vec::new());
        let everywhere = !kind.cluster && self.rng.chance(15);
        if everywhere {
            path = kind.everywhere();
        }
        match self.rng.below(10) {
            0..4 => {
                let selector = *self.rng.pick(LABELS);
                let selector = if kind.cluster || everywhere {
                    format!("seq=${{ns}},{selector}")
                } else {
                    selector.to_owned()
                };
                options.push(format!("labelSelector={}", encode(&selector)));
            }
            _ if kind.cluster || everywhere => options.push("labelSelector=seq%3D${ns}".to_owned()),
            _ => {}
        }
        if self.rng.chance(25) {
            let own = kind.fields.clone();
            let common = [
                "metadata.name=a",
                "metadata.name!=b",
                "metadata.namespace=${ns}",
                "bad.field=x",
                "x",
                "metadata.name=a,metadata.name=b",
            ];
            let fields = own.iter().map(String::as_str).chain(common).collect::<Vec<_>>();
            options.push(format!("fieldSelector={}", encode(self.rng.pick::<&str>(&fields))));
        }
        if self.rng.chance(20)
            && let Some(object) = self.objects.last()
            && let Some(step) = object.seen.last()
        {
            let version = self.rng.pick(VERSIONS).replace("${}.rv", &format!("${{{step}.rv}}"));
            options.push(version);
        }
        if self.rng.chance(10) {
            options.push(format!("limit={}", self.rng.pick(&["1", "2", "0", "-1", "x"])));
        }
        let (request, _) = self.accepting(Request::new("GET", with_query(&path, &options)), METADATA_LIST);
        self.send(request);
    }

    /// A few pages of a list, each begun where the last ended.
    fn pages(&mut self, kind: &'static Kind) {
        let mut path = format!("{}?limit={}", kind.collection(), 1 + self.rng.below(2));
        if kind.cluster || self.rng.chance(30) {
            path += "&labelSelector=seq%3D${ns}";
        }
        let mut last = self.send(Request::new("GET", path.clone()));
        for _ in 0..1 + self.rng.below(3) {
            let more = self.rng.pick(&["", "", "", "&resourceVersion=0", "&resourceVersionMatch=Exact"]);
            last = self.send(Request::new("GET", format!("{path}&continue=${{{last}.continue}}{more}")));
        }
    }

    pub(super) fn watch(&mut self) {
        let kind = self.kind();
        let mut options = vec!["watch=1".to_owned(), "labelSelector=seq%3D${ns}".to_owned()];
        let from = self.objects.iter().flat_map(|object| object.seen.first().copied()).min();
        let mut sentinel = None;
        match self.rng.below(10) {
            0..3 => {
                options.push(
                    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
                        .to_owned(),
                );
            }
            3..5 => sentinel = Some(self.sentinel(kind)),
            5..8 => {
                sentinel = Some(self.sentinel(kind));
                match from {
                    Some(step) => options.push(format!("resourceVersion=${{{step}.rv}}")),
                    None => options.push("resourceVersion=0".to_owned()),
                }
            }
            8 => options.push(
                self.rng
                    .pick(&[
                        "resourceVersion=x",
                        "sendInitialEvents=true",
                        "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&timeoutSeconds=1",
                        "resourceVersionMatch=Exact",
                        "fieldSelector=nope%3Dx",
                        "limit=x",
                        "allowWatchBookmarks=x&timeoutSeconds=1",
                        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1",
                    ])
                    .to_string(),
            ),
            _ => {
                sentinel = Some(self.sentinel(kind));
                options.push("resourceVersion=0&allowWatchBookmarks=true".to_owned());
            }
        }
        let request = Request::new("GET", with_query(&kind.collection(), &options));
        let (request, _) = self.accepting_streams(request);
        self.push(Action::Watch(request, sentinel));
    }

    fn sentinel(&mut self, kind: &'static Kind) -> Request {
        let id = self.steps.len();
        let name = if kind.cluster { format!("${{ns}}-zz-{id}") } else { format!("zz-{id}") };
        let mut object = kind.objects[0].clone();
        if !object.is_object() {
            object = serde_json::json!({});
        }
        object["apiVersion"] = kind.api.clone().into();
        object["kind"] = kind.kind.clone().into();
        object["metadata"] = serde_json::json!({"name": name, "labels": {"seq": "${ns}"}});
        json("POST", &kind.collection(), &[], &object)
    }

    /// The request with one of several forms of answer, and whether that is the whole object.
    fn accepting(&mut self, request: Request, metadata: &str) -> (Request, bool) {
        match self.rng.below(20) {
            0..3 => {
                let mut request = request.header("accept", TABLE);
                if self.rng.chance(40) {
                    let mark = if request.path.contains('?') { '&' } else { '?' };
                    let include = self.rng.pick(&["Object", "None", "Metadata", "Odd"]);
                    request.path = format!("{}{mark}includeObject={include}", request.path);
                }
                (request, false)
            }
            3..5 => (request.header("accept", metadata), false),
            5 => (request.header("accept", "application/yaml"), true),
            6 => (request.header("accept", &format!("{TABLE},application/json")), false),
            7 => (request.header("accept", "text/html, */*"), true),
            _ => (request, true),
        }
    }

    fn accepting_streams(&mut self, request: Request) -> (Request, bool) {
        match self.rng.below(10) {
            0 => (request.header("accept", TABLE), false),
            1 => (request.header("accept", METADATA), false),
            _ => (request, true),
        }
    }
}
