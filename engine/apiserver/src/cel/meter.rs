//! What evaluations may cost, and how much work and memory they may take.
//!
//! The cost is that of a stock server, by the same rules and with the same limits: it decides which rules pass. It knows
//! little of the work behind it, though: a comparison of two lists of long texts costs one. So what is touched and what
//! is made is counted as well, with limits that a rule within its cost does not meet on ordinary objects. There is no
//! deadline in time: these limits bound the work, and do so the same way in every run.

use std::cell::Cell;

use super::value::{Error, Result};

/// What one expression may cost (`PerCallLimit` of a stock server).
const MOST_COST: u64 = 1_000_000;
/// What all rules of an object, or all expressions of a policy, may cost together (`RuntimeCELCostBudget`).
const MOST_COST_OF_ALL: u64 = 10_000_000;
/// Values that one expression may touch, texts counting as one for each [`TEXT`] bytes: a fraction of a second.
const MOST_WORK: u64 = 8_000_000;
const MOST_WORK_OF_ALL: u64 = 40_000_000;
/// Bytes that one expression may make.
const MOST_MADE: u64 = 64 << 20;
const MOST_MADE_OF_ALL: u64 = 256 << 20;

/// Bytes of a text that are as much work as one value.
const TEXT: usize = 64;
/// Bytes that a value in a list takes, and an entry of a map.
pub(super) const VALUE: usize = 32;
pub(super) const ENTRY: usize = 128;

/// What was used for all that is evaluated about one object: a rule for each of its items may be cheap, and all of them
/// together endless.
#[derive(Debug)]
pub(super) struct Budget {
    cost: Cell<u64>,
    work: Cell<u64>,
    made: Cell<u64>,
    most_cost: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self::of(MOST_COST_OF_ALL)
    }
}

impl Budget {
    pub(super) fn of(most_cost: u64) -> Self {
        Budget { cost: Cell::new(0), work: Cell::new(0), made: Cell::new(0), most_cost }
    }

    /// Whether more was used than there was. An expression that is under way may end: its own limits stop it soon.
    pub(super) fn is_spent(&self) -> bool {
        self.cost.get() > self.most_cost
            || self.work.get() > MOST_WORK_OF_ALL
            || self.made.get() > MOST_MADE_OF_ALL
    }

    #[cfg(test)]
    pub(super) fn used(&self) -> (u64, u64, u64) {
        (self.cost.get(), self.work.get(), self.made.get())
    }
}

/// Counts for one expression.
#[derive(Debug)]
pub(super) struct Meter<'b> {
    cost: Cell<u64>,
    work: Cell<u64>,
    made: Cell<u64>,
    budget: &'b Budget,
}

impl<'b> Meter<'b> {
    /// The most that one expression may cost, touch and make.
    #[cfg(test)]
    pub(super) const MOST: (u64, u64, u64) = (MOST_COST, MOST_WORK, MOST_MADE);

    pub(super) fn new(budget: &'b Budget) -> Self {
        Meter { cost: Cell::new(0), work: Cell::new(0), made: Cell::new(0), budget }
    }

    /// Charges what a stock server would.
    pub(super) fn charge(&self, cost: u64) -> Result<()> {
        self.count(&self.cost, &self.budget.cost, cost, MOST_COST)
    }

    /// Counts values that are looked at.
    pub(super) fn touch(&self, values: usize) -> Result<()> {
        self.count(&self.work, &self.budget.work, values as u64, MOST_WORK)
    }

    /// Counts a text that is gone through.
    pub(super) fn scan(&self, bytes: usize) -> Result<()> {
        self.touch(bytes / TEXT)
    }

    /// Counts bytes before they are made.
    pub(super) fn make(&self, bytes: usize) -> Result<()> {
        self.scan(bytes)?;
        self.count(&self.made, &self.budget.made, bytes as u64, MOST_MADE)
    }

    /// Whether a limit was passed: nothing that is evaluated afterwards counts.
    pub(super) fn is_spent(&self) -> bool {
        self.cost.get() > MOST_COST || self.work.get() > MOST_WORK || self.made.get() > MOST_MADE
    }

    /// What one expression asks for beyond its own limit is not done, so the budget of all does not pay for it.
    fn count(&self, own: &Cell<u64>, all: &Cell<u64>, amount: u64, most: u64) -> Result<()> {
        let amount = amount.min((most + 1).saturating_sub(own.get()));
        own.set(own.get() + amount);
        all.set(all.get() + amount);
        match self.is_spent() {
            true => Err(Error::too_much()),
            false => Ok(()),
        }
    }
}
