//! Makes the fleet be what the Federation says, and the Federation say how the fleet is.

mod renewing;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Secret;
use koinon_api::membership::{
    Claims, ClusterClaim, ClusterId, ClusterProfile, Federation, FederationStatus, MEMBER_SECRET,
};
use koinon_control::call::within_deadline;
use koinon_control::events::{self, Recorder, Weight};
use koinon_control::queue::{Next, Queue, work};
use koinon_control::words::{SENTENCE, clean};
use koinon_control::{Key, View, call};
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Api, Client, Resource, ResourceExt as _};
use parking_lot::{Mutex, RwLock};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::formation::{Formation, Part, Role, Rosters, Way, disagreements, formation};
use super::profile::{self, Step};
use super::status::{self, Lead};
use crate::fleet::{Fleet, Link, Wanted};

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Whose federation is formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The one of the federation's API server.
    Federation,
    /// The one that a cluster takes part in, by its claims.
    Cluster,
}

/// Follows Federation, Secrets and claims beside one API server.
pub struct Controller {
    client: Client,
    namespace: String,
    kind: Kind,
    fleet: Arc<Fleet>,
    /// Members that live in this process.
    direct: BTreeMap<ClusterId, Client>,
    views: Views,
    leads: RwLock<BTreeMap<ClusterId, Lead>>,
    rosters: RwLock<Rosters>,
    queue: Arc<Queue<()>>,
    /// What is wrong, as it was told last.
    told: Mutex<Vec<String>>,
    formed: watch::Sender<Option<Arc<Formation>>>,
}

struct Views {
    federations: Arc<View<Federation>>,
    secrets: Arc<View<Secret>>,
    claims: Arc<View<ClusterClaim>>,
    profiles: Arc<View<ClusterProfile>>,
}

impl Controller {
    /// A controller beside the API server of `client`, where Federation, Secrets and claims are in
    /// `namespace`. The client should retry nothing by itself: it is also the way to the member next door.
    pub fn new(client: Client, namespace: &str, kind: Kind, fleet: Arc<Fleet>) -> Controller {
        let queue = Arc::new(Queue::new(FIRST_PAUSE, LONGEST_PAUSE));
        fleet.metrics().queue("membership", &queue, |queue| queue.waiting());
        let views = Views {
            federations: requeueing(&queue),
            secrets: requeueing(&queue),
            claims: requeueing(&queue),
            profiles: requeueing(&queue),
        };
        Controller {
            client,
            namespace: namespace.to_owned(),
            kind,
            fleet,
            direct: BTreeMap::new(),
            views,
            leads: RwLock::default(),
            rosters: RwLock::default(),
            queue,
            told: Mutex::default(),
            formed: watch::Sender::new(None),
        }
    }

    /// Reaches these members without a socket, whatever the Federation says of their address.
    pub fn direct(mut self, members: BTreeMap<ClusterId, Client>) -> Controller {
        self.direct = members;
        self
    }

    /// Who belongs to the federation, whenever that changes; nothing before it was read.
    pub fn formed(&self) -> watch::Receiver<Option<Arc<Formation>>> {
        self.formed.subscribe()
    }

    /// Says who leads the members, for the status.
    pub fn set_leads(&self, leads: BTreeMap<ClusterId, Lead>) {
        let mut known = self.leads.write();
        if *known != leads {
            *known = leads;
            self.queue.add(());
        }
    }

    /// Says whom the members name as members, so that it can be told where they disagree.
    pub fn set_rosters(&self, rosters: Rosters) {
        let mut known = self.rosters.write();
        if *known != rosters {
            *known = rosters;
            self.queue.add(());
        }
    }

