//! Services that span clusters.
