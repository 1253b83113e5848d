//! The core group.

mod config;
mod controller;
mod endpoints;
mod event;
mod limits;
mod namespace;
mod node;
mod service;
mod service_addresses;
mod service_families;
mod storage;

pub use service_families::init as init_service_families;
pub(super) use storage::default_claim;

use super::{Generation, Strategy};
use crate::names;

pub(super) fn strategy(kind: &str) -> &'static Strategy {
    match kind {
        "ConfigMap" => &config::CONFIG_MAP,
        "Endpoints" => &endpoints::ENDPOINTS,
        "Event" => &event::EVENT,
        "LimitRange" => &limits::LIMIT_RANGE,
        "Namespace" => &namespace::NAMESPACE,
        "Node" => &node::NODE,
        "PersistentVolume" => &storage::VOLUME,
        "PersistentVolumeClaim" => &storage::CLAIM,
        "Pod" => &super::pods::POD,
        "PodTemplate" => &controller::POD_TEMPLATE,
        "ReplicationController" => &controller::REPLICATION_CONTROLLER,
        "ResourceQuota" => &limits::RESOURCE_QUOTA,
        "Secret" => &config::SECRET,
        "Service" => &service::SERVICE,
        "ServiceAccount" => &config::SERVICE_ACCOUNT,
        _ => &Strategy::PLAIN,
    }
}

/// A kind without status, whose only rule is about its metadata.
const META_ONLY: Strategy = Strategy {
    validate: super::meta::validate_builtin,
    validate_update: |new, old| {
        let mut faults = super::meta::validate_builtin_update(new, old);
        faults.extend(super::meta::validate_builtin_again(new, true, names::dns1123_subdomain));
        faults
    },
    ..Strategy::PLAIN
};

/// A kind with a spec that counts its changes and a status that is kept apart.
pub(super) const SPEC_AND_STATUS: Strategy =
    Strategy { status: true, generation: Generation::Spec, ..Strategy::PLAIN };
