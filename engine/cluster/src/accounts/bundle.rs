//! The ConfigMap `kube-root-ca.crt`: the certificates by which pods know their API server.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use koinon_control::call::within_deadline;
use koinon_control::queue::{self, Next, Queue};
use koinon_control::{Key, View};
use kube::{Api, ResourceExt as _};

use super::{FIRST_PAUSE, LONGEST_PAUSE, WORKERS, is_active, written};
use crate::shared::Shared;

const NAME: &str = "kube-root-ca.crt";
const CERTIFICATES: &str = "ca.crt";
const DESCRIPTION: (&str, &str) = (
    "kubernetes.io/description",
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as \
     the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of \
     Kubernetes clusters.",
);

pub(super) async fn run(shared: &Shared, authority: &Arc<str>) -> Infallible {
    let maps: Arc<View<ConfigMap>> = View::new();
    let queue = Arc::new(Queue::new(FIRST_PAUSE, LONGEST_PAUSE));
    let changed = Arc::downgrade(&queue);
    shared.namespaces.on_change(move |_, after| {
        if let (Some(queue), Some(namespace)) = (changed.upgrade(), after) {
            queue.add(namespace.name_any());
        }
    });
    let edited = Arc::downgrade(&queue);
    maps.on_change(move |before, after| {
        if let (Some(queue), Some(map)) = (edited.upgrade(), after.or(before)) {
            queue.add(map.namespace().unwrap_or_default());
        }
    });
    let (maps, selection) = (&maps, format!("metadata.name={NAME}"));
    let ensure = |namespace: String| async move {
        let Some(found) = shared.namespaces.get(&Key::new("", &*namespace)) else { return Next::Done };
        let before = maps.get(&Key::new(&*namespace, NAME));
        let api: Api<ConfigMap> = Api::namespaced(shared.client.clone(), &namespace);
        let written = match (before, is_active(&found)) {
            (None, false) => return Next::Done,
            (None, true) => within_deadline(api.create(&written(), &new(authority))).await,
            (Some(before), _) => match correction(&before, authority) {
                None => return Next::Done,
                Some(after) => within_deadline(api.replace(NAME, &written(), &after)).await,
            },
        };
        match written {
            Ok(map) => {
                maps.learn(map);
                Next::Done
            }
            Err(error) if error.is_namespace_ending() => Next::Done,
            Err(error) => {
                tracing::debug!(namespace, %error, "accounts: will try again");
                Next::Retry
            }
        }
    };
    let work = async {
        tokio::join!(shared.namespaces.listed(), maps.listed());
        queue::work(&queue, WORKERS, ensure).await
    };
    tokio::select! {
        biased;
        never = maps.follow_fields(Api::all(shared.client.clone()), &selection) => never,
        never = work => never,
    }
}

fn new(authority: &str) -> ConfigMap {
    let metadata = ObjectMeta { name: Some(NAME.into()), ..ObjectMeta::default() };
    let mut map = ConfigMap { metadata, data: Some(data(authority)), ..ConfigMap::default() };
    describe(&mut map);
    map
}

fn data(authority: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(CERTIFICATES.to_owned(), authority.to_owned())])
}

fn describe(map: &mut ConfigMap) {
    let (key, text) = DESCRIPTION;
    map.annotations_mut().insert(key.to_owned(), text.to_owned());
}

/// The map as it should be, unless it is so already. Whoever puts other words into the description may.
fn correction(map: &ConfigMap, authority: &str) -> Option<ConfigMap> {
    let described = map.annotations().get(DESCRIPTION.0).is_some_and(|text| !text.is_empty());
    let data = data(authority);
    if described && map.data.as_ref() == Some(&data) {
        return None;
    }
    let mut map = ConfigMap { data: Some(data), ..map.clone() };
    describe(&mut map);
    Some(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_wrong_is_corrected() {
        let right = new("pem");
        assert_eq!(correction(&right, "pem"), None);
        assert_eq!(correction(&right, "other").unwrap().data.unwrap()[CERTIFICATES], "other");
        let mut edited = right.clone();
        edited.data.as_mut().unwrap().insert("more".into(), "x".into());
        assert_eq!(correction(&edited, "pem").unwrap().data, right.data);
        let mut reworded = right;
        reworded.annotations_mut().insert(DESCRIPTION.0.into(), "ours".into());
        reworded.labels_mut().insert("kept".into(), "yes".into());
        assert_eq!(correction(&reworded, "pem"), None);
        reworded.annotations_mut().clear();
        let corrected = correction(&reworded, "pem").unwrap();
        assert_eq!(corrected.annotations()[DESCRIPTION.0], DESCRIPTION.1);
        assert_eq!(corrected.labels()["kept"], "yes");
    }
}
