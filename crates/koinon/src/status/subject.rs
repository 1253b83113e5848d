//! What `koinon status` is asked about.

use super::workload::Named;

/// Everything else than the whole screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    Workload(Named),
    Service(String),
    Config,
    Policies,
    Robots,
    Orphans,
}

impl Subject {
    pub(super) fn parse(text: &str) -> Result<Subject, String> {
        match text.split_once('/') {
            None if text == "config" => Ok(Subject::Config),
            None if matches!(text, "policies" | "policy") => Ok(Subject::Policies),
            None if matches!(text, "robots" | "sync") => Ok(Subject::Robots),
            None if matches!(text, "orphans" | "orphan") => Ok(Subject::Orphans),
            Some(("service" | "services" | "svc", name)) if !name.is_empty() => {
                Ok(Subject::Service(name.to_owned()))
            }
            Some(_) => Named::parse(text).map(Subject::Workload),
            None => Err(format!(
                "nothing is known of {text:?}: ask for deployment/NAME, replicaset/NAME, service/NAME, policies, config, robots or \
                 orphans"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_told_apart() {
        assert_eq!(Subject::parse("config"), Ok(Subject::Config));
        assert_eq!(Subject::parse("policies"), Ok(Subject::Policies));
        assert_eq!(Subject::parse("robots"), Subject::parse("sync"));
        assert_eq!(Subject::parse("orphans"), Ok(Subject::Orphans));
        assert_eq!(Subject::parse("svc/foo"), Ok(Subject::Service("foo".into())));
        assert!(matches!(Subject::parse("deploy/web"), Ok(Subject::Workload(_))));
        assert!(Subject::parse("pod/web").unwrap_err().contains("no workload"));
        assert!(Subject::parse("weather").unwrap_err().contains("robots"));
    }
}