    /// Works for as long as it is polled.
    pub fn run(&self) -> BoxFuture<'_, ()> {
        // Boxed here: then all of it is compiled once, with this crate, and not with every program that polls it.
        Box::pin(async move {
            let (recorder, writer) =
                events::recorder(self.client.clone(), "koinon", self.fleet.clock().clone());
            let recorder = recorder.logged();
            let ((), _) = tokio::join!(
                async {
                    tokio::select! {
                        biased;
                        never = Box::pin(self.follow()) => match never {},
                        () = Box::pin(self.reconcile_forever(&recorder)) => {}
                        () = self.hear_of_members() => {}
                        () = self.hear_of_profiles() => {}
                        () = self.renew_tokens() => {}
                    }
                },
                writer.run(),
            );
        })
    }

    async fn follow(&self) -> std::convert::Infallible {
        let views = &self.views;
        let federations = views.federations.follow(Api::all(self.client.clone()));
        // Others are none of our business, and are not even asked for.
        let labelled = format!("{MEMBER_SECRET}=true");
        let secrets = Api::namespaced(self.client.clone(), &self.namespace);
        let secrets = views.secrets.follow_labels(secrets, &labelled);
        let by_kind = async {
            match self.kind {
                Kind::Cluster => {
                    views.claims.follow(Api::namespaced(self.client.clone(), &self.namespace)).await
                }
                Kind::Federation => views.profiles.follow(self.profiles()).await,
            }
        };
        tokio::select! {
            biased;
            never = federations => never,
            never = secrets => never,
            never = by_kind => never,
        }
    }

    async fn hear_of_members(&self) {
        let mut changes = self.fleet.changes();
        while changes.changed().await.is_ok() {
            self.queue.add(());
        }
    }

    /// An empty list changes nothing, but from then on profiles can be made.
    async fn hear_of_profiles(&self) {
        self.views.profiles.listed().await;
        self.queue.add(());
        std::future::pending().await
    }

    async fn reconcile_forever(&self, recorder: &Recorder) {
        // What was not listed yet is unknown: a member whose Secret was not read yet is not to be let go.
        self.views.federations.listed().await;
        self.views.secrets.listed().await;
        if self.kind == Kind::Cluster {
            self.views.claims.listed().await;
        }
        let never = work(&self.queue, 1, |()| async {
            match self.reconcile(recorder).await {
                Ok(()) => Next::Done,
                Err(error) => {
                    // Somebody else wrote first: nothing is wrong with that.
                    if error.is_conflict() {
                        tracing::debug!(%error, "the status of the Federation was not written");
                    } else {
                        let error = clean(&error.to_string(), SENTENCE);
                        tracing::warn!(
                            error,
                            "the status of the Federation was not written: it is tried again"
                        );
                    }
                    Next::Retry
                }
            }
        });
        self.queue.add(());
        match never.await {}
    }

    async fn reconcile(&self, recorder: &Recorder) -> Result<(), call::Error> {
        let formation = Arc::new(self.form());
        self.fleet.set(self.wanted(&formation)).await;
        self.formed.send_if_modified(|before| {
            let changed = before.as_ref() != Some(&formation);
            if changed {
                *before = Some(formation.clone());
            }
            changed
        });
        if let Some(federation) = &formation.federation {
            let told = std::mem::replace(&mut *self.told.lock(), formation.problems.clone());
            for problem in formation.problems.iter().filter(|problem| !told.contains(problem)) {
                recorder.tell(&**federation, Weight::Warning, "Formation", problem.as_str());
            }
            let states = self.fleet.members();
            let mut states = states.iter().map(|one| (one.name().clone(), one.state())).collect();
            self.tell_ended(&formation, &mut states);
            let leads = self.leads.read().clone();
            let status = status::status(federation, &formation, &states, &leads);
            let news = status::news(federation.status.as_ref(), &status);
            self.write(federation, status).await?;
            // Those are logged where they are found out: with the member as a field, and whether or not the status can be written.
            for one in news {
                let weight = if one.is_bad { Weight::Warning } else { Weight::Normal };
                recorder.unlogged().tell(&**federation, weight, one.reason, one.message);
            }
        }
        for (federation, why) in &formation.ignored {
            let status = status::ignored(federation, why);
            if federation.status.as_ref() != Some(&status) {
                recorder.tell(&**federation, Weight::Warning, "Ignored", why.as_str());
            }
            self.write(federation, status).await?;
        }
        if self.kind == Kind::Federation {
            self.publish().await?;
        }
        Ok(())
    }

    /// Keeps a ClusterProfile for each member, where that kind is known.
    async fn publish(&self) -> Result<(), call::Error> {
        if self.views.profiles.listed().now_or_never().is_none() {
            return Ok(());
        }
        let members = self.fleet.members().iter().map(|one| (one.name().clone(), one.state())).collect();
        let known = self.views.profiles.in_namespace(&self.namespace);
        let api = self.profiles();
        let mut outcome = Ok(());
        for step in profile::plan(self.fleet.clock().now(), &self.namespace, &members, &known) {
            // One that is not taken is no reason to leave the others as they are.
            outcome = outcome.and(self.publish_one(&api, step).await);
        }
        outcome
    }

    async fn publish_one(&self, api: &Api<ClusterProfile>, step: Step) -> Result<(), call::Error> {
        let views = &self.views.profiles;
        match step {
            Step::Create(profile) => views.learn(within_deadline(api.create(&params(), &profile)).await?),
            Step::Status(profile) => {
                let name = profile.name_any();
                views.learn(within_deadline(api.replace_status(&name, &params(), &profile)).await?);
            }
            Step::Delete(profile) => {
                let preconditions = Preconditions { uid: profile.uid(), resource_version: None };
                let delete = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
                match within_deadline(api.delete(&profile.name_any(), &delete)).await {
                    Err(error) if !error.is_object_absent() => return Err(error),
                    _ => views.forget(&Key::of(&*profile), &profile.uid().unwrap_or_default()),
                }
            }
        }
        Ok(())
    }

    fn profiles(&self) -> Api<ClusterProfile> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn form(&self) -> Formation {
        let role = match self.kind {
            Kind::Federation => Role::Federation,
            Kind::Cluster => {
                let claims = self.views.claims.all();
                Role::Cluster(Claims::of(claims.iter().map(|claim| &**claim)))
            }
        };
        let secrets =
            self.views.secrets.all().into_iter().map(|secret| (secret.name_any(), secret)).collect();
        let mut formation = formation(&self.namespace, &role, &self.views.federations.all(), &secrets);
        if let (Part::Supervisor(_), Some(federation)) = (&formation.part, &formation.federation) {
            formation.problems.extend(disagreements(federation, &self.rosters.read()));
        }
        formation
    }

    fn wanted(&self, formation: &Formation) -> BTreeMap<ClusterId, Wanted> {
        if let Part::Alone(why) = &formation.part {
            tracing::debug!(why, "no federation");
        }
        let wanted = formation.members.iter().map(|(id, entry)| {
            let link = match (self.direct.get(id), &entry.way) {
                (Some(client), _) => Link::Direct(client.clone()),
                (None, Way::Local) => Link::Direct(self.client.clone()),
                (None, Way::Login(credentials)) => Link::Login(credentials.clone()),
                (None, Way::None(why)) => Link::Missing(why.clone()),
            };
            (id.clone(), Wanted { link, uid: entry.uid.clone() })
        });
        wanted.collect()
    }

    /// Writes a status that is another than what is there, and only over that.
    async fn write(&self, federation: &Federation, status: FederationStatus) -> Result<(), call::Error> {
        if federation.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let namespace = federation.namespace().unwrap_or_default();
        let api: Api<Federation> = Api::namespaced(self.client.clone(), &namespace);
        let after = Federation { status: Some(status), ..federation.clone() };
        let answer = within_deadline(api.replace_status(&federation.name_any(), &params(), &after)).await?;
        self.views.federations.learn(answer);
        Ok(())
    }
}

fn params() -> PostParams {
    PostParams { field_manager: Some("koinon".into()), ..PostParams::default() }
}

/// A view whose every change is a reason to look at everything again.
fn requeueing<K>(queue: &Arc<Queue<()>>) -> Arc<View<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let (view, queue) = (View::new(), queue.clone());
    view.on_change(move |_, _| queue.add(()));
    view
}
