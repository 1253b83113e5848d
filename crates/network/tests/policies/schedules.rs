//! Anything in any order.
