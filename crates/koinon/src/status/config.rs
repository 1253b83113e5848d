//! The configuration federation that a cluster belongs to.

use jiff::Timestamp;
use koinon_config::{Other, Overview, by_kubeconfig, overview};
use koinon_control::clock::age;
use serde::Serialize;

use super::Scope;
use crate::table::table;

/// The clusters and what stands in their way.
#[derive(Debug, Serialize)]
pub(super) struct Config {
    clusters: Vec<Cluster>,
    complaints: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Cluster {
    context: String,
    /// Leader, Follower, or nothing where that is not known.
    role: Option<&'static str>,
    version: Option<String>,
    last_federated: Option<String>,
    #[serde(skip)]
    ago: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(super) async fn gather(scope: &Scope<'_>) -> anyhow::Result<Config> {
    let seen = overview(scope.client, &by_kubeconfig()).await.map_err(anyhow::Error::msg)?;
    Ok(told(seen, scope.now))
}

fn told(seen: Overview, now: Timestamp) -> Config {
    let complaints = seen.complaints();
    let role = |leads| if leads { "Leader" } else { "Follower" };
    let ago = |last| age(now.duration_since(last)) + " ago";
    let here = Cluster {
        context: seen.here,
        role: Some(role(seen.leads)),
        version: Some(seen.version),
        last_federated: seen.last_federated.map(|last| last.to_string()),
        ago: seen.last_federated.map(ago),
        error: seen.error,
    };
    let other = |other: Other| Cluster {
        context: other.context,
        role: other.leads.map(role),
        version: other.version,
        last_federated: other.last_federated.map(|last| last.to_string()),
        ago: other.last_federated.map(ago),
        error: other.error,
    };
    let clusters = std::iter::once(here).chain(seen.others.into_iter().map(other)).collect();
    Config { clusters, complaints }
}

pub(super) fn render(config: &Config) -> String {
    let head = ["CLUSTER", "ROLE", "VERSION", "LAST FEDERATED", "WHY"].map(str::to_owned).to_vec();
    let row = |one: &Cluster| {
        let or_dash = |text: Option<&str>| text.filter(|text| !text.is_empty()).unwrap_or("-").to_owned();
        vec![
            one.context.clone(),
            one.role.unwrap_or("Unknown").to_owned(),
            or_dash(one.version.as_deref()),
            or_dash(one.ago.as_deref()),
            one.error.clone().unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(config.clusters.iter().map(row)).collect();
    let complaints = config.complaints.iter().map(|one| format!("{one}\n"));
    table(&rows) + &complaints.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaders_followers_and_those_who_are_away() {
        let now = Timestamp::from_second(1_000).unwrap();
        let follower = Other {
            context: "b".into(),
            leads: Some(false),
            version: Some("1.6.1".into()),
            last_federated: Timestamp::from_second(700).ok(),
            error: None,
        };
        let away = Other { context: "c".into(), error: Some("no answer".into()), ..Other::default() };
        let seen = Overview {
            here: "a".into(),
            leads: true,
            version: "1.6.1".into(),
            last_federated: None,
            error: None,
            conditions: Vec::new(),
            others: vec![follower, away],
        };
        assert_eq!(
            render(&told(seen, now)),
            "CLUSTER   ROLE       VERSION   LAST FEDERATED   WHY\n\
             a         Leader     1.6.1     -\n\
             b         Follower   1.6.1     5m ago\n\
             c         Unknown    -         -                no answer\n"
        );
    }

    #[test]
    fn a_follower_says_of_itself_when_it_last_got_something() {
        let leader = Other {
            context: "a".into(),
            leads: Some(true),
            version: Some("1.6.1".into()),
            ..Other::default()
        };
        let seen = Overview {
            here: "b".into(),
            leads: false,
            version: "1.6.1".into(),
            last_federated: Timestamp::from_second(940).ok(),
            error: None,
            conditions: Vec::new(),
            others: vec![leader],
        };
        assert_eq!(
            render(&told(seen, Timestamp::from_second(1_000).unwrap())),
            "CLUSTER   ROLE       VERSION   LAST FEDERATED   WHY\n\
             b         Follower   1.6.1     60s ago\n\
             a         Leader     1.6.1     -\n"
        );
    }
}
