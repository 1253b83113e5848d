//! The account named `default`: every namespace has one, and gets it back.

use std::convert::Infallible;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use koinon_control::call::within_deadline;
use koinon_control::queue::{self, Next, Queue};
use koinon_control::{Key, View};
use kube::{Api, ResourceExt as _};

use super::{FIRST_PAUSE, LONGEST_PAUSE, WORKERS, is_active, written};
use crate::shared::Shared;

const NAME: &str = "default";

pub(super) async fn run(shared: &Shared, accounts: &Arc<View<ServiceAccount>>) -> Infallible {
    let queue = Arc::new(Queue::new(FIRST_PAUSE, LONGEST_PAUSE));
    let changed = Arc::downgrade(&queue);
    shared.namespaces.on_change(move |_, after| {
        if let (Some(queue), Some(namespace)) = (changed.upgrade(), after) {
            queue.add(namespace.name_any());
        }
    });
    let removed = Arc::downgrade(&queue);
    accounts.on_change(move |before, after| {
        if let (Some(queue), Some(account), None) = (removed.upgrade(), before, after) {
            queue.add(account.namespace().unwrap_or_default());
        }
    });
    tokio::join!(shared.namespaces.listed(), accounts.listed());
    let ensure = |namespace: String| async move {
        let Some(found) = shared.namespaces.get(&Key::new("", &*namespace)) else { return Next::Done };
        if !is_active(&found) || accounts.get(&Key::new(&*namespace, NAME)).is_some() {
            return Next::Done;
        }
        let metadata = ObjectMeta { name: Some(NAME.into()), ..ObjectMeta::default() };
        let account = ServiceAccount { metadata, ..ServiceAccount::default() };
        let api: Api<ServiceAccount> = Api::namespaced(shared.client.clone(), &namespace);
        match within_deadline(api.create(&written(), &account)).await {
            Ok(account) => {
                accounts.learn(account);
                Next::Done
            }
            // Somebody was faster; should theirs go again, the watch will tell.
            Err(error) if error.is_conflict() || error.is_namespace_ending() => Next::Done,
            Err(error) => {
                tracing::debug!(namespace, %error, "accounts: will try again");
                Next::Retry
            }
        }
    };
    queue::work(&queue, WORKERS, ensure).await
}
