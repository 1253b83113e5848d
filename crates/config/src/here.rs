//! This cluster as the federator sees and remembers it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt as _;
use kube::core::DynamicObject;

use crate::connect::Contexts;
use crate::evidence::Evidence;
use crate::follow::What;
use crate::kinds::{Kinds, Named, Served};
use crate::model::{AmkoCluster, Further, Kind, Objects, Sight};
use crate::names::NAMESPACE;
use crate::plan::{Here, Lead, Plan};
use crate::site::Site;

/// The cluster that the federator is beside.
pub(crate) struct Own {
    site: Arc<Site>,
    clusters: Sight<Vec<AmkoCluster>>,
    contexts: Sight<Result<Contexts, String>>,
    /// The Secret that `contexts` were read from.
    secret: Option<Arc<DynamicObject>>,
    further: Vec<Further>,
    found: Kinds,
    kinds: Vec<(Kind, Sight<()>)>,
    /// What is there of each: one look for all that is decided in a turn.
    objects: Vec<(Kind, Sight<Objects>)>,
    pub(crate) evidence: Evidence,
    conflicts: BTreeSet<String>,
}

impl Own {
    pub(crate) fn new(site: Arc<Site>) -> Own {
        let found = Kinds::default();
        Own {
            site,
            clusters: Sight::Pending,
            contexts: Sight::Pending,
            secret: None,
            further: Vec::new(),
            kinds: found.of(&[]),
            found,
            objects: Vec::new(),
            evidence: Evidence::new(),
            conflicts: BTreeSet::new(),
        }
    }

    pub(crate) fn site(&self) -> &Site {
        &self.site
    }

    /// Takes in what is seen now.
    pub(crate) fn look(&mut self) {
        self.clusters = match self.site.clusters().objects() {
            Sight::Pending => Sight::Pending,
            Sight::Lost(why) => Sight::Lost(why),
            Sight::Seen(objects) => Sight::Seen(objects.iter().map(|one| AmkoCluster::read(one)).collect()),
        };
        if let Sight::Seen(clusters) = &self.clusters {
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
                Sight::Pending => Sight::Pending,
                Sight::Lost(why) => Sight::Lost(why.clone()),
                Sight::Seen(()) => self.site.objects(&What::objects(kind)),
            };
            (kind.clone(), objects)
        });
        self.objects = objects.collect();
        self.evidence.saw(&self.objects);
        if let Sight::Seen(clusters) = &self.clusters {
            self.evidence.leads(leading(clusters));
        }
    }

    fn read_secret(&mut self) {
        let secret = match self.site.objects(&What::secret()) {
            // What was read before is used on: members need not be lost because we are for a moment.
            Sight::Pending => {
                if matches!(self.contexts, Sight::Lost(_)) {
                    self.contexts = Sight::Pending;
                }
                return;
            }
            Sight::Lost(_)
                if matches!(self.contexts, Sight::Seen(_)) && !self.site.is_refused(&What::secret()) =>
            {
                return;
            }
            Sight::Lost(why) => {
                self.contexts = Sight::Lost(why);
                self.secret = None;
                return;
            }
            Sight::Seen(objects) => objects.first().cloned(),
        };
        let version = |secret: &Option<Arc<DynamicObject>>| {
            secret.as_ref().map(|secret| (secret.uid(), secret.resource_version()))
        };
        let known = matches!(self.contexts, Sight::Seen(_)) && version(&self.secret) == version(&secret);
        if !known {
            self.contexts = Sight::Seen(Contexts::read(secret.as_deref()));
            self.secret = secret;
        }
    }

    pub(crate) fn clusters(&self) -> &Sight<Vec<AmkoCluster>> {
        &self.clusters
    }

    pub(crate) fn contexts(&self) -> Option<&Contexts> {
        match &self.contexts {
            Sight::Seen(Ok(contexts)) => Some(contexts),
            _ => None,
        }
    }

    pub(crate) fn kinds(&self) -> impl Iterator<Item = &(Kind, Sight<()>)> {
        self.kinds.iter()
    }

    pub(crate) fn served_kinds(&self) -> impl Iterator<Item = &Kind> {
        self.kinds.iter().filter(|(_, sight)| matches!(sight, Sight::Seen(()))).map(|(kind, _)| kind)
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
        let leave: BTreeMap<Kind, _> =
            self.objects.iter().map(|(kind, _)| (kind.clone(), self.evidence.leave(kind))).collect();
        let leaving = match self.site.objects(&What::namespace()) {
            Sight::Seen(namespaces) => {
                namespaces.iter().any(|namespace| namespace.metadata.deletion_timestamp.is_some())
            }
            Sight::Pending | Sight::Lost(_) => false,
        };
        Here {
            clusters: self.clusters.clone(),
            contexts: match &self.contexts {
                Sight::Pending => Sight::Pending,
                Sight::Lost(why) => Sight::Lost(why.clone()),
                Sight::Seen(Err(why)) => Sight::Seen(Err(why.clone())),
                Sight::Seen(Ok(contexts)) => Sight::Seen(Ok(contexts.names().cloned().collect())),
            },
            objects: self.objects.clone(),
            leave,
            conflicts: self.conflicts.clone(),
            leaving,
        }
    }

    /// Keeps what the next plan has to know of this one.
    pub(crate) fn remember(&mut self, plan: &Plan) {
        self.conflicts.clone_from(&plan.conflicts);
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
