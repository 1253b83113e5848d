//! What single kinds add to the generic path: defaults that OpenAPI does not carry, what a write may
//! touch, and validation. All pure functions over JSON.
//!
//! ```text
//! body ─► decode ─► default ─► prepare ─► validate ─► admission ─► store
//!        (schema)   (here)     (here)      (here)
//! ```

mod apps;
mod claims;
pub mod convert;
pub mod core;
mod internal;
pub mod meta;
pub mod other;
pub mod pods;
pub(crate) mod quantity;
#[cfg(test)]
mod recorded;
pub(crate) mod selectors;
pub(crate) mod walk;
pub mod warnings;
pub(crate) mod workloads;

use serde_json::Value;

use crate::crd;
use crate::field;

/// How one kind differs from the rest. Every function may be a no-op.
pub struct Strategy {
    /// What an absent field becomes, beyond the defaults of the schema. Runs on every write, and must
    /// change nothing when run again.
    pub default: fn(&mut Value),
    /// Clears or sets what a creator may not decide (beyond `status`, which [`Strategy::status`] clears).
    pub prepare_create: fn(&mut Value),
    /// The same for an update: `new` first, the stored object second.
    pub prepare_update: fn(&mut Value, &Value),
    /// What is wrong with a new object. Metadata is checked before, by the generic path.
    pub validate: fn(&Value) -> Vec<field::Error>,
    /// What is wrong with an update (`new`, `old`): validity and what may not change.
    pub validate_update: fn(&Value, &Value) -> Vec<field::Error>,
    /// What is wrong with an update through `/status` (`new`, `old`).
    pub validate_status: fn(&Value, &Value) -> Vec<field::Error>,
    /// What `metadata.name` must look like.
    pub name: fn(&str) -> Vec<String>,
    /// Whether status is kept apart: cleared on create, kept on update, written through `/status`.
    pub status: bool,
    /// When `metadata.generation` goes up.
    pub generation: Generation,
    /// A PUT without resourceVersion overwrites whatever is there.
    pub unconditional_update: bool,
    /// A PUT of an object that is not there creates it.
    pub create_on_update: bool,
}

/// When `metadata.generation` goes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// The kind has no generation.
    Never,
    /// With any change outside `metadata` and `status`.
    Spec,
    /// … and with annotations too (Deployments: their revision controller copies them).
    SpecAndAnnotations,
}

impl Strategy {
    /// A kind with nothing of its own.
    pub const PLAIN: Strategy = Strategy {
        default: |_| {},
        prepare_create: |_| {},
        prepare_update: |_, _| {},
        validate: |_| Vec::new(),
        validate_update: |_, _| Vec::new(),
        validate_status: |_, _| Vec::new(),
        name: crate::names::dns1123_subdomain,
        status: false,
        generation: Generation::Never,
        unconditional_update: true,
        create_on_update: false,
    };
}

/// CRDs have a module of their own.
static DEFINITION: Strategy = Strategy {
    default: crd::default,
    prepare_create: crd::prepare_create,
    prepare_update: crd::prepare_update,
    validate: crd::validate,
    validate_update: crd::validate_update,
    validate_status: |new, _| crd::validate_status(new),
    status: true,
    generation: Generation::Spec,
    unconditional_update: false,
    ..Strategy::PLAIN
};

/// The strategy of a built-in kind.
pub fn strategy(group: &str, kind: &str) -> &'static Strategy {
    match group {
        "" => core::strategy(kind),
        "apps" => apps::strategy(kind),
        "apiextensions.k8s.io" => &DEFINITION,
        _ => other::strategy(group, kind),
    }
}
