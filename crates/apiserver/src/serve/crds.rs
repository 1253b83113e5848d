//! CRDs.
use super::call::Call;
pub(crate) async fn after(_: &Call) {}
