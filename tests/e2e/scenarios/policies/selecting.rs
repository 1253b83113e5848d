//! What ingress rules can select: a federated Service, by each cluster that it has members in.

use std::sync::Arc;

use super::realm::{Realm, serve, until_entities};
use crate::union::SITES;
use crate::world::{Room, World};

/// The federated Service has a member in all three clusters, so that each uses its own; traffic comes from the others too.
pub(super) async fn from_everywhere(world: Arc<World>) -> anyhow::Result<()> {
    let realm = Realm::found(&world).await?;
    // A Service of the federated one's name and namespace stands in for it.
    serve(&realm.at("c").room).await?;
    let mut homes = Vec::new();
    for name in ["a", "b"] {
        let home = Room::open(realm.at(name).room.cluster.clone(), "policies-home").await?;
        serve(&home).await?;
        homes.push(home);
    }
    let everywhere = async |wanted: &[&str]| {
        for name in SITES {
            until_entities(&realm, name, wanted).await?;
        }
        anyhow::Ok(())
    };
    everywhere(&["federated-service foo a 2", "federated-service foo b 2", "federated-service foo c 2"])
        .await?;
    homes[0].kubectl(&["scale", "deployment", "foo", "--replicas=1"]).await?;
    everywhere(&["federated-service foo a 1", "federated-service foo b 2", "federated-service foo c 2"])
        .await?;
    homes[1].kubectl(&["delete", "service", "foo"]).await?;
    everywhere(&["federated-service foo a 1", "federated-service foo c 2"]).await?;
    for home in homes {
        home.leave().await?;
    }
    everywhere(&["federated-service foo c 2"]).await?;
    realm.dissolve().await
}
