//! Where the content of a revision comes from: whoever has it is asked once, for all members that are led.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use koinon_fleet::{ClusterId, Fleet};
use kube::Api;
use kube::core::DynamicObject;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::content::Content;
use super::key::PolicyKey;
use super::version::Hash;
use super::write_barrier::WriteBarrier;

/// So many contents are remembered: those that are on their way to members.
const REMEMBERED: usize = 1024;

type Cell = Arc<OnceCell<Arc<Content>>>;

/// Contents by fingerprint.
#[derive(Default)]
pub(super) struct Source {
    /// What is made from them.
    pub(super) barrier: WriteBarrier,
    known: Mutex<(BTreeMap<Hash, Cell>, VecDeque<Hash>)>,
}

impl Source {
    /// Remembers a content that was just seen.
    pub(super) fn remember(&self, hash: Hash, content: &Content) {
        let cell = self.cell(hash);
        // Whoever came first had the same content.
        let _ = cell.set(Arc::new(content.clone()));
    }

    /// The content of a policy with this fingerprint, from the first of these members that has it.
    pub(super) async fn content(
        &self,
        fleet: &Fleet,
        key: &PolicyKey,
        hash: Hash,
        from: &[ClusterId],
    ) -> Option<Arc<Content>> {
        let cell = self.cell(hash);
        let found =
            cell.get_or_try_init(|| async { ask(fleet, key, hash, from).await.map(Arc::new).ok_or(()) });
        found.await.ok().cloned()
    }

    fn cell(&self, hash: Hash) -> Cell {
        let mut known = self.known.lock();
        let (cells, order) = &mut *known;
        if let Some(cell) = cells.get(&hash) {
            return cell.clone();
        }
        if order.len() >= REMEMBERED
            && let Some(oldest) = order.pop_front()
        {
            cells.remove(&oldest);
        }
        order.push_back(hash);
        cells.entry(hash).or_default().clone()
    }
}

async fn ask(fleet: &Fleet, key: &PolicyKey, hash: Hash, from: &[ClusterId]) -> Option<Content> {
    let mut members: Vec<_> = from.iter().filter_map(|name| fleet.get(name.as_str())).collect();
    members.sort_by_key(|member| !member.is_reachable());
    for member in members {
        let resource = key.kind.resource();
        let namespace = Some(key.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let api: Api<DynamicObject> = member.client().dynamic(&resource, namespace);
        match member.client().call(api.get(&key.name)).await {
            Ok(object) => {
                let content = Content::of(&object);
                if content.hash(key) == hash {
                    return Some(content);
                }
            }
            Err(error) => tracing::debug!(%key, %error, "the content of a policy was not read"),
        }
    }
    None
}
