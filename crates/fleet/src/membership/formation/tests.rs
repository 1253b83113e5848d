use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use koinon_api::membership::{Claimed, ClusterClaim, FederationStatus, MemberStatus, Phase};

use super::*;

const NAMESPACE: &str = "antrea-plus-system";

fn federation(name: &str, age: i64, members: &[(&str, &str)]) -> Federation {
    let mut federation = Federation::default();
    federation.metadata.name = Some(name.into());
    federation.metadata.namespace = Some(NAMESPACE.into());
    federation.metadata.creation_timestamp = Some(Time(jiff::Timestamp::from_second(1000 - age).unwrap()));
    federation.spec.members = members
        .iter()
        .map(|(id, secret)| MemberCluster {
            cluster_id: Claimed { name: None, value: (*id).into() },
            server: format!("https://{id}"),
            secret: (*secret).into(),
        })
        .collect();
    federation
}

fn secrets(names: &[&str]) -> BTreeMap<String, Arc<Secret>> {
    let secret = |name: &str| {
        let mut secret = Secret::default();
        secret.metadata.name = Some(name.into());
        secret.metadata.labels = Some([(MEMBER_SECRET.to_owned(), "true".to_owned())].into());
        secret.data = Some([("token".to_owned(), ByteString(name.into()))].into());
        Arc::new(secret)
    };
    names.iter().map(|name| ((*name).to_owned(), secret(name))).collect()
}

fn claims(claims: &[(&str, &str)]) -> Role {
    let claims: Vec<_> = claims
        .iter()
        .map(|(name, value)| ClusterClaim {
            name: Some((*name).into()),
            value: (*value).into(),
            ..ClusterClaim::default()
        })
        .collect();
    Role::Cluster(Claims::of(&claims))
}

const SUPERVISOR: (&str, &str) = ("supervisor.antreaplus.tanzu-vmware.com", "true");

fn form(role: &Role, federations: Vec<Federation>, names: &[&str]) -> Formation {
    let federations: Vec<_> = federations.into_iter().map(Arc::new).collect();
    formation(NAMESPACE, role, &federations, &secrets(names))
}

