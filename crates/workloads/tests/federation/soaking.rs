//! Workloads that come and go for long leave nothing behind in the role.
//!
//! `KOINON_SOAK=10000` makes so many; `hack/soak.sh` does.

use serde_json::{Value, json};

use crate::harness::{Site, World};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
/// As many at a time.
const BATCH: usize = 20;

fn deployment(name: &str) -> Value {
    let labels = json!({"app": name});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:1"}]},
        }},
    })
}

async fn until_none(site: &Site) {
    loop {
        let list = site.get(DEPLOYMENTS).await.unwrap();
        if list["items"].as_array().is_some_and(Vec::is_empty) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_and_goes_is_not_remembered() {
    let count = std::env::var("KOINON_SOAK").ok().and_then(|text| text.parse().ok()).unwrap_or(100);
    let world = World::new(&[("a", 110), ("b", 110)]).await;
    let mut most = 0;
    for batch in 0..count / BATCH {
        let names: Vec<String> = (0..BATCH).map(|number| format!("web-{batch}-{number}")).collect();
        for name in &names {
            world.federation.create(DEPLOYMENTS, deployment(name)).await;
        }
        for name in &names {
            let path = format!("{DEPLOYMENTS}/{name}");
            world.until(&path, "it runs", |one| one["status"]["availableReplicas"] == 2).await;
        }
        most = most.max(world.metrics.entries());
        // One in two leaves what members have, as a plain deletion does.
        for (number, name) in names.iter().enumerate() {
            let how = if number % 2 == 0 { "Background" } else { "Foreground" };
            world.federation.delete(&format!("{DEPLOYMENTS}/{name}"), how).await;
        }
        until_none(&world.federation).await;
        for site in world.members.values() {
            for name in names.iter().step_by(2) {
                site.delete(&format!("{DEPLOYMENTS}/{name}"), "Background").await;
            }
            until_none(site).await;
        }
    }
    world.rest().await;
    assert!(most >= 3 * i64::try_from(BATCH).unwrap(), "at the most {most} entries: nothing was counted");
    assert_eq!(
        world.metrics.entries(),
        0,
        "after {count} Deployments, of which at the most {most} entries were kept"
    );
}
