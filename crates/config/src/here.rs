//! This cluster as the federator sees and remembers it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt as _;
use kube::core::DynamicObject;

use crate::call::Failure;
use crate::connect::Contexts;
use crate::evidence::Evidence;
use crate::follow::What;
use crate::kinds::{Kinds, Named, Served};
use crate::memory::Memory;
use crate::model::{AmkoCluster, Further, Kind, Objects, Observed};
use crate::names::NAMESPACE;
use crate::plan::{Here, Lead, Plan};
use crate::rivals::Rivals;
use crate::site::Site;

/// The cluster that the federator is beside.
pub(crate) struct Own {
    site: Arc<Site>,
    clusters: Observed<Vec<AmkoCluster>>,
    contexts: Observed<Result<Contexts, String>>,
    /// The Secret that `contexts` were read from.
    secret: Option<Arc<DynamicObject>>,
    further: Vec<Further>,
    found: Kinds,
    kinds: Vec<(Kind, Observed<()>)>,
    /// What is there of each: one look for all that is decided in a turn.
    objects: Vec<(Kind, Observed<Objects>)>,
    pub(crate) evidence: Evidence,
    /// Members that were seen to lead as well, by this process and by those before it.
    conflicts: BTreeSet<String>,
    /// What an earlier process kept of that and this one has not taken over yet.
    earlier: Observed<Rivals>,
}

impl Own {
    pub(crate) fn new(site: Arc<Site>) -> Own {
        let found = Kinds::default();
        Own {
            site,
            clusters: Observed::Pending,
            contexts: Observed::Pending,
            secret: None,
            further: Vec::new(),
            kinds: found.of(&[]),
            found,
            objects: Vec::new(),
            evidence: Evidence::new(),
            conflicts: BTreeSet::new(),
            earlier: Observed::Pending,
        }
    }

    pub(crate) fn site(&self) -> &Site {
        &self.site
    }

    /// Takes in what is seen now.
    pub(crate) fn look(&mut self) {
        self.clusters = match self.site.clusters().objects() {
            Observed::Pending => Observed::Pending,
            Observed::Lost(why) => Observed::Lost(why),
            Observed::Seen(objects) => {
                Observed::Seen(objects.iter().map(|one| AmkoCluster::read(one)).collect())
            }
        };
        if let Observed::Seen(clusters) = &self.clusters {
            let ours = clusters.iter().find(|cluster| cluster.namespace == NAMESPACE && cluster.is_leader);
            self.further = ours.map(|cluster| cluster.objects.clone()).unwrap_or_default();
        }
        self.kinds = self.found.of(&self.further);
        let mut whats = vec![What::secret(), What::namespace()];
        whats.extend(self.served_kinds().map(What::objects));
        self.site.follow_also(&whats);
        self.read_secret();
        let objects = self.kinds.iter().map(|(kind, sight)| {
            let objects = match sight {
                Observed::Pending => Observed::Pending,
                Observed::Lost(why) => Observed::Lost(why.clone()),
                Observed::Seen(()) => self.site.objects(&What::objects(kind)),
            };
            (kind.clone(), objects)
        });
        self.objects = objects.collect();
        self.evidence.saw(&self.objects);
        if let Observed::Seen(clusters) = &self.clusters {
            self.evidence.leads(leading(clusters));
        }
    }

    fn read_secret(&mut self) {
        let secret = match self.site.objects(&What::secret()) {
            // What was read before is used on: members need not be lost because we are for a moment.
            Observed::Pending => {
                if matches!(self.contexts, Observed::Lost(_)) {
                    self.contexts = Observed::Pending;
                }
                return;
            }
            Observed::Lost(_)
                if matches!(self.contexts, Observed::Seen(_)) && !self.site.is_refused(&What::secret()) =>
            {
                return;
            }
            Observed::Lost(why) => {
                self.contexts = Observed::Lost(why);
                self.secret = None;
                return;
            }
            Observed::Seen(objects) => objects.first().cloned(),
        };
        let version = |secret: &Option<Arc<DynamicObject>>| {
            secret.as_ref().map(|secret| (secret.uid(), secret.resource_version()))
        };
        let known = matches!(self.contexts, Observed::Seen(_)) && version(&self.secret) == version(&secret);
        if !known {
            self.contexts = Observed::Seen(Contexts::read(secret.as_deref()));
            self.secret = secret;
        }
    }

    pub(crate) fn clusters(&self) -> &Observed<Vec<AmkoCluster>> {
        &self.clusters
    }

