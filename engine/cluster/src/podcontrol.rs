//! Makes and deletes pods for the controllers that own them.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use koinon_control::call::{Error, within_deadline};
use koinon_control::events::{Recorder, Weight};
use koinon_control::{Key, View};
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::core::Status;
use kube::{Api, Resource, ResourceExt as _};

use crate::MANAGER;
use crate::shared::Shared;

/// Writes pods, and has the view of them know at once.
pub(crate) struct PodControl {
    shared: Shared,
    events: Recorder,
}

impl PodControl {
    pub(crate) fn new(shared: &Shared, events: &Recorder) -> PodControl {
        PodControl { shared: shared.clone(), events: events.clone() }
    }

    fn api(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.shared.client.clone(), namespace)
    }

    /// Makes a pod and tells of it on its owner. In a namespace that is going nothing is made any more, and the owner
    /// goes soon: that is no failure.
    pub(crate) async fn create<O>(&self, owner: &O, pod: &Pod) -> Result<(), Error>
    where
        O: Resource<DynamicType = ()>,
    {
        match self.make(pod).await {
            Ok(name) => {
                self.events.tell(owner, Weight::Normal, "SuccessfulCreate", format!("Created pod: {name}"));
                Ok(())
            }
            Err(error) if is_namespace_terminating(&error) => Ok(()),
            Err(error) => {
                let message = format!("Error creating: {error}");
                self.events.tell(owner, Weight::Warning, "FailedCreate", message);
                Err(error)
            }
        }
    }

    /// Deletes this very pod and tells of it on its owner.
    pub(crate) async fn delete<O>(&self, owner: &O, pod: &Pod) -> Result<(), Error>
    where
        O: Resource<DynamicType = ()>,
    {
        match self.remove(pod).await {
            Ok(Removed::Deleted) => {
                let message = format!("Deleted pod: {}", pod.name_any());
                self.events.tell(owner, Weight::Normal, "SuccessfulDelete", message);
                Ok(())
            }
            Ok(Removed::WasGone) => Ok(()),
            Err(error) => {
                let message = format!("Error deleting: {error}");
                self.events.tell(owner, Weight::Warning, "FailedDelete", message);
                Err(error)
            }
        }
    }

    /// Makes a pod and says nothing; gives its name.
    pub(crate) async fn make(&self, pod: &Pod) -> Result<String, Error> {
        let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        let made =
            within_deadline(self.api(&pod.namespace().unwrap_or_default()).create(&params, pod)).await?;
        let name = made.name_any();
        self.shared.pods.learn(made);
        Ok(name)
    }

    /// Deletes this very pod and says nothing.
    pub(crate) async fn remove(&self, pod: &Pod) -> Result<Removed, Error> {
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: pod.uid(), resource_version: None }),
            ..DeleteParams::default()
        };
        let api = self.api(&pod.namespace().unwrap_or_default());
        match within_deadline(api.delete(&pod.name_any(), &params)).await {
            Ok(answer) => {
                self.learn_deletion(pod, answer.left());
                Ok(Removed::Deleted)
            }
            Err(error) if error.is_object_absent() => {
                forget(&self.shared.pods, pod);
                Ok(Removed::WasGone)
            }
            Err(error) => Err(error),
        }
    }

    /// The pod counts no longer, whether the server let it go at once or waits for its node.
    fn learn_deletion(&self, pod: &Pod, answer: Option<Pod>) {
        if let Some(mut answer) = answer {
            // What was deleted at once is shown as it was before.
            answer.metadata.deletion_timestamp.get_or_insert_with(|| Time(self.shared.clock.now()));
            self.shared.pods.learn(answer);
        }
        let now = self.shared.pods.get(&Key::of(pod));
        if now.is_some_and(|now| now.uid() == pod.uid() && now.metadata.deletion_timestamp.is_none()) {
            forget(&self.shared.pods, pod);
        }
    }
}

/// What became of a pod that was to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removed {
    Deleted,
    WasGone,
}

/// Has the view know that this very pod is gone.
pub(crate) fn forget(pods: &View<Pod>, pod: &Pod) {
    pods.forget(&Key::of(pod), pod.metadata.uid.as_deref().unwrap_or_default());
}

/// The sizes of the batches in which so many pods are made: small at first, so that a refusal which meets
/// all of them meets few.
pub(crate) fn batches(count: usize) -> impl Iterator<Item = usize> {
    let (mut left, mut next) = (count, 1);
    std::iter::from_fn(move || {
        let size = left.min(next);
        (left, next) = (left - size, next * 2);
        (size > 0).then_some(size)
    })
}

/// Says that the namespace is going, so that nothing can be made in it.
pub(crate) fn is_namespace_terminating(error: &Error) -> bool {
    let Error::Refused(status) = error else { return false };
    let Status { details: Some(details), .. } = &**status else { return false };
    details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating")
}

#[cfg(test)]
mod tests {
    use super::batches;

    #[test]
    fn batches_double() {
        let sizes = |count| batches(count).collect::<Vec<_>>();
        assert_eq!(sizes(0), [0usize; 0]);
        assert_eq!(sizes(1), [1]);
        assert_eq!(sizes(10), [1, 2, 4, 3]);
        assert_eq!(sizes(500).iter().sum::<usize>(), 500);
    }
}
