//! Namespace deletion: a namespace that is to go is emptied, and let go once nothing is left in it.

mod plan;
mod sweep;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, NamespaceStatus};
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt as _};

use self::plan::Findings;
use crate::MANAGER;
use koinon_control::call::{Error, within_deadline};
use koinon_control::clock::Clock;
use koinon_control::queue::{self, Next, Queue};
use koinon_control::watch::{self, Event};

/// How long a stock cluster leaves a namespace alone, so that every server notices its deletion.
pub const GRACE: Duration = Duration::from_secs(5);
const WORKERS: usize = 10;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Half a minute of looking every two seconds, as long as most pods take to end.
const EAGER_LOOKS: u32 = 18;
const EAGER_PAUSE: Duration = Duration::from_secs(2);
/// Conflicts in a row before the queue takes over.
const ATTEMPTS: usize = 5;

/// The finalizer in the spec of every namespace: it stands for the content.
const FINALIZER: &str = "kubernetes";

struct Deleter {
    client: Client,
    clock: Clock,
    namespaces: Api<Namespace>,
    queue: Queue<String>,
}

/// Empties deleted namespaces for as long as it is polled, each `grace` after its deletion began.
pub async fn run(client: Client, clock: Clock, grace: Duration) -> Infallible {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let queue = Queue::new(FIRST_PAUSE, LONGEST_PAUSE);
    let deleter = Arc::new(Deleter { client, clock, namespaces, queue });
    let on = |event: Event<Namespace>| match event {
        Event::InitApply(namespace) | Event::Apply(namespace) => {
            if namespace.metadata.deletion_timestamp.is_some() && has_content(&namespace) {
                deleter.queue.add_after(namespace.name_any(), grace);
            }
        }
        Event::Init | Event::InitDone | Event::Delete(_) => {}
    };
    tokio::select! {
        biased;
        never = watch::follow(deleter.namespaces.clone(), on) => never,
        never = queue::work(&deleter.queue, WORKERS, |name| deleter.clone().handle(name)) => never,
    }
}

impl Deleter {
    async fn handle(self: Arc<Self>, name: String) -> Next {
        match self.delete(&name).await {
            Ok(next) => next,
            Err(error) if error.is_object_absent() => Next::Done,
            Err(error) => {
                tracing::debug!(name, %error, "namespaces: will try again");
                Next::Retry
            }
        }
    }

    async fn delete(&self, name: &str) -> Result<Next, Error> {
        let mut namespace = within_deadline(self.namespaces.get(name)).await?;
        let Some(deleted) = namespace.metadata.deletion_timestamp.clone() else { return Ok(Next::Done) };
        if phase(&namespace) != Some("Terminating") {
            namespace =
                self.update_status(namespace, |status| status.phase = Some("Terminating".into())).await?;
        }
        if !has_content(&namespace) {
            return Ok(Next::Done);
        }
        let findings = sweep::sweep(&self.client, &self.clock, name, deleted.0).await;
        let before =
            namespace.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        if let Some(conditions) = findings.conditions(before, self.clock.now()) {
            namespace =
                self.update_status(namespace, |status| status.conditions = Some(conditions.clone())).await?;
        }
        if findings.is_finished() {
            self.finalize(namespace).await?;
            return Ok(Next::Done);
        }
        Ok(self.pause(name, &findings))
    }

    /// What remains may be gone much earlier than its grace period says: for a while it is looked at often.
    fn pause(&self, name: &str, findings: &Findings) -> Next {
        let Some(longest) = findings.wait() else { return Next::Retry };
        let attempts = self.queue.attempts(&name.to_owned());
        if attempts >= EAGER_LOOKS {
            return Next::After(longest);
        }
        let soon = FIRST_PAUSE.saturating_mul(2u32.saturating_pow(attempts));
        Next::After(soon.min(EAGER_PAUSE).min(longest))
    }

    async fn update_status(
        &self,
        mut namespace: Namespace,
        change: impl Fn(&mut NamespaceStatus),
    ) -> Result<Namespace, Error> {
        let name = namespace.name_any();
        let mut attempts = 0;
        loop {
            change(namespace.status.get_or_insert_default());
            attempts += 1;
            let params = written();
            match within_deadline(self.namespaces.replace_status(&name, &params, &namespace)).await {
                Err(error) if error.is_conflict() && attempts < ATTEMPTS => {
                    namespace = self.same_again(&namespace).await?;
                }
                other => return other,
            }
        }
    }

    async fn finalize(&self, mut namespace: Namespace) -> Result<(), Error> {
        let name = namespace.name_any();
        let mut attempts = 0;
        loop {
            if let Some(finalizers) = namespace.spec.as_mut().and_then(|spec| spec.finalizers.as_mut()) {
                finalizers.retain(|finalizer| finalizer != FINALIZER);
            }
            attempts += 1;
            let params = written();
            let call = self.namespaces.replace_subresource("finalize", &name, &params, &namespace);
            match within_deadline(call).await {
                Err(error) if error.is_object_absent() => return Ok(()),
                Err(error) if error.is_conflict() && attempts < ATTEMPTS => {
                    namespace = self.same_again(&namespace).await?;
                }
                other => return other.map(drop),
            }
        }
    }

    /// The namespace as it is now, if it is still the same one.
    async fn same_again(&self, namespace: &Namespace) -> Result<Namespace, Error> {
        let now = within_deadline(self.namespaces.get(&namespace.name_any())).await?;
        if now.metadata.uid == namespace.metadata.uid {
            return Ok(now);
        }
        let gone =
            kube::core::Status::failure("the namespace was made anew meanwhile", "Conflict").with_code(409);
        Err(Error::Refused(gone.boxed()))
    }
}

fn written() -> PostParams {
    PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() }
}

fn phase(namespace: &Namespace) -> Option<&str> {
    namespace.status.as_ref()?.phase.as_deref()
}

/// Whether any finalizer in the spec still stands for content.
fn has_content(namespace: &Namespace) -> bool {
    let finalizers = namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_ref());
    finalizers.is_some_and(|finalizers| !finalizers.is_empty())
}
