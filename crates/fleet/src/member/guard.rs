//! What stands between controllers and one member: every request passes here, and none can hang, crowd or
//! reach the wrong cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use koinon_api::membership::{Claims, ClusterClaim, ClusterId, GROUP, VERSION};
use koinon_control::bounds::{self, Bounded, Bounds, Held};
use koinon_control::client::Urgent;
use koinon_control::words::{SENTENCE, clean};
use kube::Client;
use kube::client::Body;
use parking_lot::{Mutex, RwLock};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::{Instant, timeout, timeout_at};

use super::Limits;
use super::circuit::{Circuit, Pass};
use super::error::{Away, cause};
use super::identity::{Identity, Seen};
use super::saying::{refusal, tidied};
use crate::election::Fence;
use crate::metrics::{Metrics, Outcome};

/// Whose turn a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Ordinary,
    /// A permit that is kept free of everything else.
    Reserved,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// So many kinds of one member are listed at once: who is slow about it must not keep the others waiting.
const LISTS_AT_ONCE: usize = 2;
/// No UID is longer, and no version worth showing.
const LONGEST_UID: usize = 128;
const LONGEST_VERSION: usize = 64;
const LONGEST_NAME: usize = 253;
/// So many claims of a cluster are shown in its ClusterProfile, beside the well-known ones.
const MOST_CLAIMS: usize = 64;

pub(super) struct Guard {
    member: ClusterId,
    link: RwLock<Client>,
    permits: Semaphore,
    /// For what may not wait behind everything else.
    reserved: Semaphore,
    listing: Semaphore,
    held: Arc<Held>,
    circuit: Mutex<Circuit>,
    identity: Mutex<Identity>,
    /// Whether it is a member no more: what it still does is not measured, for nobody would forget it again.
    retired: AtomicBool,
    admits: watch::Sender<bool>,
    limits: Limits,
    metrics: Metrics,
}

impl Guard {
    pub(super) fn new(
        member: ClusterId,
        link: Client,
        uid: Option<String>,
        limits: Limits,
        metrics: Metrics,
    ) -> Guard {
        Guard {
            member,
            link: RwLock::new(link),
            permits: Semaphore::new(limits.concurrency),
            reserved: Semaphore::new(1),
            listing: Semaphore::new(LISTS_AT_ONCE),
            held: Held::new(limits.held),
            circuit: Mutex::new(Circuit::new()),
            identity: Mutex::new(Identity::new(uid)),
            retired: AtomicBool::new(false),
            admits: watch::Sender::new(true),
            limits,
            metrics,
        }
    }

    /// Goes another way from now on. Calls that are on their way end as they will.
    pub(super) fn relink(&self, link: Client) {
        *self.link.write() = link;
        self.identity.lock().doubt();
    }

    /// Has it shown how much is held because of the member.
    pub(super) fn show_held(&self) {
        self.metrics.held(&self.member, &self.held);
    }

    pub(super) fn held(&self) -> &Arc<Held> {
        &self.held
    }

