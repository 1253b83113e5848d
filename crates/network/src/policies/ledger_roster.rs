//! The roster in the led member's ledger: who counts is written down before anything else, and what the member brings
//! along is put right before its word counts.

use std::collections::BTreeSet;
use std::time::Duration;

use koinon_control::queue::Next;
use koinon_fleet::Knowledge;

use super::accept::Accept;
use super::key::{PAGES, PolicyKey};
use super::ledger::{Page, Roster};
use super::member_reconciler::MemberReconciler;
use super::metrics::Written;
use super::names::LEDGER;
use super::plan::{Act, Over, Why, rejoin, roster};
use super::writer::Failed;

/// What keeps a member from counting is looked at again after this time.
const AGAIN: Duration = Duration::from_secs(2);

impl MemberReconciler {
    pub(super) async fn look_after_roster(&self) -> Next {
        let me = self.me();
        if self.caches.ledgers.knowledge(me.as_str()) != Knowledge::Complete {
            return Next::Done;
        }
        let accept = self.caches.accept(me.as_str());
        let (mine, version) = match self
            .caches
            .ledgers
            .get(me.as_str(), &koinon_control::Key::new(koinon_api::membership::NETWORK_NAMESPACE, LEDGER))
        {
            None => (None, None),
            Some(document) => match document.roster() {
                Some(roster) => (Some(roster.clone()), Some(document.resource_version.clone())),
                None => return Next::Done,
            },
        };
        let takes_part = match accept {
            // What it takes announces itself once it is known.
            None => {
                self.set_ready(false);
                return Next::Done;
            }
            Some(Accept::None) => None,
            Some(Accept::All | Accept::From(_)) => self.caches.federation(me.as_str()),
        };
        let Some(federation) = takes_part else {
            self.set_ready(false);
            return match roster::withdrawn(mine.as_ref()) {
                Some(withdrawn) => self.write_roster(version.as_deref(), &withdrawn).await,
                None => Next::Done,
            };
        };
        let participants = self.caches.participants();
        let (present, again) = self.present(mine.as_ref(), &participants);
        let rosters = &participants.rosters;
        let plan = roster::plan(me, &federation, mine.as_ref(), &present, rosters);
        self.set_ready(plan.is_ready());
        let write = if plan.rejoining {
            match self.put_right().await {
                Ok(true) => Some(roster::admitted(me, &federation, mine.as_ref(), rosters)),
                Ok(false) => return Next::After(AGAIN),
                Err(failed) => {
                    tracing::debug!(member = %me, error = %failed, "what a member brought along was not put right");
                    return Next::Retry;
                }
            }
        } else {
            plan.write
        };
        if let Some(write) = write {
            return self.write_roster(version.as_deref(), &write).await;
        }
        again.map_or(Next::Done, Next::After)
    }

    async fn write_roster(&self, over: Option<&str>, roster: &Roster) -> Next {
        let written = self.leader.write_document(LEDGER, over, roster.write()).await;
        match self.counted(Written::Ledger, written) {
            // Which is news, and so comes back here.
            Ok(map) => {
                self.caches.ledgers.learn(self.me(), &map);
                Next::Done
            }
            Err(failed) => {
                tracing::debug!(member = %self.me(), error = %failed, "the roster of policies was not written");
                if failed.is_conflict() {
                    self.refresh(LEDGER).await;
                }
                Next::Retry
            }
        }
    }

    /// Drops what is left from before the member was away; says whether nothing is left to put right.
    async fn put_right(&self) -> Result<bool, Failed> {
        let mut clean = true;
        let keys = self.caches.keys_of(self.me());
        for number in 0..PAGES {
            let keys: BTreeSet<&PolicyKey> = keys.iter().filter(|key| key.page() == number).collect();
            if keys.is_empty() {
                continue;
            }
            let Some((pages, terms)) = self.pages(number).zip(self.terms()) else { return Ok(false) };
            let mut page = pages.mine().clone();
            for key in keys {
                let seen = self.seen(key);
                match rejoin(&self.case(key, &pages, &seen, &terms)) {
                    Act::Rest(Why::InStep | Why::Nowhere) => {}
                    Act::Forget(_) => {
                        page.forget(key);
                        clean = false;
                    }
                    Act::Note(entry) => {
                        page.note(key, entry);
                        clean = false;
                    }
                    Act::Discard { uid, resource_version } => {
                        clean = false;
                        let over = Over { uid, resource_version };
                        let deleted = self.leader.delete_policy(key, &over).await;
                        self.counted(Written::Policy, deleted)?;
                        self.caches.policies(key.kind).forget(self.me(), &key.object(), &over.uid);
                        page.forget(key);
                        tracing::info!(member = %self.me(), %key, "a copy from before the member left is dropped");
                    }
                    _ => clean = false,
                }
            }
            if page != *pages.mine() {
                let name = Page::name(number);
                let map = self.leader.write_document(&name, pages.version(), page.write()).await;
                match self.counted(Written::Ledger, map) {
                    Ok(map) => self.caches.ledgers.learn(self.me(), &map),
                    Err(failed) => {
                        self.refresh(&name).await;
                        return Err(failed);
                    }
                }
            }
        }
        Ok(clean)
    }
}
