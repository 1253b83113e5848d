//! What the writer could not do of a plan, and which users to tell.

use koinon_control::Key;
use koinon_control::events::Weight;

use super::writer::Error;
use crate::services::messages::{self, Notice};
use crate::services::model::Kind;
use crate::services::view::Member;

/// Why parts of a plan were not done. Nothing in it: all is done.
#[derive(Debug, Default)]
pub(super) struct Undone {
    pub(super) errors: Vec<Error>,
    /// Whether an EndpointSlice that should be another stays as it was.
    pub(super) keeps_old: bool,
}

impl Undone {
    pub(super) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    pub(super) fn note<T>(&mut self, outcome: Result<T, Error>) {
        self.errors.extend(outcome.err());
    }

    /// Whether what comes next in a plan is to be left for later. What the cluster refuses it refuses later too, so
    /// that nothing waits for it.
    pub(super) fn is_passing(&self) -> bool {
        self.errors.iter().any(|error| !error.is_refusal())
    }

    /// Whether a cluster does not take a field of what it was given, such as `spec.type`.
    pub(super) fn is_about(&self, field: &str) -> bool {
        self.refusals().any(|error| error.is_about(field))
    }

    fn refusals(&self) -> impl Iterator<Item = &Error> {
        self.errors.iter().filter(|error| {
            error.is_refusal() && !matches!(error, Error::Foreign(_) | Error::ForeignService(_))
        })
    }

    /// What to tell of an object that is not as it should be.
    pub(super) fn told(&self, kind: Kind, about: &Key, uid: &str) -> Vec<Notice> {
        let notice = |reason, message| Notice {
            kind,
            about: about.clone(),
            uid: uid.to_owned(),
            weight: Weight::Warning,
            reason,
            message,
        };
        let taken = self.errors.iter().filter_map(|error| match error {
            Error::Foreign(slice) => Some(notice(
                "SliceNameTaken",
                format!(
                    "an EndpointSlice {} is there already, and it is not ours, so some endpoints are missing: delete or \
                     rename it",
                    slice.name
                ),
            )),
            Error::ForeignService(_) => Some(notice("NameTaken", error.to_string())),
            _ => None,
        });
        taken.chain(self.refused().map(|message| notice("Refused", message))).collect()
    }

    /// Whether somebody else's Service is in the way.
    pub(super) fn is_taken(&self) -> bool {
        self.errors.iter().any(|error| matches!(error, Error::ForeignService(_)))
    }

    /// What to tell the members of this cluster of it.
    pub(super) fn told_to_members(&self, members: &[Member]) -> Vec<Notice> {
        let Some(message) = self.refused() else { return Vec::new() };
        members.iter().map(|member| messages::notice(member, "Refused", message.clone())).collect()
    }

    fn refused(&self) -> Option<String> {
        let first = self.refusals().next()?;
        Some(match self.refusals().count() {
            1 => first.to_string(),
            more => format!("{first}; and {} more", more - 1),
        })
    }
}

#[cfg(test)]
mod tests {
    use koinon_fleet::{ClusterId, member};

    use super::*;

    #[test]
    fn only_what_may_work_later_is_waited_for() {
        let mut undone = Undone::default();
        assert!(undone.is_empty() && !undone.is_passing());
        undone.note::<()>(Err(Error::Foreign(Key::new("ns", "x"))));
        assert!(!undone.is_empty() && !undone.is_passing());
        assert_eq!(undone.told(Kind::Service, &Key::new("ns", "foo"), "").len(), 1);
        assert!(undone.told_to_members(&[]).is_empty());
        undone.note::<()>(Err(Error::Fenced));
        assert!(undone.is_passing());
    }

    #[test]
    fn a_field_is_what_the_server_names_and_not_what_its_message_mentions() {
        let refused = |field: &str, message: &str| {
            let status = serde_json::json!({
                "status": "Failure", "code": 422, "reason": "Invalid", "message": message,
                "details": {"name": "foo", "causes": [{"field": field, "reason": "FieldValueNotSupported"}]},
            });
            let failure = member::Failure::Refused(Box::new(serde_json::from_value(status).unwrap()));
            let source = member::Error { member: ClusterId::new("a").unwrap(), failure };
            let mut undone = Undone::default();
            undone.note::<()>(Err(Error::Call { doing: "writing spec.trafficDistribution".into(), source }));
            undone
        };
        let field = "spec.trafficDistribution";
        assert!(refused(field, "no").is_about(field));
        assert!(refused(field, "translated or reworded").is_about(field));
        // Somebody named something so, or an admission policy explains itself.
        assert!(!refused("spec.ports[0].name", "spec.trafficDistribution is a bad name").is_about(field));
        assert!(!refused("spec.trafficDistributionOther", "no").is_about(field));
    }
}
