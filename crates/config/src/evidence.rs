//! Whether what this leader lacks may be deleted elsewhere: what it had, and what became of it. No IO.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube::ResourceExt as _;

use crate::definition::Definition;
use crate::memory::Memory;
use crate::model::{Kind, Objects, Observed};
use crate::plan::DeletionPermit;

/// No answer may be chance.
const SOON: Duration = Duration::from_secs(2);

/// What is known of the objects that this leader has, and had.
pub(crate) struct Evidence {
    /// The AMKOCluster under which this cluster leads, by its uid, once it was seen whether it does.
    leading: Option<Option<String>>,
    /// What an earlier process kept, as far as it is about this leader.
    recalled: Observed<Memory>,
    recall_at: Option<Duration>,
    /// The kinds that it was seen to have since, each with the uid of its definition.
    had: BTreeMap<String, String>,
    kinds: BTreeMap<Kind, Watched>,
}

/// The objects of one kind, and what was found out about their definition since one of them was last seen to go.
#[derive(Default)]
struct Watched {
    objects: BTreeSet<String>,
    definition: Option<Definition>,
    ask_at: Option<Duration>,
    /// How many questions there were: answers to earlier ones do not count.
    question: u64,
}

impl Evidence {
    pub(crate) fn new() -> Evidence {
        Evidence {
            leading: None,
            recalled: Observed::Pending,
            recall_at: Some(Duration::ZERO),
            had: BTreeMap::new(),
            kinds: BTreeMap::new(),
        }
    }

    /// Takes in the objects, by kind. One that is gone has to be explained; so have the first, or who would know later
    /// what they went with.
    pub(crate) fn saw(&mut self, all: &[(Kind, Observed<Objects>)]) {
        self.kinds.retain(|kind, _| all.iter().any(|(known, _)| known == kind));
        for (kind, objects) in all {
            let Observed::Seen(objects) = objects else { continue };
            let now: BTreeSet<String> = objects.iter().filter_map(|object| object.uid()).collect();
            let first = !self.kinds.contains_key(kind);
            let watched = self.kinds.entry(kind.clone()).or_default();
            let gone = !watched.objects.is_subset(&now);
            if first || gone || watched.objects.is_empty() != now.is_empty() {
                watched.definition = None;
                watched.ask_at = Some(Duration::ZERO);
                watched.question += 1;
            }
            watched.objects = now;
        }
    }

    /// Takes in whether this cluster leads. Only to be seen not to, or to lead anew, changes what this leader had: a
    /// Secret or members that are away for a moment do not, nor does a rival.
    pub(crate) fn leads(&mut self, leading: Option<String>) {
        let before = self.leading.replace(leading);
        if before == self.leading {
            return;
        }
        self.had.clear();
        let about_this_leader = match (&before, &self.leading, &self.recalled) {
            (None, Some(Some(uid)), Observed::Seen(memory)) => memory.cluster == *uid,
            (None, Some(Some(_)), Observed::Pending | Observed::Lost(_)) => true,
            _ => false,
        };
        if !about_this_leader {
            self.recalled = Observed::Seen(Memory::default());
        }
    }

    /// This cluster leads without a rival: what it has counts as had.
    pub(crate) fn has(&mut self) {
        for (kind, watched) in &self.kinds {
            if let Some(Definition::There(uid)) = &watched.definition
                && !watched.objects.is_empty()
            {
                self.had.insert(Memory::entry(kind), uid.clone());
            }
        }
    }

    /// What should be kept for the next process; nothing as long as it is not known what an earlier one kept.
    pub(crate) fn memory(&self) -> Option<Memory> {
        let (Some(leading), Observed::Seen(recalled)) = (&self.leading, &self.recalled) else { return None };
        let Some(cluster) = leading.clone() else { return Some(Memory::default()) };
        let mut kinds = recalled.kinds.clone();
        kinds.extend(self.had.clone());
        // Who had nothing leaves nothing behind.
        Some(if kinds.is_empty() { Memory::default() } else { Memory { cluster, kinds } })
    }

    /// Whether copies that this leader lacks may be deleted.
    pub(crate) fn permit(&self, kind: &Kind) -> DeletionPermit {
        let Some(watched) = self.kinds.get(kind) else { return DeletionPermit::Unknown };
        let had = self.had(kind);
        if watched.objects.is_empty() && had.is_none() {
            return match &self.recalled {
                Observed::Pending => DeletionPermit::Unknown,
                Observed::Lost(why) => DeletionPermit::Refused(format!(
                    "what the current cluster had before cannot be read: {why}"
                )),
                Observed::Seen(_) => DeletionPermit::NeverOwned,
            };
        }
        let name = &kind.kind;
        match &watched.definition {
            None => DeletionPermit::Unknown,
            Some(Definition::There(uid)) if !watched.objects.is_empty() || had == Some(uid) => {
                DeletionPermit::Allowed
            }
            Some(Definition::There(_)) => DeletionPermit::DefinitionRecreated,
            Some(Definition::Absent) => {
                DeletionPermit::Refused(format!("{name} is not defined in the current cluster any more"))
            }
            Some(Definition::Going) => DeletionPermit::Refused(format!(
                "the definition of {name} in the current cluster is being deleted, and its objects with it"
            )),
            Some(Definition::NamespaceGoing) => {
                DeletionPermit::Refused("the namespace of the current cluster is being deleted".into())
            }
            Some(Definition::Refused(why)) => DeletionPermit::Refused(format!(
                "whether the definition of {name} in the current cluster is still the same cannot be read: {why}"
            )),
        }
    }

