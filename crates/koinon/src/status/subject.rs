//! What `koinon status` is asked about.

use super::workload::Named;

/// Everything else than the whole screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    Workload(Named),
    Config,
    Robots,
}

impl Subject {
    pub(super) fn parse(text: &str) -> Result<Subject, String> {
        match text {
            "config" => Ok(Subject::Config),
            "robots" | "sync" => Ok(Subject::Robots),
            _ if text.contains('/') => Named::parse(text).map(Subject::Workload),
            _ => Err(format!(
                "nothing is known of {text:?}: ask for deployment/NAME, replicaset/NAME, config or robots"
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
        assert_eq!(Subject::parse("robots"), Subject::parse("sync"));
        assert!(matches!(Subject::parse("deploy/web"), Ok(Subject::Workload(_))));
        assert!(Subject::parse("pod/web").unwrap_err().contains("no workload"));
        assert!(Subject::parse("weather").unwrap_err().contains("robots"));
    }
}
