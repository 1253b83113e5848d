//! The members and how they are.

use jiff::Timestamp;
use koinon_control::clock::age;
use koinon_fleet::membership::{self, Row};
use serde::Serialize;

use super::Scope;
use crate::table::table;

/// One member.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Member {
    name: String,
    status: String,
    version: Option<String>,
    nodes: Option<u64>,
    /// For how long it has not been seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    gone_for: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(super) async fn gather(scope: &Scope<'_>) -> anyhow::Result<Vec<Member>> {
    let rows = membership::list(scope.client, scope.now).await?;
    Ok(rows.into_iter().map(|row| member(row, scope.now)).collect())
}

fn member(row: Row, now: Timestamp) -> Member {
    Member {
        name: row.name,
        status: row.phase.as_str().to_owned(),
        version: row.version,
        nodes: row.nodes,
        gone_for: row.last_seen.map(|since| age(now.duration_since(since))),
        error: row.error,
    }
}

pub(super) fn render(members: &[Member]) -> String {
    if members.is_empty() {
        return "none; try koinon join NAME --member-kubeconfig FILE\n".to_owned();
    }
    let head = ["NAME", "STATUS", "VERSION", "NODES", "WHY"].map(str::to_owned).to_vec();
    let row = |member: &Member| {
        let why = match (&member.error, &member.gone_for) {
            (Some(error), Some(time)) => format!("for {time}: {error}"),
            (Some(error), None) => error.clone(),
            (None, _) => String::new(),
        };
        vec![
            member.name.clone(),
            member.status.clone(),
            member.version.clone().unwrap_or_else(|| "-".to_owned()),
            member.nodes.map_or_else(|| "-".to_owned(), |nodes| nodes.to_string()),
            why,
        ]
    };
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(members.iter().map(row)).collect();
    table(&rows)
}

#[cfg(test)]
mod tests {
    use koinon_fleet::Phase;

    use super::*;

    #[test]
    fn who_is_away_says_for_how_long_and_why() {
        let now = Timestamp::from_second(10_000).unwrap();
        let row = |name: &str, phase, error: Option<&str>| Row {
            name: name.into(),
            id: None,
            phase,
            error: error.map(Into::into),
            server: "https://10.0.0.1:6443".into(),
            version: Some("v1.36.3".into()),
            nodes: error.is_none().then_some(3),
            leader: None,
            last_seen: error.map(|_| Timestamp::from_second(9_000).unwrap()),
        };
        let rows = [row("a", Phase::Reachable, None), row("eu-west", Phase::Unreachable, Some("no answer"))];
        let members: Vec<Member> = rows.into_iter().map(|row| member(row, now)).collect();
        assert_eq!(
            render(&members),
            "NAME      STATUS        VERSION   NODES   WHY\n\
             a         Reachable     v1.36.3   3\n\
             eu-west   Unreachable   v1.36.3   -       for 16m: no answer\n"
        );
    }
}
