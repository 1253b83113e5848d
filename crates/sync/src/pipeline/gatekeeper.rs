//! Who decides about deletions, and remembers where the originals were.

use std::convert::Infallible;
use std::time::Duration;

use koinon_control::call;
use serde_json::json;

use super::Pipeline;
use crate::gate::hold::{self, Origin, Verdict};
use crate::names;
use crate::origin::{self, Compared, Found, Identity};

/// What is held for a reason that may pass by itself is looked at again after this time.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// So long a list that was asked for is waited for.
const LIST_AGAIN: Duration = Duration::from_secs(2);

impl Pipeline {
    /// Decides about deletions, for as long as it is polled.
    pub(super) async fn keep_gate(&self) -> Infallible {
        let mut confirmed = self.confirmed.clone();
        loop {
            if self.gate.held().is_none() {
                self.reporter.solved("DeletionsHeld");
            }
            if !self.gate.is_due().await {
                continue;
            }
            let origin = self.compare_origin().await;
            let count = *confirmed.borrow_and_update();
            let facts = self.gate.facts(self.copies(), self.options.max_delete, count, origin);
            let mut verdict = hold::decide(&facts);
            if let Verdict::Confirmed(count) = verdict
                && let Err(error) = self.spend_confirmation().await
            {
                verdict = Verdict::Hold(format!(
                    "the confirmation of {count} deletions could not be taken off the CRD: {error}"
                ));
            }
            for key in self.gate.settle(&verdict) {
                self.lanes[0].add(key);
            }
            let Some((count, why)) = self.gate.held() else { continue };
            let unsure = matches!(facts.origin, Origin::Unknown(_));
            let advice = if unsure {
                String::new()
            } else {
                format!("; to let them go, annotate the CRD with {}={count}", names::CONFIRM_DELETES)
            };
            let what = if count == 1 { "deletion of a copy is" } else { "deletions of copies are" };
            self.reporter.problem("DeletionsHeld", format!("{count} {what} held: {why}{advice}"));
            tokio::select! {
                biased;
                () = self.gate.changed() => {}
                Ok(()) = confirmed.changed() => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
    }

    /// How many copies there are.
    fn copies(&self) -> usize {
        if self.rules.owns_all_copies() {
            return self.down.side.len();
        }
        self.down.side.count(|copy| copy.label(names::ROBOT).as_ref() == Some(&self.rules.robot))
    }

    /// Whether the originals are where they were before, asked for this very decision.
    async fn compare_origin(&self) -> Origin {
        let unknown = |error: call::Error| {
            let place = self.up.place;
            Origin::Unknown(format!("the {place} could not be asked whether it is still the same: {error}"))
        };
        match origin::look(&self.up.access, &self.crd).await {
            Ok(Found::Vanished(why)) => Origin::Vanished(why),
            Ok(Found::There(identity)) => match self.memory.compare(&self.crd, &identity).await {
                Ok(compared) => compared.into_origin(),
                Err(error) => Origin::Unknown(format!("what was remembered could not be read: {error}")),
            },
            Err(error) => unknown(error),
        }
    }

    /// A confirmation is good for one time.
    async fn spend_confirmation(&self) -> Result<(), call::Error> {
        let path = format!(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}?fieldManager={}",
            self.crd,
            names::MANAGER
        );
        let patch = json!({"metadata": {"annotations": {names::CONFIRM_DELETES: null}}});
        let request = http::Request::patch(path)
            .header(http::header::CONTENT_TYPE, "application/merge-patch+json")
            .body(patch.to_string().into_bytes())
            .expect("names of objects make a path");
        self.robot.send::<serde::de::IgnoredAny>(request).await.map(drop)
    }

    /// Remembers where the originals are, for as long as it is polled: at once if nothing was known, and otherwise
    /// only when the new place was listed completely and no copy is without an original.
    pub(super) async fn keep_memory(&self) -> Infallible {
        let mut ready = self.ready.subscribe();
        // The sender lives as long as the pipeline, so this cannot fail.
        let _ = ready.wait_for(|ready| *ready).await;
        let mut doubt = None;
        loop {
            let pause = match self.remember_origin(&mut doubt).await {
                Ok(Sure::Yes) => self.options.resync,
                Ok(Sure::AfterLists) => LIST_AGAIN,
                Ok(Sure::NotYet) => LOOK_AGAIN,
                Err(error) => {
                    tracing::debug!(crd = self.crd, %error, "where the originals are was not remembered");
                    LOOK_AGAIN
                }
            };
            tokio::time::sleep(pause).await;
            self.lanes.iter().for_each(|lane| lane.drift.tidy());
        }
    }

    async fn remember_origin(&self, doubt: &mut Option<Doubt>) -> Result<Sure, call::Error> {
        let Found::There(identity) = origin::look(&self.up.access, &self.crd).await? else {
            return Ok(Sure::NotYet);
        };
        match self.memory.compare(&self.crd, &identity).await? {
            Compared::Same => return Ok(Sure::Yes),
            Compared::New => {}
            Compared::Other(_) => {
                // A list that was on its way when we looked may still be of the old place, so one is not enough.
                let lists = self.up.side.lists();
                let since = match doubt {
                    Some(doubt) if doubt.identity == identity => doubt.lists,
                    _ => doubt.insert(Doubt { identity: identity.clone(), lists }).lists,
                };
                let undisputed = !self.gate.has_pending() && self.lanes[0].is_idle();
                if lists < since + 2 {
                    self.up.kick.notify_one();
                    return Ok(Sure::AfterLists);
                }
                if !undisputed {
                    return Ok(Sure::NotYet);
                }
            }
        }
        self.memory.remember(&self.crd, &identity).await?;
        Ok(Sure::Yes)
    }
}

/// Whether what is remembered is what is there.
enum Sure {
    Yes,
    NotYet,
    AfterLists,
}

/// A place that is not the one remembered, and how many lists there were when it was first seen.
struct Doubt {
    identity: Identity,
    lists: u64,
}
