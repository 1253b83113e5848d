//! Updates of a federated Deployment: the traps by name, and whole updates over model clusters.

mod build;
mod linter;
mod model;
mod traps;
mod walk;