fn names(formation: &Formation) -> String {
    let each = formation.members.iter().map(|(id, entry)| match &entry.way {
        Way::Login(_) => id.to_string(),
        Way::Local => format!("{id}(me)"),
        Way::None(_) => format!("{id}(?)"),
    });
    each.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_supervisor_reaches_all_and_a_child_nobody() {
    let members = [("a", "sa"), ("b", "sb"), ("c", "missing")];
    let supervisor =
        form(&claims(&[("id.k8s.io", "a"), SUPERVISOR]), vec![federation("f", 1, &members)], &["sa", "sb"]);
    assert_eq!(supervisor.part, Part::Supervisor(ClusterId::new("a").unwrap()));
    assert_eq!(names(&supervisor), "a(me) b c(?)");
    assert_eq!(supervisor.problems, Vec::<String>::new());
    let child = form(&claims(&[("id.k8s.io", "a")]), vec![federation("f", 1, &members)], &["sa"]);
    assert_eq!(
        (child.part.clone(), names(&child)),
        (Part::Child(ClusterId::new("a").unwrap()), String::new())
    );
    let empty = form(&claims(&[("id.k8s.io", "a")]), vec![federation("f", 1, &[])], &[]);
    assert!(matches!(empty.part, Part::Child(_)) && empty.problems.is_empty());
}

#[test]
fn without_federation_or_id_a_cluster_is_alone() {
    let alone = form(&claims(&[("id.k8s.io", "a"), SUPERVISOR]), vec![], &[]);
    assert!(matches!(alone.part, Part::Alone(_)) && alone.problems.is_empty());
    let nameless = form(&claims(&[SUPERVISOR]), vec![federation("f", 1, &[("b", "sb")])], &["sb"]);
    assert!(matches!(nameless.part, Part::Alone(_)));
    assert_eq!(nameless.problems.len(), 1);
    assert!(nameless.members.is_empty());
}

#[test]
fn the_oldest_federation_counts_and_others_are_told() {
    let mut elsewhere = federation("z", 99, &[]);
    elsewhere.metadata.namespace = Some("default".into());
    let all = vec![federation("young", 1, &[("b", "s")]), federation("old", 9, &[("c", "s")]), elsewhere];
    let mut other_order = all.clone();
    other_order.reverse();
    for all in [all, other_order] {
        let formation = form(&Role::Federation, all, &["s"]);
        assert_eq!(names(&formation), "c");
        let ignored: Vec<_> =
            formation.ignored.iter().map(|(one, why)| format!("{}: {why}", one.name_any())).collect();
        assert_eq!(
            ignored,
            [
                "z: a Federation belongs into the namespace antrea-plus-system",
                "young: a cluster is in one federation, and old is older"
            ]
        );
    }
}

#[test]
fn a_member_named_twice_or_badly_is_told_and_the_rest_works() {
    let formation = form(
        &Role::Federation,
        vec![federation("f", 1, &[("b", "s"), ("b", "t"), ("B", "s"), ("c", "")])],
        &["s"],
    );
    assert_eq!(names(&formation), "b c(?)");
    assert_eq!(formation.problems.len(), 2);
}

#[test]
fn an_id_that_changed_under_a_federation_stays_in_force() {
    let mut bound = federation("f", 1, &[("a", "s")]);
    bound.status = Some(FederationStatus { cluster_id: Some("a".into()), ..FederationStatus::default() });
    for role in [claims(&[("id.k8s.io", "x"), SUPERVISOR]), claims(&[SUPERVISOR])] {
        let formation = form(&role, vec![bound.clone()], &["s"]);
        assert_eq!(formation.part, Part::Supervisor(ClusterId::new("a").unwrap()));
        assert_eq!(formation.problems.len(), 1, "{:?}", formation.problems);
    }
}

#[test]
fn who_was_seen_or_joined_is_expected_again() {
    let mut seen = federation("f", 1, &[("a", "sa"), ("b", "sb")]);
    let member = |id: &str| MemberStatus {
        last_seen: None,
        cluster_id: id.into(),
        status: Phase::Reachable,
        error: None,
        is_leader: false,
        leader: None,
        since: None,
        uid: Some(format!("seen-{id}")),
        version: None,
        server: None,
        warnings: Vec::new(),
    };
    seen.status =
        Some(FederationStatus { member_status: vec![member("a"), member("b")], ..Default::default() });
    let mut secrets = secrets(&["sa", "sb"]);
    let joined = Arc::make_mut(secrets.get_mut("sb").unwrap());
    joined.annotations_mut().insert(CLUSTER_UID.into(), "joined-b".into());
    let formation = formation(NAMESPACE, &Role::Federation, &[Arc::new(seen)], &secrets);
    let uids: Vec<_> = formation.members.values().map(|entry| entry.uid.clone().unwrap()).collect();
    assert_eq!(uids, ["seen-a", "joined-b"]);
}

#[test]
fn where_a_member_answered_first_is_where_its_token_goes_until_its_secret_says_otherwise() {
    let mut moved = federation("f", 1, &[("a", "sa"), ("b", "sb"), ("c", "other")]);
    let answered = |id: &str| MemberStatus {
        last_seen: None,
        cluster_id: id.into(),
        status: Phase::Reachable,
        error: None,
        is_leader: false,
        leader: None,
        since: None,
        uid: None,
        version: None,
        server: Some(format!("https://{id}")),
        warnings: Vec::new(),
    };
    moved.status =
        Some(FederationStatus { member_status: vec![answered("a"), answered("b")], ..Default::default() });
    moved.spec.members[1].server = "https://evil".into();
    let mut secrets = secrets(&["sa", "sb", "other"]);
    Arc::make_mut(secrets.get_mut("other").unwrap()).metadata.labels = None;
    let moved = Arc::new(moved);
    let formed = formation(NAMESPACE, &Role::Federation, std::slice::from_ref(&moved), &secrets);
    assert_eq!(names(&formed), "a b(?) c(?)");
    let why = |formation: &Formation, id: &str| match &formation.members[id].way {
        Way::None(why) => why.clone(),
        way => panic!("{way:?}"),
    };
    assert!(why(&formed, "b").contains("https://evil"), "{}", why(&formed, "b"));
    let label = "kubectl label secret -n antrea-plus-system other koinon.dev/member-secret=true";
    assert!(why(&formed, "c").contains(label), "{}", why(&formed, "c"));

    // Who may write the Secret has the token anyway, and may say where it goes.
    let data = Arc::make_mut(secrets.get_mut("sb").unwrap()).data.as_mut().unwrap();
    data.insert("server".into(), ByteString("https://evil".into()));
    let formed = formation(NAMESPACE, &Role::Federation, &[moved], &secrets);
    assert_eq!(names(&formed), "a b c(?)");
}

#[test]
fn a_token_goes_nowhere_else_under_another_name_either() {
    let of = |members: &[(&str, &str)], answered: &[(&str, &str)]| {
        let mut federation = federation("f", 1, members);
        let said = answered.iter().map(|(id, server)| {
            let said = serde_json::json!({"clusterID": id, "status": "Reachable", "isLeader": false, "server": server});
            serde_json::from_value::<MemberStatus>(said).unwrap()
        });
        federation.status =
            Some(FederationStatus { member_status: said.collect(), ..FederationStatus::default() });
        form(&Role::Federation, vec![federation], &["sa", "sb"])
    };
    // Whoever may write the Federation adds a member with another's Secret and an address of their own.
    let formed = of(&[("a", "sa"), ("evil", "sa"), ("b", "sb")], &[("a", "https://a")]);
    assert_eq!(names(&formed), "a b evil(?)");
    let Way::None(why) = &formed.members[&ClusterId::new("evil").unwrap()].way else { panic!("{formed:?}") };
    assert!(why.contains("https://evil") && why.contains("https://a"), "{why}");
    assert_eq!(names(&of(&[("a", "sa"), ("b", "sb")], &[("a", "https://a")])), "a b");
}

#[test]
fn supervisors_that_name_other_members_are_told_so() {
    let ours = federation("f", 1, &[("a", "s"), ("b", "s"), ("c", "s")]);
    let lists = |lists: &[(&str, &[&str])]| {
        let one = |(name, ids): &(&str, &[&str])| {
            (ClusterId::new(name).unwrap(), ids.iter().map(|id| (*id).to_owned()).collect())
        };
        lists.iter().map(one).collect::<Rosters>()
    };
    assert_eq!(disagreements(&ours, &lists(&[("a", &["c", "b", "a"]), ("c", &[])])), Vec::<String>::new());
    assert_eq!(
        disagreements(&ours, &lists(&[("b", &["a", "b", "d"])])),
        [
            "the Federation of cluster b names other members than this one (not there: c; only there: d): make them the same"
        ]
    );
}

#[test]
fn a_cluster_under_two_names_counts_once() {
    let members = [("b", "sb"), ("a", "sa"), ("c", "sc")];
    let mut secrets = secrets(&["sa", "sb", "sc"]);
    let same = |secrets: &mut BTreeMap<String, Arc<Secret>>, names: &[&str]| {
        for name in names {
            let secret = Arc::make_mut(secrets.get_mut(*name).unwrap());
            secret.metadata.annotations = Some([(CLUSTER_UID.to_owned(), "u".to_owned())].into());
        }
    };
    same(&mut secrets, &["sa", "sb"]);
    let one = [Arc::new(federation("f", 1, &members))];
    let formation = super::formation(NAMESPACE, &Role::Federation, &one, &secrets);
    assert_eq!(names(&formation), "a(?) b c", "the first entry was there before");
    assert_eq!(
        formation.problems,
        ["the members b and a are the same cluster: only b counts; unjoin one of them"]
    );
    let why = &formation.members["a"].way;
    assert_eq!(*why, Way::None("it is the same cluster as the member b: unjoin one of them".into()));

    // Where only a role saw who it is, and in any order where it is this very cluster.
    let mut seen = federation("f", 1, &members);
    let status = serde_json::json!({"memberStatus": [{"clusterID": "c", "status": "Reachable", "isLeader": false, "uid": "u"}]});
    seen.status = Some(serde_json::from_value(status).unwrap());
    let me = claims(&[("id.k8s.io", "c"), SUPERVISOR]);
    let formation = super::formation(NAMESPACE, &me, &[Arc::new(seen)], &secrets);
    assert_eq!(names(&formation), "a(?) b(?) c(me)");
    assert_eq!(formation.problems.len(), 2);
}

#[test]
fn one_claim_under_two_names_with_two_values_is_told() {
    let differ = claims(&[("id.k8s.io", "a"), ("cluster.clusterset.k8s.io", "b")]);
    let formation = form(&differ, vec![federation("f", 1, &[])], &[]);
    assert_eq!(formation.part, Part::Child(ClusterId::new("a").unwrap()));
    assert_eq!(formation.problems.len(), 1, "{:?}", formation.problems);
}
