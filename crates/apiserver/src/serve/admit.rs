//! Admission: what else has a say before an object is stored.

use serde_json::Value;

use super::call::Call;
use super::parts::Part;
use crate::admission::Operation;
use crate::status::Result;

pub(crate) fn mutate(_: &Call, _: Operation, _: &str, _: &mut Value, _: Option<&Value>) -> Result<()> {
    Ok(())
}
pub(crate) fn mutate_part(_: &Call, _: Part, _: &str, _: &mut Value, _: &Value) -> Result<()> {
    Ok(())
}
pub(crate) async fn validate(
    _: &Call,
    _: Operation,
    _: &str,
    _: Option<&Value>,
    _: Option<&Value>,
    _: bool,
) -> Result<()> {
    Ok(())
}
pub(crate) async fn validate_delete(_: &Call, _: &str, _: &Value, _: bool) -> Result<()> {
    Ok(())
}