    fn had(&self, kind: &Kind) -> Option<&String> {
        let entry = Memory::entry(kind);
        let Observed::Seen(recalled) = &self.recalled else { return self.had.get(&entry) };
        self.had.get(&entry).or_else(|| recalled.kinds.get(&entry))
    }

    /// Whether to ask now what an earlier process kept.
    pub(crate) fn recall(&mut self, now: Duration) -> bool {
        self.recall_at.take_if(|at| now >= *at).is_some()
    }

    pub(crate) fn recalled(&mut self, answer: Result<Memory, String>, now: Duration) {
        // What is known already is known better: this cluster was seen not to lead.
        if matches!(self.recalled, Observed::Seen(_)) {
            return;
        }
        self.recalled = match (answer, &self.leading) {
            (Ok(memory), Some(Some(uid))) if memory.cluster != *uid => Observed::Seen(Memory::default()),
            (Ok(memory), _) => Observed::Seen(memory),
            (Err(why), _) => {
                self.recall_at = Some(now + SOON);
                Observed::Lost(why)
            }
        };
    }

    /// Whether it is known what an earlier process kept, or that it does not matter any more.
    pub(crate) fn has_recalled(&self) -> bool {
        matches!(self.recalled, Observed::Seen(_))
    }

    /// The kinds whose definition has to be asked for now, each with the number of the question.
    pub(crate) fn questions(&mut self, now: Duration) -> Vec<(Kind, u64)> {
        if !matches!(self.leading, Some(Some(_))) {
            return Vec::new();
        }
        let due = |(kind, watched): (&Kind, &mut Watched)| {
            watched.ask_at.take_if(|at| now >= *at).map(|_| (kind.clone(), watched.question))
        };
        self.kinds.iter_mut().filter_map(due).collect()
    }

    /// Takes in an answer; one that forbids deletions is asked for again.
    pub(crate) fn answered(
        &mut self,
        (kind, question): (Kind, u64),
        answer: Result<Definition, String>,
        now: Duration,
        every: Duration,
    ) {
        let Some(watched) = self.kinds.get_mut(&kind).filter(|watched| watched.question == question) else {
            return;
        };
        match answer {
            Ok(definition) => {
                watched.ask_at = (!matches!(definition, Definition::There(_))).then(|| now + every);
                watched.definition = Some(definition);
            }
            Err(why) => {
                tracing::debug!(kind = kind.kind, why, "the definition could not be read");
                watched.ask_at = Some(now + SOON);
            }
        }
    }

