//! A table of malformed requests: both servers refuse each with the same code and the same reason.

use anyhow::Result;
use koinon_conformance::client::{Client, Request};
use koinon_conformance::harness::Pair;
use koinon_conformance::sequence::Observed;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    method: String,
    path: String,
    body: Option<String>,
    #[serde(rename = "type")]
    content_type: Option<String>,
    accept: Option<String>,
    authorization: Option<String>,
    user: Option<String>,
    big: Option<usize>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_requests_fail_alike() -> Result<()> {
    let pair = tokio::task::spawn_blocking(Pair::start).await??;
    let cases: Vec<Case> = serde_saphyr::from_str(include_str!("../data/bad-input.yaml"))?;
    tokio::try_join!(prepare(&pair.stock.client), prepare(&pair.subject.client))?;
    let mut differences = Vec::new();
    for case in &cases {
        let request = case.request();
        let (stock, subject) =
            tokio::join!(pair.stock.client.send(&request), pair.subject.client.send(&request));
        let told = |answer: Result<_>| match answer.map(Observed::from) {
            Ok(observed) => {
                (observed.status, observed.reason().to_owned(), observed.body["message"].to_string())
            }
            Err(error) => (0, format!("{error:#}"), String::new()),
        };
        let (stock, subject) = (told(stock), told(subject));
        if (stock.0, &stock.1) != (subject.0, &subject.1) || stock.0 == 0 {
            let mut body = request.body.clone().unwrap_or_default();
            body.truncate(200);
            differences.push(format!(
                "{} {} {:?} {body}\n- {} {} {}\n+ {} {} {}\n",
                request.method,
                request.path,
                request.headers,
                stock.0,
                stock.1,
                stock.2,
                subject.0,
                subject.1,
                subject.2
            ));
        }
    }
    println!("{} malformed requests", cases.len());
    if differences.is_empty() {
        return Ok(());
    }
    let report =
        format!("{} requests differ (- stock, + subject)\n{}", differences.len(), differences.join("\n"));
    if let Some(folder) = std::env::var_os("KOINON_DIFFERENCES") {
        std::fs::create_dir_all(&folder)?;
        std::fs::write(std::path::Path::new(&folder).join("bad-input.txt"), &report)?;
    }
    anyhow::bail!("{report}")
}

impl Case {
    /// Short paths are below the namespace: `configmaps/x`, `apps/v1/deployments/x`.
    fn request(&self) -> Request {
        let path = match self.path.split('/').collect::<Vec<_>>()[..] {
            ["", ..] => self.path.clone(),
            [group, version, ref rest @ ..] if version.starts_with('v') && !rest.is_empty() => {
                format!("/apis/{group}/{version}/namespaces/bad-input/{}", rest.join("/"))
            }
            _ => format!("/api/v1/namespaces/bad-input/{}", self.path),
        };
        let mut request = Request::new(&self.method, path);
        if let Some(body) = &self.body {
            let big = "x".repeat(self.big.unwrap_or(0));
            request = request.body(body.replace("BIG", &big));
        }
        let content_type =
            self.content_type.as_deref().or_else(|| self.body.as_ref().map(|_| "application/json"));
        let headers = [
            ("content-type", content_type),
            ("accept", self.accept.as_deref()),
            ("authorization", self.authorization.as_deref()),
            ("impersonate-user", self.user.as_deref()),
        ];
        for (name, value) in headers {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                request = request.header(name, value);
            }
        }
        request
    }
}

async fn prepare(client: &Client) -> Result<()> {
    let inside = "/api/v1/namespaces/bad-input";
    let deployment = json!({"metadata": {"name": "there"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let resources = json!({"requests": {"cpu": "1", "memory": "8Mi"}});
    let pod = json!({"metadata": {"name": "here"}, "spec": {"containers": [
        {"name": "c", "image": "i", "resources": resources},
    ]}});
    for (path, body) in [
        ("/api/v1/namespaces".to_owned(), json!({"metadata": {"name": "bad-input"}})),
        (format!("{inside}/serviceaccounts"), json!({"metadata": {"name": "default"}})),
        (format!("{inside}/configmaps"), json!({"metadata": {"name": "there"}, "data": {"k": "v"}})),
        ("/apis/apps/v1/namespaces/bad-input/deployments".to_owned(), deployment),
        (format!("{inside}/pods"), pod),
    ] {
        let answer = client.send(&Request::json("POST", path, &body)).await?;
        anyhow::ensure!(answer.status.is_success(), "{}", answer.json());
    }
    Ok(())
}
