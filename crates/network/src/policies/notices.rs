//! Notices to users about their policies: events on the policy that they look at, each once.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use koinon_control::events::{Recorder, Weight};
use parking_lot::Mutex;

use super::key::PolicyKey;
use super::names::{GROUP, REVISION, VERSION, reason};
use super::plan::{News, UserChange};
use super::version::Version;

/// What was last said about a policy, by reason and by whom it is about.
type Said = BTreeMap<(&'static str, String), String>;

/// What was told of the policies of one member.
pub(super) struct Notices {
    recorder: Recorder,
    said: Mutex<BTreeMap<PolicyKey, Said>>,
}

impl Notices {
    pub(super) fn new(recorder: Recorder) -> Notices {
        Notices { recorder, said: Mutex::default() }
    }

    /// Tells what is to be told of a policy now; what was told before is not told again until it changed.
    pub(super) fn now(&self, key: &PolicyKey, uid: &str, news: &[News]) {
        let mut now = Said::new();
        for one in news {
            let (reason, about, message) = words(one);
            now.insert((reason, about), message);
        }
        let before = {
            let mut said = self.said.lock();
            if now.is_empty() { said.remove(key) } else { said.insert(key.clone(), now.clone()) }
        };
        let before = before.unwrap_or_default();
        for (about, message) in now {
            if before.get(&about) != Some(&message) {
                self.tell(key, uid, Weight::Warning, about.0, message);
            }
        }
    }

    pub(super) fn change(
        &self,
        key: &PolicyKey,
        uid: &str,
        change: UserChange,
        version: &Version,
        members: usize,
    ) {
        let rev = version.rev;
        let message = match change {
            UserChange::Created => format!("revision {rev} of the policy is for {members} clusters"),
            UserChange::Edited => format!("the change is revision {rev} and goes to {members} clusters"),
            UserChange::Removed => format!("removed here, and so in {members} clusters (revision {rev})"),
            UserChange::Left => {
                format!("no longer federated: removed in {members} clusters, kept here (revision {rev})")
            }
        };
        let reason = match change {
            UserChange::Created | UserChange::Edited => reason::REVISION,
            UserChange::Removed | UserChange::Left => reason::REMOVED,
        };
        self.tell(key, uid, Weight::Normal, reason, message);
    }

    pub(super) fn erased(&self, key: &PolicyKey, uid: &str, version: &Version) {
        let message =
            format!("removed in cluster {}, and so here (revision {})", version.origin, version.rev);
        self.tell(key, uid, Weight::Normal, reason::REMOVED, message);
    }

    pub(super) fn shaped(&self, key: &PolicyKey, uid: &str, version: &Version) {
        let message = format!(
            "this cluster keeps revision {} differently from cluster {}: compare the versions of Antrea",
            version.rev, version.origin
        );
        self.tell(key, uid, Weight::Warning, reason::SHAPED, message);
    }

    pub(super) fn local_rules(&self, key: &PolicyKey, uid: &str, warnings: Vec<String>) {
        for warning in warnings {
            self.tell(key, uid, Weight::Warning, reason::LOCAL_RULE, warning);
        }
    }

    fn tell(&self, key: &PolicyKey, uid: &str, weight: Weight, reason: &str, message: String) {
        let about = ObjectReference {
            api_version: Some(format!("{GROUP}/{VERSION}")),
            kind: Some(key.kind.name().into()),
            name: Some(key.name.clone()),
            namespace: Some(key.namespace.clone()).filter(|namespace| !namespace.is_empty()),
            uid: Some(uid.to_owned()).filter(|uid| !uid.is_empty()),
            ..ObjectReference::default()
        };
        self.recorder.tell_about(about, weight, reason, message);
    }
}

fn words(news: &News) -> (&'static str, String, String) {
    match news {
        News::Conflict { lost, won } => (
            reason::CONFLICT,
            String::new(),
            format!(
                "revision {} was made here while cluster {} made revision {}, which wins: look whether it says what you want",
                lost.rev, won.origin, won.rev
            ),
        ),
        News::Outlived { by } => (
            reason::CONFLICT,
            String::new(),
            format!(
                "it was removed here while cluster {} made revision {}, which stays: remove it again if you still want to",
                by.origin, by.rev
            ),
        ),
        News::Blocked { by } => (
            reason::BLOCKED,
            String::new(),
            format!(
                "a federated policy of this name comes from cluster {} and cannot come here: annotate, rename or delete this one",
                by.origin
            ),
        ),
        News::BlockedIn(member) => (
            reason::BLOCKED,
            member.as_str().into(),
            format!(
                "cluster {member} has a policy of its own by this name, which stays: rename or delete one of them"
            ),
        ),
        News::RefusedIn(member, why) => {
            (reason::REFUSED, member.as_str().into(), format!("cluster {member} cannot take it: {why}"))
        }
        News::Exhausted => (
            reason::CONFLICT,
            String::new(),
            "what was done here goes nowhere: somebody gave this policy the highest revision that there is; make it anew \
             under another name"
                .into(),
        ),
        News::Unproved { claimed } => (
            reason::UNPROVED,
            String::new(),
            format!(
                "the annotation {REVISION} says that this is revision {} of cluster {}, which no cluster's ledger has: it counts \
                 as changed in this cluster, once all ledgers are known; remove the annotation",
                claimed.rev, claimed.origin
            ),
        ),
        News::Overruled { by } => (
            reason::CONFLICT,
            String::new(),
            format!(
                "it was changed here while this cluster was no member: revision {} of cluster {} goes over it; change it again \
                 if you still want to",
                by.rev, by.origin
            ),
        ),
        News::Contradicts => (
            reason::SPELLING,
            String::new(),
            "spellings of the annotation federated.anp contradict each other: keep one of them".into(),
        ),
    }
}
