//! Clusters, names and accounts that two want, members that are joined again, and what is told of them.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use koinon_api::membership::{Federation, KOINON_NAMESPACE, Phase};
use koinon_fleet::membership::{Arrival, Joined, Left, Reach, leave, list};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};

use crate::harness::id;
use crate::joining::{Served, joined, secret};

async fn uid_of(served: &Served) -> String {
    Api::<Namespace>::all(served.client.clone()).get("kube-system").await.unwrap().uid().unwrap()
}

/// Has the Federation say this of its members, as a role would.
async fn note(federation: &Served, said: serde_json::Value) {
    let api: Api<Federation> = Api::namespaced(federation.client.clone(), KOINON_NAMESPACE);
    let mut noted = api.get("federation").await.unwrap();
    let status = noted.status.get_or_insert_default();
    status.observed_generation = noted.metadata.generation;
    status.member_status = vec![serde_json::from_value(said).unwrap()];
    api.replace_status("federation", &Default::default(), &noted).await.unwrap();
}

#[tokio::test]
async fn leaving_takes_no_account_that_is_anothers() {
    let (one, other, a) = (Served::start().await, Served::start().await, Served::start().await);
    joined(&one, "a", &a).await.unwrap();
    // As when the first federation was thought gone, and the cluster was given to another.
    let bindings: Api<ClusterRoleBinding> = Api::all(a.client.clone());
    let theirs = uid_of(&other).await;
    let given = serde_json::json!({"metadata": {"annotations": {"koinon.dev/federation": theirs}}});
    bindings.patch("koinon-member", &PatchParams::default(), &Patch::Merge(given)).await.unwrap();
    assert_eq!(joined(&other, "x", &a).await, Ok(Joined::New));
    let left = leave(&one.client, "a").await.unwrap();
    assert_eq!(left, Left::Others("it belongs to another federation".into()));
    assert_eq!(list(&one.client, koinon_apiserver::context::wall_clock()).await.unwrap(), Vec::new());
    let rows = list(&other.client, koinon_apiserver::context::wall_clock()).await.unwrap();
    assert_eq!(rows[0].phase, Phase::Reachable, "{rows:?}");
    assert_eq!(leave(&other.client, "x").await.unwrap(), Left::Nothing);
    assert!(bindings.get_opt("koinon-member").await.unwrap().is_none());
}

#[tokio::test]
async fn members_tell_who_leads_them_and_when_they_were_seen() {
    let (federation, a) = (Served::start().await, Served::start().await);
    joined(&federation, "a", &a).await.unwrap();
    assert_eq!(
        list(&federation.client, koinon_apiserver::context::wall_clock()).await.unwrap()[0].leader,
        None,
        "no role runs"
    );
    let leases: Api<Lease> = Api::namespaced(federation.client.clone(), "kube-system");
    let lease = serde_json::json!({
        "metadata": {"name": "koinon-workloads"},
        "spec": {"holderIdentity": "7_x", "leaseDurationSeconds": 30, "renewTime": MicroTime(koinon_apiserver::context::wall_clock())},
    });
    leases.create(&Default::default(), &serde_json::from_value(lease).unwrap()).await.unwrap();
    let row = list(&federation.client, koinon_apiserver::context::wall_clock()).await.unwrap().remove(0);
    assert_eq!((row.leader.as_deref(), row.last_seen), (Some("7_x"), None));
    let away = serde_json::json!({
        "clusterID": "a", "status": "Unreachable", "isLeader": false,
        "since": "2026-01-01T00:01:00Z", "lastSeen": "2026-01-01T00:00:30Z",
    });
    note(&federation, away).await;
    a.stop().await;
    let row = list(&federation.client, koinon_apiserver::context::wall_clock()).await.unwrap().remove(0);
    assert_eq!(row.last_seen, Some("2026-01-01T00:00:30Z".parse().unwrap()));
}

#[tokio::test]
async fn of_two_who_let_the_same_cluster_in_at_once_one_wins() {
    let (federation, a) = (Served::start().await, Served::start().await);
    let (one, other) = tokio::join!(joined(&federation, "one", &a), joined(&federation, "other", &a));
    let (winner, loser, told) = match (&one, &other) {
        (Ok(_), Err(told)) => ("one", "other", told),
        (Err(told), Ok(_)) => ("other", "one", told),
        both => panic!("{both:?}"),
    };
    assert_eq!(*told, format!("this cluster is a member already, under the name {winner}"));
    let rows = list(&federation.client, koinon_apiserver::context::wall_clock()).await.unwrap();
    let shown: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.phase)).collect();
    assert_eq!(shown, [(winner, Phase::Reachable)]);
    assert!(secret(&federation, &format!("member-{loser}")).await.is_none());
    assert_eq!(leave(&federation.client, winner).await.unwrap(), Left::Nothing);
}

#[tokio::test]
async fn a_name_whose_secret_is_missing_still_belongs_to_its_cluster() {
    let (federation, a, b) = (Served::start().await, Served::start().await, Served::start().await);
    joined(&federation, "a", &a).await.unwrap();
    let uid = uid_of(&a).await;
    note(
        &federation,
        serde_json::json!({"clusterID": "a", "status": "Reachable", "uid": uid, "isLeader": false}),
    )
    .await;
    let secrets: Api<Secret> = Api::namespaced(federation.client.clone(), KOINON_NAMESPACE);
    secrets.delete("member-a", &Default::default()).await.unwrap();
    let error = joined(&federation, "a", &b).await.unwrap_err();
    assert!(error.starts_with("there is a member a already, and it is another cluster"), "{error}");
    assert_eq!(joined(&federation, "a", &a).await, Ok(Joined::New), "its own cluster may come back");
}

#[tokio::test]
async fn joining_again_waits_until_what_was_said_before_is_over() {
    let (federation, a) = (Served::start().await, Served::start().await);
    joined(&federation, "a", &a).await.unwrap();
    let away = serde_json::json!({
        "clusterID": "a", "status": "Unreachable", "isLeader": false,
        "error": "it refuses our credentials", "since": "2026-01-01T00:00:00Z",
    });
    note(&federation, away).await;
    let arrival = Arrival::expect(&federation.client, &id("a")).await.unwrap();
    // Nothing was done about it, so it is what it is.
    let reach = arrival.until_reached(false, |_| {}).await.unwrap();
    assert_eq!(reach, Reach::Away("it refuses our credentials".into()));
    let (waits, waited) = tokio::sync::oneshot::channel();
    let mut waits = Some(waits);
    let (reach, ()) = tokio::join!(
        arrival.until_reached(true, move |_| {
            let _ = waits.take().map(|waits| waits.send(()));
        }),
        async {
            waited.await.unwrap();
            let back = serde_json::json!({
                "clusterID": "a", "status": "Reachable", "isLeader": false, "since": "2026-01-01T00:05:00Z",
            });
            note(&federation, back).await;
        }
    );
    assert_eq!(reach.unwrap(), Reach::Reached);
    // Lost again since then is news.
    let lost = serde_json::json!({
        "clusterID": "a", "status": "Unreachable", "isLeader": false, "since": "2026-01-01T00:06:00Z",
    });
    note(&federation, lost).await;
    let reach = arrival.until_reached(true, |_| {}).await.unwrap();
    assert_eq!(reach, Reach::Away("it does not answer".into()));
}
