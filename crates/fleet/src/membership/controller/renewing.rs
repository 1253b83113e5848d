//! Renews the tokens by which members are logged in to, each with the credentials that it renews.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use koinon_api::membership::{ClusterId, Phase};
use koinon_control::Key;
use koinon_control::call::within_deadline;
use kube::Api;

use super::super::formation::{Formation, Way};
use super::super::token::{self, Renewal, Term, renewal};
use super::{Controller, Kind, params};
use crate::fleet::State;

/// How often it is looked whether a token is due.
const LOOK_EVERY: Duration = Duration::from_secs(60);
const FIRST_PAUSE: SignedDuration = SignedDuration::from_mins(1);
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_hours(1);
const AT_ONCE: usize = 16;

/// A member's token, and where it is kept.
struct Kept {
    member: ClusterId,
    secret: Arc<Secret>,
    term: Term,
}

/// When it is tried again to renew a token, after it failed.
struct Pause {
    issued: Timestamp,
    until: Timestamp,
    next: SignedDuration,
}

impl Controller {
    /// Renews tokens for as long as it is polled.
    pub(super) async fn renew_tokens(&self) {
        let mut formed = self.formed();
        let mut pauses: BTreeMap<ClusterId, Pause> = BTreeMap::new();
        loop {
            // The guard of a watched value must not be held while something is waited for.
            let formation = formed.borrow_and_update().clone();
            if let Some(formation) = formation {
                self.renew_due(&formation, &mut pauses).await;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn renew_due(&self, formation: &Formation, pauses: &mut BTreeMap<ClusterId, Pause>) {
        let now = self.fleet.clock().now();
        let kept = self.kept(formation);
        pauses.retain(|member, pause| {
            kept.iter().any(|one| one.member == *member && one.term.issued == pause.issued)
        });
        let due = kept.iter().filter(|one| {
            let Term { issued, expires, .. } = one.term;
            // One that is over is tried too: it is over by this clock, which may be wrong.
            let is_due = !matches!(renewal(now, issued, expires, share(&one.member)), Renewal::In(_));
            is_due && pauses.get(&one.member).is_none_or(|pause| pause.until <= now)
        });
        let mut renewals: Vec<BoxFuture<'_, (&Kept, Result<Timestamp, String>)>> = Vec::new();
        for one in due {
            renewals.push(Box::pin(async move { (one, self.renew(one).await) }));
        }
        let outcomes: Vec<_> = futures::stream::iter(renewals).buffer_unordered(AT_ONCE).collect().await;
        for (one, outcome) in outcomes {
            let member = &one.member;
            match outcome {
                Ok(expires) => {
                    tracing::info!(%member, reason = "TokenRenewed", %expires, "the member's token was renewed");
                    pauses.remove(member);
                }
                Err(why) => {
                    let next = pauses.get(member).map_or(FIRST_PAUSE, |pause| pause.next);
                    let expires = one.term.expires;
                    tracing::warn!(
                        %member,
                        reason = "TokenNotRenewed",
                        %expires,
                        "the member's token was not renewed, and is tried again: {why}"
                    );
                    let pause = Pause {
                        issued: one.term.issued,
                        until: now + next,
                        next: (next * 2).min(LONGEST_PAUSE),
                    };
                    pauses.insert(member.clone(), pause);
                }
            }
        }
    }

    /// Has the member make a new token for the account of the old one and keeps it in its place; until when it lasts.
    async fn renew(&self, kept: &Kept) -> Result<Timestamp, String> {
        let member = self.fleet.get(kept.member.as_str()).ok_or("it is no member any more")?;
        let (namespace, account) = &kept.term.account;
        let accounts = member.client().namespaced::<ServiceAccount>(namespace);
        let (params, request) = (params(), token::request());
        let made = member.client().call(accounts.create_token_request(account, &params, &request)).await;
        let made = made.map_err(|error| match error.code() {
            Some(403) => format!(
                "{error}; the account {namespace}/{account} needs the right to create its own serviceaccounts/token: {}",
                match self.kind {
                    Kind::Federation => "koinon join again gives it",
                    Kind::Cluster => "koinon install rbac --role network prints it",
                }
            ),
            _ => error.to_string(),
        })?;
        let new = made.status.and_then(|status| status.token).unwrap_or_default();
        let term = Term::of(&new).ok_or("the member's API server answered with no token")?;
        if term.account != kept.term.account {
            return Err("the member's API server answered with another account's token".into());
        }
        let after = token::replaced(&kept.secret, &new).ok_or("the Secret holds no token any more")?;
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let name = kept.secret.metadata.name.as_deref().unwrap_or_default();
        // Only over what was read: whoever put another login there meanwhile wants that one.
        let written = within_deadline(secrets.replace(name, &params, &after)).await;
        let written = written.map_err(|error| format!("the Secret {}/{name}: {error}", self.namespace))?;
        self.views.secrets.learn(written);
        Ok(term.expires)
    }

    /// The tokens of members that log in by one that ends. A Secret that says it is immutable is left as it is.
    fn kept(&self, formation: &Formation) -> Vec<Kept> {
        let Some(federation) = &formation.federation else { return Vec::new() };
        let members = federation.spec.members.iter().filter_map(|entry| {
            let member = ClusterId::new(&entry.cluster_id.value).ok()?;
            let known = formation.members.get(&member)?;
            let secret = self.views.secrets.get(&Key::new(&self.namespace, &entry.secret))?;
            let term = Term::of(&token::in_secret(&secret)?)?;
            let is_ours = matches!(known.way, Way::Login(_)) && secret.immutable != Some(true);
            is_ours.then_some(Kept { member, secret, term })
        });
        members.collect()
    }

    /// Says of members that are away because their token has ended what to do about that.
    pub(super) fn tell_ended(&self, formation: &Formation, states: &mut BTreeMap<ClusterId, State>) {
        let now = self.fleet.clock().now();
        for one in self.kept(formation) {
            let Some(state) = states.get_mut(&one.member) else { continue };
            if state.phase == Phase::Reachable || now < one.term.expires {
                continue;
            }
            let name = one.secret.metadata.name.as_deref().unwrap_or_default();
            let (namespace, account) = &one.term.account;
            let repair = match self.kind {
                Kind::Federation => format!("koinon join {} again repairs it", one.member),
                Kind::Cluster => format!(
                    "put a new one into the Secret {}/{name}: kubectl create token {account} -n {namespace} in that cluster",
                    self.namespace
                ),
            };
            state.why = Some(format!(
                "its token ended at {} and no role was there to renew it: {repair}",
                one.term.expires
            ));
        }
    }
}

/// A member's own moment.
fn share(member: &ClusterId) -> f64 {
    let mut hasher = DefaultHasher::new();
    member.as_str().hash(&mut hasher);
    (hasher.finish() % 1000) as f64 / 1000.0
}