    pub(super) async fn list_turn(&self) -> Option<SemaphorePermit<'_>> {
        self.listing.acquire().await.ok()
    }

    pub(super) fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    fn count(&self, outcome: Outcome) {
        if !self.retired.load(Ordering::Relaxed) {
            self.metrics.call(self.member.as_str(), outcome);
        }
    }

    fn answered_after(&self, time: Duration) {
        if !self.retired.load(Ordering::Relaxed) {
            self.metrics.answered_after(self.member.as_str(), time.as_secs_f64());
        }
    }

    /// A connection failed: whoever comes back may be somebody else.
    pub(super) fn doubt(&self) {
        self.identity.lock().doubt();
    }

    pub(super) fn is_in_doubt(&self) -> bool {
        !self.identity.lock().is_confirmed(Instant::now(), Duration::MAX)
    }

    pub(super) fn expect(&self, uid: Option<String>) {
        self.identity.lock().expect(uid);
    }

    pub(super) fn uid(&self) -> Option<String> {
        self.identity.lock().expected().map(Into::into)
    }

    pub(super) fn open(&self, why: &str) {
        self.circuit.lock().open(why);
        self.announce();
    }

    /// Done when calls go through.
    pub(super) async fn admitted(&self) {
        // The sender lives as long as the guard, so this cannot fail.
        let _ = self.admits.subscribe().wait_for(|admits| *admits).await;
    }

    /// A call got no answer that helps.
    fn failed(&self, pass: Pass, why: &str, away: Option<&Away>) {
        self.circuit.lock().failed(pass, why);
        let late = matches!(away, Some(Away::NoAnswer(_)));
        self.count(if late { Outcome::Timeout } else { Outcome::Failed });
        self.doubt();
    }

    fn announce(&self) {
        let admits = self.circuit.lock().admits();
        self.admits.send_if_modified(|before| std::mem::replace(before, admits) != admits);
    }

    /// Sends a controller's request.
    pub(super) async fn send(
        &self,
        mut request: Request<Body>,
        lane: Lane,
        fence: Option<&Fence>,
    ) -> Result<Response<Bounded>, BoxError> {
        let begun = Instant::now();
        let mut deadline = begun + self.limits.deadline;
        if let Some(fence) = fence.filter(|_| request.method() != Method::GET) {
            deadline = deadline.min(fence.until());
            if deadline <= begun {
                self.count(Outcome::Offline);
                return Err(Away::NotLed.into());
            }
        }
        let attempt = self.admit()?;
        let permits = match lane {
            Lane::Ordinary => &self.permits,
            Lane::Reserved => &self.reserved,
        };
        let _permit = match timeout(self.limits.patience, permits.acquire()).await {
            Ok(permit) => permit?,
            Err(_) => {
                self.count(Outcome::Busy);
                return Err(Away::Busy(self.limits.concurrency).into());
            }
        };
        let watch = bounds::is_watch(&request);
        let lasting = watch || request.method() != Method::GET;
        let within = if lasting { self.limits.identity_fresh_for } else { Duration::MAX };
        if let Err(error) = self.verify(within, deadline).await {
            attempt.unverified(&*error);
            return Err(error);
        }
        if lane == Lane::Reserved {
            request.extensions_mut().insert(Urgent);
        }
        let sent = async {
            let bounds = self.bounds(&request);
            let response = self.pass(request, bounds).await?;
            // The body of a watch has no end; whoever reads it looks for signs of life. Errors do end.
            if watch && response.status().is_success() {
                return Ok(response);
            }
            let (head, body) = response.into_parts();
            let body = body.collect().await.map_err(kube::Error::Service)?.to_bytes();
            let body = if head.status.is_success() { body } else { tidied(&body) };
            Ok(Response::from_parts(head, Bounded::whole(body)))
        };
        let started = Instant::now();
        let outcome = timeout_at(deadline, sent)
            .await
            .unwrap_or_else(|_| Err(kube::Error::Service(Away::NoAnswer(deadline - begun).into())));
        attempt.ended(&outcome, started.elapsed());
        outcome.map_err(Into::into)
    }

    /// How much may come back, by what is asked for.
    fn bounds(&self, request: &Request<Body>) -> Bounds {
        let bounds = self.limits.bounds;
        let query = request.uri().query().unwrap_or_default();
        let is_page = query.split('&').any(|pair| pair.starts_with("limit="));
        let answer = match *request.method() {
            Method::GET if is_page => self.limits.page,
            Method::GET => bounds.answer,
            _ => bounds.line,
        };
        Bounds { answer: answer.min(bounds.answer), ..bounds }
    }

    fn admit(&self) -> Result<Attempt<'_>, Away> {
        if let Some(other) = self.identity.lock().other() {
            self.count(Outcome::Offline);
            return Err(Away::Another(other));
        }
        let admitted = self.circuit.lock().admit();
        self.announce();
        match admitted {
            Ok(pass) => Ok(Attempt { guard: self, pass: Some(pass) }),
            Err(why) => {
                self.count(Outcome::Offline);
                Err(Away::Offline(why))
            }
        }
    }

    /// Makes sure that the cluster there is still the one that was joined: that it was confirmed `within`
    /// this time, and since a connection failed, for whoever comes back may be somebody else.
    async fn verify(&self, within: Duration, deadline: Instant) -> Result<(), BoxError> {
        if self.identity.lock().is_confirmed(Instant::now(), within) {
            return Ok(());
        }
        let looked = timeout_at(deadline, self.look()).await;
        let uid = looked.unwrap_or_else(|_| Err(Away::NoAnswer(self.limits.deadline).into()))?;
        match self.saw(&uid) {
            Seen::Itself => Ok(()),
            Seen::Stranger => Err(Away::Offline("it is not known yet which cluster it is".into()).into()),
            Seen::Another(why) => Err(Away::Another(why).into()),
        }
    }

    /// Asks who is there, past circuit and permits, but not for long. Gives the UID.
    pub(super) async fn probe(&self, patience: Duration) -> Result<(String, Seen), String> {
        let deadline = patience.min(self.limits.probe_deadline);
        let uid = match timeout(deadline, self.look()).await {
            Ok(Ok(uid)) => uid,
            Ok(Err(error)) => return Err(self.probe_failed(cause(&*error))),
            Err(_) => {
                let why = format!("no answer within {} s", deadline.as_secs_f32());
                return Err(self.probe_failed(why));
            }
        };
        let seen = self.saw(&uid);
        if seen == Seen::Itself {
            self.circuit.lock().probe_answered();
            self.announce();
        }
        Ok((uid, seen))
    }

    fn probe_failed(&self, why: String) -> String {
        self.doubt();
        self.circuit.lock().failed(Pass::Ordinary, &why);
        self.announce();
        why
    }

    fn saw(&self, uid: &str) -> Seen {
        self.identity.lock().saw(uid, Instant::now())
    }

    async fn look(&self) -> Result<String, BoxError> {
        #[derive(Deserialize)]
        struct Named {
            metadata: Uid,
        }
        #[derive(Deserialize)]
        struct Uid {
            uid: String,
        }
        let named: Named = self.read("/api/v1/namespaces/kube-system").await?;
        let uid = named.metadata.uid;
        if uid.len() > LONGEST_UID || uid.chars().any(char::is_control) {
            return Err("the UID of its kube-system namespace is none".into());
        }
        Ok(uid)
    }

    /// The version of the member's API server.
    pub(super) async fn version(&self, patience: Duration) -> Result<String, BoxError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Version {
            git_version: String,
        }
        let version = self.read_in_time::<Version>("/version", patience).await?;
        Ok(clean(&version.git_version, LONGEST_VERSION))
    }

    /// What the cluster there says of itself; without the definition it says nothing.
    pub(super) async fn claims(&self, namespace: &str, patience: Duration) -> Result<Claims, BoxError> {
        #[derive(Deserialize)]
        struct List {
            items: Vec<ClusterClaim>,
        }
        let path = format!("/apis/{GROUP}/{VERSION}/namespaces/{namespace}/clusterclaims");
        match self.read_in_time::<List>(&path, patience).await {
            Ok(mut list) => {
                for claim in &mut list.items {
                    claim.value = clean(&claim.value, SENTENCE);
                    for name in [&mut claim.name, &mut claim.metadata.name].into_iter().flatten() {
                        *name = clean(name, LONGEST_NAME);
                    }
                }
                Ok(Claims::of(&list.items).at_most(MOST_CLAIMS))
            }
            Err(error) if error.downcast_ref::<Unfit>().is_some_and(|unfit| unfit.0 == 404) => {
                Ok(Claims::default())
            }
            Err(error) => Err(error),
        }
    }

    async fn read_in_time<T: DeserializeOwned>(&self, path: &str, patience: Duration) -> Result<T, BoxError> {
        let deadline = patience.min(self.limits.probe_deadline);
        let read = timeout(deadline, self.read(path)).await;
        read.map_err(|_| Away::NoAnswer(deadline))?
    }

    async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, BoxError> {
        let request = Request::get(path).header("accept", "application/json");
        // Whether it is there must not depend on what else is asked of it.
        let request = request.extension(Urgent).body(Body::empty())?;
        let bounds = Bounds { answer: self.limits.probe_answer, ..self.limits.bounds };
        let response = self.pass(request, bounds).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        if status.is_success() {
            return Ok(serde_json::from_slice(&body)?);
        }
        Err(Unfit(status.as_u16(), refusal(status, &body)).into())
    }

    /// The only place where something goes to the member, and something comes back.
    async fn pass(&self, mut request: Request<Body>, bounds: Bounds) -> kube::Result<Response<Bounded>> {
        let link = self.link.read().clone();
        let watch = bounds::is_watch(&request);
        bounds::ask_plainly(&mut request);
        let response = link.send(request).await?;
        bounds::bounded(response, watch, bounds, Some(&self.held))
            .map_err(|excess| kube::Error::Service(excess.into()))
    }
}

