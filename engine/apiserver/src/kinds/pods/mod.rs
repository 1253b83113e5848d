//! Pods and templates for pods: what they default to, and what is wrong with them.
//!
//! Other kinds use templates through `default_pod_template_spec` and `validate_pod_template`.

mod containers;
mod defaults;
mod env;
pub(crate) mod parts;
mod probes;
pub(in crate::kinds) mod resources;
mod scheduling;
mod security;
mod spec;
mod status;
mod strategy;
mod update;
pub(in crate::kinds) mod volumes;

pub(crate) use super::selectors::validate_label_selector;
pub(crate) use containers::validate_protocol;
pub(crate) use defaults::{
    default_claim_spec, default_pod, default_pod_template_spec, default_volume_source, round_resources,
};
pub(crate) use probes::validate_port;
pub(in crate::kinds) use resources::quality_of_service;
pub(crate) use scheduling::{validate_node_selector, validate_taint_effect};
pub(crate) use spec::{enumerated, validate_pod_template};
pub(crate) use strategy::POD;
pub use strategy::{bind_pod, prepare_pod_status, validate_binding};
