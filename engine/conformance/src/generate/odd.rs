//! Requests that no client should send.

use serde_json::json;

use super::Plan;
use crate::client::Request;

impl Plan {
    pub(super) fn odd(&mut self) {
        let (kind, name, _) = self.target();
        let collection = kind.collection();
        let item = format!("{collection}/{name}");
        let object = kind.object(&mut self.rng, &name).to_string();
        let post = |query: &str| {
            Request::new("POST", format!("{collection}{query}")).header("content-type", "application/json")
        };
        let patch =
            |content_type: &str| Request::new("PATCH", item.clone()).header("content-type", content_type);
        let delete = |body: serde_json::Value| Request::json("DELETE", item.clone(), &body);
        let request = match self.rng.below(44) {
            0 => Request::new("GET", "/apis/nowhere.example.com/v1/things"),
            1 => Request::new("GET", "/apis/apps/v9/deployments"),
            2 => Request::new("GET", "/api/v1/namespaces/${ns}/nothings"),
            3 => Request::json("POST", item, &json!({})),
            4 => Request::json("PUT", collection, &json!({})),
            5 => Request::new("PATCH", item).header("content-type", "application/json").body("{}"),
            6 => Request::new("PATCH", item).body("{}"),
            7 => post("").body("{\"metadata\": {\"name\": "),
            8 => post("").body(""),
            9 => post("").body("[]"),
            10 => post("").body("\"text\""),
            11 => post("").body("null"),
            12 => post("").body(object.replace('}', "")),
            13 => Request::new("POST", collection).header("content-type", "text/plain").body(object),
            14 => Request::new("POST", collection).header("content-type", "application/xml").body(object),
            15 => Request::new("POST", collection).body(object),
            16 => Request::new("GET", item).header("accept", "application/xml"),
            17 => Request::new("GET", item).header("accept", "application/json;as=Table;v=v9;g=meta.k8s.io"),
            18 => post("?dryRun=Some").body(object),
            19 => post("?fieldValidation=Hard").body(object),
            20 => post(&format!("?fieldManager={}", "x".repeat(200))).body(object),
            21 => post("?fieldManager=a%00b").body(object),
            22 => delete(json!({"propagationPolicy": "Odd"})),
            23 => delete(json!({"propagationPolicy": "Orphan", "orphanDependents": true})),
            24 => delete(json!({"gracePeriodSeconds": -5, "propagationPolicy": "Background"})),
            25 => delete(json!({"kind": "Other", "apiVersion": "v1"})),
            26 => delete(json!({"dryRun": ["Odd"]})),
            27 => Request::new("DELETE", item).header("content-type", "application/json").body("{"),
            28 => Request::new("DELETE", format!("{item}?gracePeriodSeconds=x")),
            29 => patch("application/json-patch+json").body("{}"),
            30 => patch("application/json-patch+json").body("[{]"),
            31 => patch("application/merge-patch+json").body("[]"),
            32 => patch("application/merge-patch+json").body("{"),
            33 => patch("application/strategic-merge-patch+json").body("[1]"),
            34 => patch("application/apply-patch+yaml").body("a: b: c"),
            35 => Request::new("PATCH", format!("{item}?fieldManager=m"))
                .header("content-type", "application/apply-patch+yaml")
                .body("metadata: {name: x}"),
            36 => Request::new("PATCH", format!("{item}?fieldManager=m&force=maybe"))
                .header("content-type", "application/apply-patch+yaml")
                .body(object),
            37 => Request::new("PATCH", format!("{item}?force=true"))
                .header("content-type", "application/merge-patch+json")
                .body("{}"),
            38 => Request::new("GET", format!("{item}/nothing")),
            39 => Request::new("GET", format!("{collection}?limit=2&continue=bm90LWEtdG9rZW4")),
            40 => Request::new("GET", format!("{collection}?fieldSelector=%3D%3D")),
            41 => {
                let text = object.replacen("\"apiVersion\"", "\"kind\":\"Twice\",\"apiVersion\"", 1);
                let validation = self.rng.pick(&["Strict", "Warn", "Ignore"]);
                post(&format!("?fieldValidation={validation}")).body(text)
            }
            42 => Request::new("POST", collection)
                .header("content-type", "application/yaml")
                .body(format!("apiVersion: {}\nkind: {}\nmetadata:\n\tname: x\n", kind.api, kind.kind)),
            _ => post("")
                .body(format!("{{\"metadata\":{{\"annotations\":{{\"a\":\"{}\"}}}}}}", "x".repeat(300_000))),
        };
        self.send(request);
    }
}
