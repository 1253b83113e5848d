//! The role dies after every single one of its writes; whoever comes next finishes, and then there is silence.

use std::time::Duration;

use crate::harness::{WEB, World};

const END: &str = "a=6 b=2/4";

async fn scenario(world: &World) {
    world.create_set(8, Some(r#"{"rebalance":true}"#)).await;
}

#[tokio::test(start_paused = true)]
async fn after_every_write() {
    let world = World::new(&[("a", 110), ("b", 2)]).await;
    scenario(&world).await;
    world.until_layout(WEB, END).await;
    world.rest().await;
    let writes = world.log.writes().len();
    assert!(writes > 4, "{:#?}", world.log.writes());
    drop(world);
    for at in 1..=writes {
        let mut world = World::new(&[("a", 110), ("b", 2)]).await;
        world.log.die_after(at);
        scenario(&world).await;
        // Long enough for the write to come, and to be missed.
        tokio::time::sleep(Duration::from_secs(90)).await;
        world.kill().await;
        world.start().await;
        world.until_layout(WEB, END).await;
        world.rest().await;
        let web = world.federation.get(WEB).await.unwrap();
        assert_eq!(web["status"]["replicas"], 8, "after write {at}");
        assert_eq!(web["status"]["availableReplicas"], 8, "after write {at}");
    }
}
