//! What users do while no controller runs, and while clusters do not hear of each other.

use std::sync::Arc;

use super::realm::{Policy, Realm};
use crate::union::SITES;
use crate::wait::{Look, until};
use crate::world::World;

const WEB: Policy = Policy::cluster("web");
const SHOP: Policy = Policy::within("policies-away", "shop");
const SAME: Policy = Policy::cluster("same");
const KEPT: Policy = Policy::cluster("kept");
const GONE: Policy = Policy::cluster("gone");
const LAST: Policy = Policy::cluster("last");
const NEW: Policy = Policy::cluster("new");

pub(super) async fn apart(world: Arc<World>) -> anyhow::Result<()> {
    let mut realm = Realm::found(&world).await?;
    realm.open("policies-away", &SITES).await?;
    for policy in [WEB, KEPT, GONE, LAST, SHOP] {
        realm.create("a", &policy, 1).await?;
    }
    for policy in [WEB, KEPT, GONE, LAST, SHOP] {
        realm.until(&policy, "a=1 b=1 c=1").await?;
    }
    nobody_looks(&mut realm).await?;
    nobody_hears(&realm).await?;
    realm.until_forgotten(&SITES).await?;
    realm.dissolve().await
}

async fn nobody_looks(realm: &mut Realm) -> anyhow::Result<()> {
    for name in SITES {
        // What a leader did not come to write down cannot be told from what a user removed.
        for policy in [WEB, SHOP] {
            realm.until_ledger(name, policy.name, true).await?;
        }
    }
    realm.stop().await?;
    realm.delete("c", &WEB).await?;
    // A namespace that was made anew took its policies along, which no user removed.
    realm.close("policies-away", "c").await?;
    realm.open("policies-away", &["c"]).await?;
    realm.edit("b", &SHOP, 2).await?;
    realm.create("b", &SAME, 2).await?;
    realm.create("c", &SAME, 3).await?;
    realm.start().await?;
    realm.until(&WEB, "a=- b=- c=-").await?;
    realm.until(&SHOP, "a=2 b=2 c=2").await?;
    // One of two users wins, and the other one hears of it.
    let winner = until("everybody has the same of two", async || {
        let mut says = Vec::new();
        for name in SITES {
            says.push(realm.find(name, &SAME).await?.map(|found| found.data["spec"]["priority"].clone()));
        }
        let is_one = says.iter().all(|one| one.is_some() && *one == says[0]);
        Ok(if is_one { Look::Found(says.remove(0)) } else { Look::NotYet(format!("{says:?}")) })
    })
    .await?;
    let (won, lost) = if winner == Some(2.into()) { ("b", "c") } else { ("c", "b") };
    realm.until_told(lost, &SAME, "FederatedPolicyConflict", &[&format!("cluster {won}")]).await
}

/// A and b are led by their own supervisors, c by nobody.
async fn nobody_hears(realm: &Realm) -> anyhow::Result<()> {
    realm.cut();
    realm.edit("a", &KEPT, 2).await?;
    realm.delete("b", &KEPT).await?;
    realm.delete("c", &KEPT).await?;
    realm.delete("b", &GONE).await?;
    realm.edit("c", &LAST, 2).await?;
    realm.create("b", &NEW, 1).await?;
    // In b it counts already, whatever happens elsewhere.
    realm.until_ledger("b", "removed", true).await?;
    realm.until_ledger("b", "acnp/new", true).await?;
    realm.until(&KEPT, "a=2 b=- c=-").await?;
    realm.heal();
    // An edit survives a removal that knew nothing of it; a copy that nobody touched does not.
    realm.until(&KEPT, "a=2 b=2 c=2").await?;
    realm.until(&GONE, "a=- b=- c=-").await?;
    realm.until(&LAST, "a=2 b=2 c=2").await?;
    realm.until(&NEW, "a=1 b=1 c=1").await
}
