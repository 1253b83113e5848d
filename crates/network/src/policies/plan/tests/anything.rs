//! Whatever comes, in any order.
