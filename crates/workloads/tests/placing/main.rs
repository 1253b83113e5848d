//! What members' objects ask for on the way from one layout to another: example by example, and over any history.

mod examples;
mod model;
mod walk;
