//! Keeps a [`Mirror`] true: lists now and then, and at once when there is reason to; a watch in between.

use std::sync::Arc;
use std::time::Duration;

use koinon_control::watch;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::watcher::Event;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::call::{Failure, within};
use crate::mirror::{Answer, Mirror, version};
use crate::model::{Kind, Objects, Sight};
use crate::names::{GROUP, NAMESPACE, SECRET};

/// Objects of a list come in pages of this size.
const PAGE: u32 = 500;
/// One list that fails may be chance.
pub(crate) const SECOND_TRY: Duration = Duration::from_secs(1);

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
    look: Notify,
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
    pub(crate) fn objects(&self) -> Sight<Objects> {
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
    if let Err(failure) = look(&api, what, followed, wake, pace).await {
        return failure;
    }
    let fields = what.fields().unwrap_or_default();
    let on = |event| {
        let news = match event {
            Event::Apply(object) => followed.mirror.lock().event(object, false),
            Event::Delete(object) => followed.mirror.lock().event(object, true),
            // What the watch missed while it was away, only a list can tell.
            Event::InitDone => {
                followed.look.notify_one();
                false
            }
            Event::Init | Event::InitApply(_) => false,
        };
        if news {
            wake.notify_one();
        }
    };
    tokio::select! {
        never = watch::follow_fields(api.clone(), &fields, on) => match never {},
        failure = looks(&api, what, followed, wake, pace) => failure,
    }
}

async fn looks(
    api: &Api<DynamicObject>,
    what: &What,
    followed: &Followed,
    wake: &Notify,
    pace: Pace,
) -> Failure {
    let mut last = Instant::now();
    loop {
        tokio::select! {
            () = followed.look.notified() => {}
            () = tokio::time::sleep_until(last + pace.every) => {}
        }
        if look(api, what, followed, wake, pace).await.is_err() {
            tokio::time::sleep(SECOND_TRY).await;
            if let Err(failure) = look(api, what, followed, wake, pace).await {
                return failure;
            }
        }
        last = Instant::now();
    }
}

/// One complete list. Whoever decides is woken only if something is different from before.
async fn look(
    api: &Api<DynamicObject>,
    what: &What,
    followed: &Followed,
    wake: &Notify,
    pace: Pace,
) -> Result<(), Failure> {
    loop {
        let asked = followed.mirror.lock().ask();
        let (point, objects) = list(api, what, pace).await?;
        let mut mirror = followed.mirror.lock();
        let before = (mirror.is_settled(), mirror.objects());
        if mirror.listed(asked, point, objects) == Answer::Taken {
            let changed = before != (mirror.is_settled(), mirror.objects());
            drop(mirror);
            if changed {
                wake.notify_one();
            }
            return Ok(());
        }
    }
}

async fn list(
    api: &Api<DynamicObject>,
    what: &What,
    pace: Pace,
) -> Result<(u64, Vec<DynamicObject>), Failure> {
    let mut params = ListParams { limit: Some(PAGE), field_selector: what.fields(), ..ListParams::default() };
    let mut objects = Vec::new();
    loop {
        let page = within(pace.deadline, api.list(&params)).await?;
        let metadata = page.metadata;
        objects.extend(page.items);
        match metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok((version(metadata.resource_version.as_deref()), objects)),
        }
    }
}

/// A set of followed objects with their places.
pub(crate) type Followeds = Vec<(What, Arc<Followed>)>;
