//! Fills in the defaults that a schema carries.
