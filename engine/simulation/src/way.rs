//! The way from one party to another.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use http::{Request, Response};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;
use tower::ServiceExt as _;

use crate::dice::Dice;
use crate::fault::{Fault, Kind};
use crate::fuse::Fuse;
use crate::network::Network;
use crate::stream::{Faults, expose};
use crate::trace::Write;

/// What single requests meet, besides what all meet.
pub(crate) type Rule = Arc<dyn Fn(&Write) -> Option<Fault> + Send + Sync>;

/// The way from one party to another, with what goes wrong on it.
pub struct Way {
    from: String,
    to: String,
    faults: watch::Sender<Faults>,
    rule: Mutex<Option<Rule>>,
    dice: Mutex<Dice>,
    requests: Mutex<usize>,
    /// What was answered to those who do not mind that it is old.
    old: Mutex<BTreeMap<String, (http::response::Parts, Bytes)>>,
}

impl Way {
    pub(crate) fn new(seed: u64, from: &str, to: &str) -> Arc<Way> {
        Arc::new(Way {
            from: from.to_owned(),
            to: to.to_owned(),
            faults: watch::Sender::new(Faults::default()),
            rule: Mutex::default(),
            dice: Mutex::new(Dice::of(seed, &format!("{from} to {to}"))),
            requests: Mutex::new(0),
            old: Mutex::default(),
        })
    }

    pub(crate) fn set(&self, faults: &[Fault]) -> bool {
        self.faults.send_if_modified(|now| {
            let changed = **now != *faults;
            *now = faults.into();
            changed
        })
    }

    pub(crate) fn single_out(&self, rule: Option<Rule>) {
        *self.rule.lock() = rule;
    }

    /// What a request meets now.
    fn faults_for(&self, request: &Write) -> Vec<Fault> {
        let rule = self.rule.lock().clone();
        let own = rule.and_then(|rule| rule(request));
        self.faults.borrow().iter().copied().chain(own).collect()
    }

    /// How many requests went this way.
    pub fn requests(&self) -> usize {
        *self.requests.lock()
    }

    pub(crate) async fn carry(
        &self,
        network: &Network,
        fuse: &Fuse,
        request: Request<kube::client::Body>,
    ) -> io::Result<Response<Body>> {
        let kind = Kind::of(request.method(), request.uri().query().unwrap_or_default());
        let write = Write {
            from: self.from.clone(),
            to: self.to.clone(),
            method: request.method().to_string(),
            path: request.uri().path().to_owned(),
        };
        if fuse.is_blown() {
            // Whoever sent it is no more.
            std::future::pending::<()>().await;
        }
        *self.requests.lock() += 1;
        let noted = (kind == Kind::Write && network.is_notable(&write)).then(|| network.note_write(&write));
        if kind == Kind::Write {
            network.ask_witnesses(&write).await;
        }
        let answer = self.pass(network, kind, &write, request).await;
        let said = match &answer {
            Ok((answer, Heard::Yes)) => answer.status().as_u16().to_string(),
            Ok((answer, Heard::No)) => format!("{}, answer lost", answer.status().as_u16()),
            Err(error) => error.kind().to_string(),
        };
        if let Some(number) = noted {
            network.trace().ended(number, &said);
        }
        if fuse.burns(noted.is_some()) {
            network.note(format!("{} ends at {write}", self.from));
            std::future::pending::<()>().await;
        }
        match answer? {
            (_, Heard::No) => Err(io::ErrorKind::ConnectionReset.into()),
            (answer, Heard::Yes) if kind.is_watch() => {
                let faults = self.faults.subscribe();
                Ok(answer.map(|body| expose(body, faults)))
            }
            (answer, Heard::Yes) => Ok(answer),
        }
    }

    /// Through whatever is in the way.
    async fn pass(
        &self,
        network: &Network,
        kind: Kind,
        asked: &Write,
        request: Request<kube::client::Body>,
    ) -> io::Result<(Response<Body>, Heard)> {
        for fault in self.faults_for(asked) {
            if let Fault::Delay(delay) = fault {
                tokio::time::sleep(delay).await;
            }
        }
        // It may have changed meanwhile.
        let faults = self.faults_for(asked);
        let mut lost = false;
        for fault in &faults {
            match fault {
                Fault::Cut => return Err(io::ErrorKind::ConnectionRefused.into()),
                Fault::Hang => std::future::pending().await,
                Fault::StallWatches if kind.is_watch() => std::future::pending().await,
                Fault::Refuse { what, code, one_in } if what.include(kind) && self.happens(*one_in) => {
                    return Ok((refusal(*code), Heard::Yes));
                }
                Fault::Lose { one_in } if kind == Kind::Write && self.happens(*one_in) => lost = true,
                _ => {}
            }
        }
        let late = faults.iter().find_map(|fault| match fault {
            Fault::Late { by, one_in } if kind == Kind::Write && self.happens(*one_in) => Some(*by),
            _ => None,
        });
        if let Some(by) = late {
            self.deliver_late(network, asked, request, by);
            return std::future::pending().await;
        }
        let stale = faults.iter().any(|fault| matches!(fault, Fault::Stale(_)));
        let answer = self.ask(network.server(&self.to)?, request, stale).await?;
        Ok((answer, if lost { Heard::No } else { Heard::Yes }))
    }

    /// Carries a request out later, whether or not anybody still waits for it.
    fn deliver_late(
        &self,
        network: &Network,
        asked: &Write,
        request: Request<kube::client::Body>,
        by: Duration,
    ) {
        let (network, asked) = (network.clone(), asked.clone());
        tokio::spawn(async move {
            tokio::time::sleep(by).await;
            let Ok(server) = network.server(&asked.to) else { return };
            let answer = server.oneshot(request).await;
            if network.is_notable(&asked)
                && let Ok(answer) = answer
            {
                network.note(format!("{asked} arrives now, {by:?} late: {}", answer.status().as_u16()));
            }
        });
    }

    fn happens(&self, one_in: u32) -> bool {
        self.dice.lock().one_in(one_in)
    }

    async fn ask(
        &self,
        server: Router,
        request: Request<kube::client::Body>,
        stale: bool,
    ) -> io::Result<Response<Body>> {
        let uri = request.uri().to_string();
        let query = request.uri().query().unwrap_or_default();
        let any_age = query.split('&').any(|part| part == "resourceVersion=0") && !query.contains("watch=");
        if !any_age {
            return server.oneshot(request).await.map_err(io::Error::other);
        }
        if stale && let Some((head, body)) = self.old.lock().get(&uri).cloned() {
            return Ok(Response::from_parts(head, body.into()));
        }
        let answer = server.oneshot(request).await.map_err(io::Error::other)?;
        let (head, body) = answer.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.map_err(io::Error::other)?;
        self.old.lock().insert(uri, (head.clone(), body.clone()));
        Ok(Response::from_parts(head, body.into()))
    }
}

enum Heard {
    Yes,
    No,
}

fn refusal(code: u16) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "a simulated fault",
        "code": code,
    });
    let mut answer = Response::builder().status(code).header("content-type", "application/json");
    if matches!(code, 429 | 503) {
        answer = answer.header("retry-after", "1");
    }
    answer.body(status.to_string().into()).expect("an answer")
}