/// A call that was let through, until it ends; one that is dropped before counts as neither good nor bad.
struct Attempt<'a> {
    guard: &'a Guard,
    pass: Option<Pass>,
}

impl Attempt<'_> {
    fn ended(mut self, outcome: &kube::Result<Response<Bounded>>, after: Duration) {
        let Some(pass) = self.pass.take() else { return };
        let guard = self.guard;
        match outcome {
            Ok(response) if !is_unable(response.status()) => {
                guard.circuit.lock().answered(pass);
                guard.answered_after(after);
                let good = response.status().is_success();
                guard.count(if good { Outcome::Ok } else { Outcome::Refused });
            }
            // One API of several may be away behind a server that is well: the probe tells which it is.
            Ok(response) if response.status() == StatusCode::SERVICE_UNAVAILABLE => {
                guard.circuit.lock().abandoned(pass);
                guard.count(Outcome::Failed);
            }
            Ok(response) => {
                guard.circuit.lock().failed(pass, &format!("it answered {}", response.status()));
                guard.count(Outcome::Failed);
            }
            Err(error) => guard.failed(pass, &cause(error), Away::within(error)),
        }
        guard.announce();
    }

    /// Who is there could not be found out, so nothing was sent.
    fn unverified(mut self, error: &(dyn std::error::Error + 'static)) {
        let Some(pass) = self.pass.take() else { return };
        match error.downcast_ref::<Away>() {
            // It answered, and that is what is wrong with it.
            Some(Away::Another(_) | Away::Offline(_)) => {
                self.guard.circuit.lock().abandoned(pass);
                self.guard.count(Outcome::Offline);
            }
            away => self.guard.failed(pass, &cause(error), away),
        }
        self.guard.announce();
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if let Some(pass) = self.pass {
            self.guard.circuit.lock().abandoned(pass);
            self.guard.announce();
        }
    }
}

/// An answer that does not help.
#[derive(Debug, thiserror::Error)]
#[error("{1}")]
struct Unfit(u16, String);

/// Whether the answer says that the server, or something on the way to it, cannot serve now.
fn is_unable(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT)
}
