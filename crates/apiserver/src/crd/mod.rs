//! Custom resource definitions.
