//! Keeps a [`Mirror`] true, by the watch loop of every controller: lists now and then, and at once when there is
//! reason to; a watch in between.

use std::sync::Arc;
use std::time::Duration;

use koinon_control::attempts::Backoff;
use koinon_control::watch::{Cut, Lists, Selection, Sink, Timing, Watch};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::call::Failure;
use crate::mirror::Mirror;
use crate::model::{Kind, Objects, Observed};
use crate::names::{GROUP, NAMESPACE, SECRET};

/// Objects of a list come in pages of this size.
const PAGE: u32 = 500;
/// One list that fails may be chance.
pub(crate) const SECOND_TRY: Duration = Duration::from_secs(1);
/// Short enough that a cluster which comes back is noticed while somebody waits for it.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How patient to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Of every single call.
    pub(crate) deadline: Duration,
    /// Between lists, if nothing happens.
    pub(crate) every: Duration,
}

/// Which objects.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct What {
    resource: ApiResource,
    namespace: Option<String>,
    name: Option<&'static str>,
}

/// Objects that are being followed.
#[derive(Default)]
pub(crate) struct Followed {
    mirror: Mutex<Mirror>,
    look: Arc<Notify>,
}

impl What {
    pub(crate) fn clusters(namespace: Option<&str>) -> What {
        let resource = ApiResource {
            group: GROUP.into(),
            version: "v1alpha1".into(),
            api_version: format!("{GROUP}/v1alpha1"),
            kind: "AMKOCluster".into(),
            plural: "amkoclusters".into(),
        };
        What { resource, namespace: namespace.map(str::to_owned), name: None }
    }

    pub(crate) fn objects(kind: &Kind) -> What {
        What { resource: kind.resource(), namespace: kind.namespace.clone(), name: None }
    }

    pub(crate) fn secret() -> What {
        What { namespace: Some(NAMESPACE.into()), name: Some(SECRET), resource: core("Secret", "secrets") }
    }

    pub(crate) fn namespace() -> What {
        What { namespace: None, name: Some(NAMESPACE), resource: core("Namespace", "namespaces") }
    }

    fn api(&self, client: &Client) -> Api<DynamicObject> {
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &self.resource),
            None => Api::all_with(client.clone(), &self.resource),
        }
    }

    fn fields(&self) -> Option<String> {
        self.name.map(|name| format!("metadata.name={name}"))
    }
}

fn core(kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: String::new(),
        version: "v1".into(),
        api_version: "v1".into(),
        kind: kind.into(),
        plural: plural.into(),
    }
}

impl Followed {
    pub(crate) fn objects(&self) -> Observed<Objects> {
        self.mirror.lock().objects()
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.mirror.lock().is_settled()
    }

    /// Something was, or may have been, written: look before the next decision.
    pub(crate) fn wrote(&self) {
        self.mirror.lock().wrote();
        self.look.notify_one();
    }

    pub(crate) fn lost(&self, failure: &Failure) {
        self.mirror.lock().lost(failure.to_string(), failure.is_refusal());
    }

    /// Whether the server says that this is not to be had.
    pub(crate) fn is_refused(&self) -> bool {
        self.mirror.lock().is_refused()
    }

    pub(crate) fn forget(&self) {
        self.mirror.lock().forget();
    }
}

/// Follows until there is no answer any more; gives the reason. Wakes whoever decides after every change.
pub(crate) async fn follow(
    client: &Client,
    what: &What,
    followed: &Followed,
    wake: &Notify,
    pace: Pace,
) -> Failure {
    let api = what.api(client);
    let path = api.resource_url().to_owned();
    let timing = Timing {
        page: PAGE,
        answer: pace.deadline,
        resync: Some(pace.every),
        backoff: Backoff::new(SECOND_TRY, LONGEST_PAUSE.min(pace.every)),
        ..Timing::default()
    };
    let selection = Selection { fields: what.fields(), lists: Lists::Paged, ..Selection::default() };
    let (sender, lost) = oneshot::channel();
    let sink = Mirroring { followed, wake, listing: false, tries: 1, lost: Some(sender) };
    let watch = Watch::new(api, sink, selection).timed(timing).named("", path);
    tokio::select! {
        biased;
        never = watch.relisting_on(followed.look.clone()).run() => match never {},
        failure = lost => failure.expect("the watch that runs has the sender"),
    }
}

/// Takes what a watch shows into a [`Mirror`].
struct Mirroring<'a> {
    followed: &'a Followed,
    wake: &'a Notify,
    /// Whether a list is on its way, or did not come to its end.
    listing: bool,
    /// How many lists in a row may fail: of the first one, after a new connection, not a single one.
    tries: u32,
    lost: Option<oneshot::Sender<Failure>>,
}

impl Sink<DynamicObject> for Mirroring<'_> {
    fn begin_list(&mut self) {
        self.listing = true;
        self.followed.mirror.lock().begin_list();
    }

    fn list(&mut self, object: DynamicObject) {
        self.followed.mirror.lock().list(object);
    }

    /// Whoever decides is woken only if something is different from before.
    fn end_list(&mut self, version: u64) {
        (self.listing, self.tries) = (false, 2);
        let mut mirror = self.followed.mirror.lock();
        let before = (mirror.is_settled(), mirror.objects());
        mirror.end_list(version);
        if before != (mirror.is_settled(), mirror.objects()) {
            self.wake.notify_one();
        }
    }

    fn drop_list(&mut self) {
        self.followed.mirror.lock().drop_list();
    }

    fn apply(&mut self, object: DynamicObject) {
        if self.followed.mirror.lock().apply(object) {
            self.wake.notify_one();
        }
    }

    fn delete(&mut self, object: DynamicObject) {
        if self.followed.mirror.lock().delete(&object) {
            self.wake.notify_one();
        }
    }

    /// A watch that fails only makes changes arrive later; lists that fail say that there is no answer.
    fn cut(&mut self, cut: &Cut) {
        if !std::mem::take(&mut self.listing) {
            return tracing::debug!(%cut, "watch failed");
        }
        self.tries -= 1;
        if self.tries == 0
            && let Some(lost) = self.lost.take()
        {
            // Whoever follows is gone only together with this.
            let _ = lost.send(Failure::from(cut));
        }
    }
}

/// A set of followed objects with their places.
pub(crate) type Followeds = Vec<(What, Arc<Followed>)>;
