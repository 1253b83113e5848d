//! The event filter of a led member: which changes requeue which of its policies, and how many policies are in which state.

use std::collections::BTreeMap;

use koinon_fleet::ClusterId;

use super::caches::{Document, Listener};
use super::key::PolicyKey;
use super::ledger::{Entry, State};
use super::member_reconciler::{Item, MemberReconciler};
use super::metrics::{Stands, Unsettled};
use super::version::Version;

/// What was heard of a policy.
enum Heard<'a> {
    /// The object is another.
    Object,
    /// A ledger says something else of it: that it has this version now, or a word on a refusal.
    Ledger(Option<&'a Version>),
}

impl MemberReconciler {
    /// Whether it matters here what was heard of a policy in another member. Otherwise each of many members would look up at every
    /// word of every other.
    fn concerns(&self, member: &ClusterId, key: &PolicyKey, heard: &Heard<'_>) -> bool {
        match (self.unsettled.lock().get(key), heard) {
            // Whoever else has it already changes nothing, and what is being made is looked at again when it is done.
            (Some(Unsettled::Coming(coming)), Heard::Ledger(Some(version))) => return *version > coming,
            (Some(Unsettled::Coming(_)), Heard::Ledger(None) | Heard::Object) => return false,
            (Some(_), _) => return true,
            (None, _) => {}
        }
        let document = self.caches.page(self.me().as_str(), key.page());
        let entry = document.as_deref().and_then(Document::page).and_then(|page| page.entries.get(key));
        match (entry, heard) {
            // When somebody federates it, a ledger says so.
            (None, Heard::Object) => false,
            (Some(Entry { version: mine, state: State::Applied { .. } }), heard) => {
                // The cluster where it was last changed tells users of troubles elsewhere.
                let tells = mine.origin == *self.me();
                match heard {
                    Heard::Object => tells && self.is_foreign(member, key),
                    Heard::Ledger(version) => tells || version.is_some_and(|version| version > mine),
                }
            }
            (None | Some(_), _) => true,
        }
    }

    /// Whether a member has a policy of somebody's own of this name.
    fn is_foreign(&self, member: &ClusterId, key: &PolicyKey) -> bool {
        let there = self.caches.policies(key.kind).get(member.as_str(), &key.object());
        there.is_some_and(|there| !there.is_federated())
    }

    /// Has everything about these policies be of concern, until somebody finds out how they are.
    pub(super) fn unsettle<'a>(&self, keys: impl Iterator<Item = &'a PolicyKey>) {
        let mut all = self.unsettled.lock();
        for key in keys {
            let how = all.entry(key.clone()).or_insert(Unsettled::Pending);
            if matches!(how, Unsettled::Coming(_)) {
                *how = Unsettled::Pending;
            }
        }
    }

    /// Takes down how a policy is here, if it is not as it should be.
    pub(super) fn classify(&self, key: &PolicyKey, unsettled: Option<Unsettled>) {
        let mut all = self.unsettled.lock();
        match unsettled {
            Some(how) => drop(all.insert(key.clone(), how)),
            None => drop(all.remove(key)),
        }
    }

    /// Counts the policies of a page, and with all others says how the member is.
    pub(super) fn tally(&self, number: u8) {
        let document = self.caches.page(self.me().as_str(), number);
        let counted = document.as_deref().map_or((0, 0), |document| {
            let entries = document.page().into_iter().flat_map(|page| page.entries.values());
            (entries.filter(|entry| entry.version.is_live()).count(), document.size)
        });
        let mut stands = Stands::default();
        {
            let mut tallies = self.tallies.lock();
            tallies.insert(number, counted);
            for (applied, bytes) in tallies.values() {
                stands.applied += applied;
                stands.ledger_bytes += bytes;
            }
        }
        for how in self.unsettled.lock().values() {
            match how {
                Unsettled::Coming(_) | Unsettled::Pending => stands.pending += 1,
                Unsettled::Conflict => stands.conflicts += 1,
                Unsettled::Refused => stands.refused += 1,
                Unsettled::Elsewhere => {}
            }
        }
        self.metrics.stands(self.me().as_str(), stands);
    }
}

impl Drop for MemberReconciler {
    fn drop(&mut self) {
        self.metrics.forget(self.me().as_str());
    }
}

impl Listener for MemberReconciler {
    fn policy(&self, member: &ClusterId, key: &PolicyKey) {
        if member == self.me() || self.concerns(member, key, &Heard::Object) {
            self.mark([key.clone()]);
        }
    }

    fn entries(&self, member: &ClusterId, changed: &BTreeMap<PolicyKey, Option<Version>>) {
        let of_concern = changed.iter().filter(|(key, version)| {
            member == self.me() || self.concerns(member, key, &Heard::Ledger(version.as_ref()))
        });
        self.mark(of_concern.map(|(key, _)| key.clone()));
    }

    fn everything(&self) {
        self.queue.add(Item::Roster);
        self.mark_all();
    }

    fn ground(&self, member: &ClusterId, namespace: &str) {
        if member != self.me() {
            return;
        }
        if namespace.is_empty() {
            self.mark_all();
        } else {
            self.mark(self.caches.catalogue.of_namespace(namespace));
        }
    }
}
