//! Who counts, from the side of a member that is led: written down before anything else, and what the member brings
//! along is put right before its word counts.

use std::collections::BTreeSet;
use std::time::Duration;

use koinon_control::queue::Next;
use koinon_fleet::Knowledge;

use super::accept::Accept;
use super::hand::Failed;
use super::key::{PAGES, PolicyKey};
use super::led::Led;
use super::ledger::{Page, Roster};
use super::metrics::Written;
use super::names::LEDGER;
use super::plan::{Act, Over, Why, rejoin, roster};

/// What keeps a member from counting is looked at again after this time.
const AGAIN: Duration = Duration::from_secs(2);

impl Led {
    pub(super) async fn look_after_roster(&self) -> Next {
        let me = self.me();
        if self.sight.ledgers.knowledge(me.as_str()) != Knowledge::Complete {
            return Next::Done;
        }
        match self.sight.accept(me.as_str()) {
            // What it takes announces itself once it is known.
            None | Some(Accept::None) => {
                self.set_ready(false);
                return Next::Done;
            }
            Some(Accept::All | Accept::From(_)) => {}
        }
        let (mine, version) = match self
            .sight
            .ledgers
            .get(me.as_str(), &koinon_control::Key::new(koinon_api::membership::NETWORK_NAMESPACE, LEDGER))
        {
            None => (None, None),
            Some(document) => match document.roster() {
                Some(roster) => (Some(roster.clone()), Some(document.resource_version.clone())),
                None => return Next::Done,
            },
        };
        let census = self.sight.census();
        let listed = self.listed(&census);
        let (left, again) = self.left(mine.as_ref(), &(&listed | &census.unsure));
        let rosters = &census.rosters;
        let plan = roster::plan(me, mine.as_ref(), &listed, &left, rosters);
        self.set_ready(plan.is_ready());
        let write = if plan.rejoining {
            match self.put_right().await {
                Ok(true) => Some(roster::admitted(me, mine.as_ref(), rosters)),
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
        let written = self.post.write_document(LEDGER, over, roster.write()).await;
        match self.counted(Written::Ledger, written) {
            // Which is news, and so comes back here.
            Ok(map) => {
                self.sight.ledgers.learn(self.me(), &map);
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
        let keys = self.sight.keys_of(self.me());
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
                    Act::Discard { uid, resource_version } => {
                        clean = false;
                        let over = Over { uid, resource_version };
                        let deleted = self.post.delete_policy(key, &over).await;
                        self.counted(Written::Policy, deleted)?;
                        self.sight.policies(key.kind).forget(self.me(), &key.object(), &over.uid);
                        page.forget(key);
                        tracing::info!(member = %self.me(), %key, "a copy from before the member left is dropped");
                    }
                    _ => clean = false,
                }
            }
            if page != *pages.mine() {
                let name = Page::name(number);
                let map = self.post.write_document(&name, pages.version(), page.write()).await;
                match self.counted(Written::Ledger, map) {
                    Ok(map) => self.sight.ledgers.learn(self.me(), &map),
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