    pub(crate) fn contexts(&self) -> Option<&Contexts> {
        match &self.contexts {
            Observed::Seen(Ok(contexts)) => Some(contexts),
            _ => None,
        }
    }

    pub(crate) fn kinds(&self) -> impl Iterator<Item = &(Kind, Observed<()>)> {
        self.kinds.iter()
    }

    pub(crate) fn served_kinds(&self) -> impl Iterator<Item = &Kind> {
        self.kinds.iter().filter(|(_, sight)| matches!(sight, Observed::Seen(()))).map(|(kind, _)| kind)
    }

    pub(crate) fn unknown_kinds(&mut self, now: Duration) -> Vec<Named> {
        self.found.unknown(&self.further, now)
    }

    pub(crate) fn kind_found(&mut self, named: Named, answer: Result<Served, String>, again_at: Duration) {
        self.found.answered(named, answer, again_at);
    }

    pub(crate) fn kinds_again_at(&self) -> Option<Duration> {
        self.found.again_at(&self.further)
    }

    /// All that a plan needs to know.
    pub(crate) fn here(&self) -> Here {
        let permits: BTreeMap<Kind, _> =
            self.objects.iter().map(|(kind, _)| (kind.clone(), self.evidence.permit(kind))).collect();
        let leaving = match self.site.objects(&What::namespace()) {
            Observed::Seen(namespaces) => {
                namespaces.iter().any(|namespace| namespace.metadata.deletion_timestamp.is_some())
            }
            Observed::Pending | Observed::Lost(_) => false,
        };
        Here {
            clusters: self.clusters.clone(),
            contexts: match &self.contexts {
                Observed::Pending => Observed::Pending,
                Observed::Lost(why) => Observed::Lost(why.clone()),
                Observed::Seen(Err(why)) => Observed::Seen(Err(why.clone())),
                Observed::Seen(Ok(contexts)) => Observed::Seen(Ok(contexts.names().cloned().collect())),
            },
            objects: self.objects.clone(),
            permits,
            conflicts: self.conflicts(),
            leaving,
        }
    }

    /// The rivals that count until they are seen to follow.
    fn conflicts(&self) -> Observed<BTreeSet<String>> {
        let Observed::Seen(clusters) = &self.clusters else { return Observed::Seen(self.conflicts.clone()) };
        match (&self.earlier, leading(clusters)) {
            // Who does not lead has no rivals, whatever was before.
            (_, None) => Observed::Seen(BTreeSet::new()),
            (Observed::Pending, Some(_)) => Observed::Pending,
            (Observed::Lost(why), Some(_)) => Observed::Lost(why.clone()),
            (Observed::Seen(earlier), Some(uid)) => Observed::Seen(&self.conflicts | &earlier.under(&uid)),
        }
    }

    /// Takes in what an earlier process kept.
    pub(crate) fn recalled(&mut self, answer: Result<(Memory, Rivals), Failure>, now: Duration) {
        let (memory, rivals) = match answer {
            Ok((memory, rivals)) => (Ok(memory), Observed::Seen(rivals)),
            // Who may not read it could not have kept it.
            Err(failure) if failure.code == Some(403) => {
                (Err(failure.to_string()), Observed::Seen(Rivals::default()))
            }
            Err(failure) => (Err(failure.to_string()), Observed::Lost(failure.to_string())),
        };
        self.evidence.recalled(memory, now);
        if matches!(self.earlier, Observed::Seen(_)) {
            return;
        }
        self.earlier = match rivals {
            // Nobody asks again: this process saw the cluster begin to lead.
            Observed::Lost(_) if self.evidence.has_recalled() => Observed::Seen(Rivals::default()),
            rivals => rivals,
        };
    }

    /// Keeps what the next plan has to know of this one.
    pub(crate) fn remember(&mut self, plan: &Plan) {
        self.conflicts.clone_from(&plan.conflicts);
        if let Observed::Seen(clusters) = &self.clusters
            && (matches!(self.earlier, Observed::Seen(_)) || leading(clusters).is_none())
        {
            self.earlier = Observed::Seen(Rivals::default());
        }
        if matches!(plan.lead, Lead::As(_)) {
            self.evidence.has();
        }
    }
}

/// The AMKOCluster that says that this cluster leads, by its uid: one made anew may belong to a store that was wiped.
fn leading(clusters: &[AmkoCluster]) -> Option<String> {
    let mut ours = clusters.iter().filter(|cluster| cluster.namespace == NAMESPACE);
    let first = ours.next().filter(|cluster| cluster.is_leader)?;
    ours.next().is_none().then(|| first.uid.clone())
}
