//! The plan, case by case: AMKO's own suite, what it leaves untested, and anything at all.

mod anything;
mod cases;
mod copies;
mod world;
