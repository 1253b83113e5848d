//! Any order of leader changes, partitions, edits and crashes, by seed.

pub(crate) async fn nothing() {}
