//! A cluster that leaves the federation and returns to it, and what it has meanwhile.

use std::sync::Arc;

use serde_json::{Value, json};

use super::realm::{Policy, Realm, serve, until_entities};
use crate::union::SUPERVISORS;
use crate::world::{Room, World};

const WEB: Policy = Policy::cluster("web");
const MINE: Policy = Policy::cluster("mine");

pub(super) async fn and_returning(world: Arc<World>) -> anyhow::Result<()> {
    let realm = Realm::found(&world).await?;
    let home = Room::open(realm.at("a").room.cluster.clone(), "policies-home").await?;
    serve(&home).await?;
    realm.create("a", &WEB, 1).await?;
    realm.create("c", &MINE, 1).await?;
    realm.until(&WEB, "a=1 b=1 c=1").await?;
    realm.until(&MINE, "a=1 b=1 c=1").await?;
    // Ingress rules can select a federated Service by where its endpoints are.
    until_entities(&realm, "c", &["federated-service foo a 2"]).await?;

    // It leaves: what was generated goes, policies stay.
    realm.at("c").room.kubectl(&["delete", "federation", "fed"]).await?;
    until_entities(&realm, "c", &[]).await?;
    let entries = unlist(&realm).await?;
    realm.delete("a", &WEB).await?;
    realm.delete("b", &MINE).await?;
    realm.until(&WEB, "a=- b=- c=1").await?;
    realm.until(&MINE, "a=- b=- c=1").await?;
    // Nobody waits for who is not a member.
    realm.until_forgotten(&["a", "b"]).await?;

    // It returns: copies of what was removed meanwhile are dropped, what its own users made is spread again.
    join_again(&realm, entries).await?;
    realm.until(&WEB, "a=- b=- c=-").await?;
    realm.until(&MINE, "a=1 b=1 c=1").await?;
    until_entities(&realm, "c", &["federated-service foo a 2"]).await?;
    home.leave().await?;
    realm.dissolve().await
}

/// What its administrator does in a cluster while it is no member is nobody's removal, however short that was and whether or
/// not a supervisor saw it.
pub(super) async fn and_deleting_meanwhile(world: Arc<World>) -> anyhow::Result<()> {
    let mut realm = Realm::found(&world).await?;
    realm.create("a", &WEB, 1).await?;
    realm.create("c", &MINE, 1).await?;
    for supervisors_see_it in [true, false] {
        realm.until(&WEB, "a=1 b=1 c=1").await?;
        realm.until(&MINE, "a=1 b=1 c=1").await?;
        if !supervisors_see_it {
            realm.stop().await?;
        }
        realm.at("c").room.kubectl(&["delete", "federation", "fed"]).await?;
        let entries = unlist(&realm).await?;
        realm.delete("c", &WEB).await?;
        realm.delete("c", &MINE).await?;
        join_again(&realm, entries).await?;
        if !supervisors_see_it {
            realm.start().await?;
        }
    }
    realm.until(&WEB, "a=1 b=1 c=1").await?;
    realm.until(&MINE, "a=1 b=1 c=1").await?;
    realm.dissolve().await
}

/// Has the supervisors no longer list `c`; gives what they said of it.
async fn unlist(realm: &Realm) -> anyhow::Result<Vec<Value>> {
    let mut entries = Vec::new();
    for supervisor in SUPERVISORS {
        let room = &realm.at(supervisor).room;
        let listed: Value =
            serde_json::from_str(&room.kubectl(&["get", "federation", "fed", "-o", "json"]).await?)?;
        entries.push(listed["spec"]["members"][2].clone());
        patch(room, json!([{"op": "remove", "path": "/spec/members/2"}])).await?;
    }
    Ok(entries)
}

/// Has `c` join again, as what the supervisors said of it before.
async fn join_again(realm: &Realm, entries: Vec<Value>) -> anyhow::Result<()> {
    realm.union.federate(2).await?;
    for (supervisor, entry) in SUPERVISORS.into_iter().zip(entries) {
        let room = &realm.at(supervisor).room;
        patch(room, json!([{"op": "add", "path": "/spec/members/-", "value": entry}])).await?;
    }
    Ok(())
}

async fn patch(room: &Room, patch: Value) -> anyhow::Result<()> {
    room.kubectl(&["patch", "federation", "fed", "--type=json", "-p", &patch.to_string()]).await?;
    Ok(())
}