    /// When there is something to ask.
    pub(crate) fn again_at(&self) -> Option<Duration> {
        let asks = self.kinds.values().filter_map(|watched| watched.ask_at);
        let asks = asks.filter(|_| matches!(self.leading, Some(Some(_))));
        asks.chain(self.recall_at).min()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube::core::DynamicObject;

    use super::*;

    const NOW: Duration = Duration::from_secs(10);
    const EVERY: Duration = Duration::from_secs(10);

    fn kind() -> Kind {
        Kind::gslb_config()
    }

    fn seen(uids: &[&str]) -> Vec<(Kind, Observed<Objects>)> {
        let one = |uid: &&str| {
            let mut object = DynamicObject::new(uid, &kind().resource());
            object.metadata.uid = Some((*uid).into());
            Arc::new(object)
        };
        vec![(kind(), Observed::Seen(uids.iter().map(one).collect()))]
    }

    fn there(uid: &str) -> Definition {
        Definition::There(uid.into())
    }

    fn memory(cluster: &str, definition: &str) -> Memory {
        let kinds = [(Memory::entry(&kind()), definition.to_owned())].into();
        Memory { cluster: cluster.into(), kinds }
    }

    fn answer(evidence: &mut Evidence, definition: Definition) {
        let questions = evidence.questions(NOW);
        assert_eq!(questions.len(), 1);
        evidence.answered(questions[0].clone(), Ok(definition), NOW, EVERY);
    }

    /// A leader that never ran before, with one object.
    fn with_one() -> Evidence {
        let mut evidence = Evidence::new();
        evidence.saw(&seen(&["1"]));
        assert!(evidence.recall(NOW));
        evidence.recalled(Ok(Memory::default()), NOW);
        evidence.leads(Some("x".into()));
        answer(&mut evidence, there("d"));
        evidence.has();
        evidence
    }

    #[test]
    fn each_loss_is_explained_anew() {
        let mut evidence = with_one();
        assert_eq!(evidence.permit(&kind()), DeletionPermit::Allowed);
        evidence.saw(&seen(&[]));
        assert_eq!(evidence.permit(&kind()), DeletionPermit::Unknown);
        answer(&mut evidence, there("d"));
        assert_eq!(evidence.permit(&kind()), DeletionPermit::Allowed);
        // The same emptiness, but of another object.
        evidence.saw(&seen(&["2"]));
        evidence.saw(&seen(&[]));
        let late = evidence.questions(NOW);
        evidence.saw(&seen(&["3", "4"]));
        evidence.answered(late[0].clone(), Ok(there("d")), NOW, EVERY);
        assert_eq!(evidence.permit(&kind()), DeletionPermit::Unknown, "the answer is to an earlier question");
        answer(&mut evidence, there("d"));
        evidence.saw(&seen(&["4"]));
        assert_eq!(evidence.permit(&kind()), DeletionPermit::Unknown);
        answer(&mut evidence, Definition::Going);
        assert!(matches!(evidence.permit(&kind()), DeletionPermit::Refused(_)));
        assert_eq!(evidence.again_at(), Some(NOW + EVERY));
    }

    #[test]
    fn a_definition_that_was_made_anew_is_another() {
        let mut evidence = with_one();
        evidence.saw(&seen(&[]));
        answer(&mut evidence, there("other"));
        assert_eq!(evidence.permit(&kind()), DeletionPermit::DefinitionRecreated);
        evidence.saw(&seen(&["2"]));
        answer(&mut evidence, there("other"));
        evidence.has();
        evidence.saw(&seen(&[]));
        answer(&mut evidence, there("other"));
        assert_eq!(evidence.permit(&kind()), DeletionPermit::Allowed);
    }

    #[test]
    fn an_earlier_process_is_believed_about_the_same_leader_alone() {
        let after = |recalled: Memory, first: bool| {
            let mut evidence = Evidence::new();
            evidence.saw(&seen(&[]));
            assert!(evidence.recall(NOW) && !evidence.recall(NOW));
            if first {
                evidence.recalled(Ok(recalled.clone()), NOW);
            }
            evidence.leads(Some("x".into()));
            assert_eq!(
                evidence.permit(&kind()) == DeletionPermit::Unknown,
                !first || recalled.cluster == "x"
            );
            evidence.recalled(Ok(recalled), NOW);
            answer(&mut evidence, there("d"));
            (evidence.permit(&kind()), evidence.memory().unwrap())
        };
        for first in [true, false] {
            assert_eq!(after(memory("x", "d"), first), (DeletionPermit::Allowed, memory("x", "d")));
            assert_eq!(
                after(memory("x", "older"), first),
                (DeletionPermit::DefinitionRecreated, memory("x", "older"))
            );
            for other in [memory("y", "d"), Memory::default()] {
                assert_eq!(after(other, first), (DeletionPermit::NeverOwned, Memory::default()));
            }
        }
    }

    #[test]
    fn who_was_seen_to_follow_had_nothing() {
        for leading in [None, Some("y".to_owned())] {
            let mut evidence = with_one();
            evidence.leads(leading.clone());
            assert_eq!(evidence.memory(), Some(Memory::default()));
            evidence.saw(&seen(&[]));
            evidence.leads(Some("x".into()));
            assert_eq!(evidence.permit(&kind()), DeletionPermit::NeverOwned);
        }
        let mut late = Evidence::new();
        late.saw(&seen(&[]));
        late.leads(Some("x".into()));
        late.leads(None);
        late.leads(Some("x".into()));
        late.recalled(Ok(memory("x", "d")), NOW);
        assert_eq!(late.permit(&kind()), DeletionPermit::NeverOwned);
    }

    #[test]
    fn no_answer_is_no_leave() {
        let mut evidence = Evidence::new();
        evidence.saw(&seen(&[]));
        evidence.leads(Some("x".into()));
        assert!(evidence.recall(NOW));
        evidence.recalled(Err("forbidden".into()), NOW);
        assert!(matches!(evidence.permit(&kind()), DeletionPermit::Refused(_)));
        assert_eq!(evidence.memory(), None);
        assert!(evidence.recall(NOW + SOON));
        evidence.recalled(Ok(memory("x", "d")), NOW);
        let questions = evidence.questions(NOW);
        evidence.answered(questions[0].clone(), Err("no answer".into()), NOW, EVERY);
        assert_eq!(
            (evidence.permit(&kind()), evidence.again_at()),
            (DeletionPermit::Unknown, Some(NOW + SOON))
        );
    }
}
