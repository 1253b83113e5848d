//! Plans for Deployments, over plain values.

mod histories;
mod progress;
mod steps;
mod world;
