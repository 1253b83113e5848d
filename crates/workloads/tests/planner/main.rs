//! The planner by examples, by properties, and beside a plain implementation of the same rules.

mod case;
mod examples;
mod properties;
mod reference;
mod scale_down;
mod seed;
