//! What both kinds of policies have: whom they are for, when they apply, and the variables that their expressions share.

use serde_json::Value;

use super::Conditions;
use crate::cel::request::{Examination, Expression, Known, Uncompiled, Wanted};
use crate::kinds::walk::{list, text};

pub(super) type Compiled = Result<Expression, Uncompiled>;

#[derive(Debug)]
pub(super) struct Frame {
    pub(super) name: String,
    pub(super) constraints: Value,
    /// Null if it has no parameters.
    pub(super) param_kind: Value,
    /// Whether requests go on when it cannot be evaluated.
    pub(super) fails_open: bool,
    pub(super) conditions: Conditions,
    variables: Vec<(String, Compiled)>,
}

impl Frame {
    /// Also gives what the policy's other expressions may use.
    pub(super) fn compile(name: &str, policy: &Value) -> (Frame, Known) {
        let spec = &policy["spec"];
        let has_params = !spec["paramKind"].is_null();
        let conditions = Conditions::compile(&spec["matchConditions"], &Known::new(has_params, true));
        let mut known = Known::new(has_params, true);
        if !list(&spec["variables"]).is_empty() {
            known = known.with_variables();
        }
        let mut variables = Vec::new();
        for variable in list(&spec["variables"]) {
            let name = text(variable, "name");
            let compiled = known.compile(text(variable, "expression"), Wanted::Anything);
            known.add(name, compiled.as_ref().ok());
            variables.push((name.to_owned(), compiled));
        }
        let frame = Frame {
            name: name.to_owned(),
            constraints: spec["matchConstraints"].clone(),
            param_kind: spec["paramKind"].clone(),
            fails_open: text(spec, "failurePolicy") == "Ignore",
            conditions,
            variables,
        };
        (frame, known)
    }

    /// How deep the deepest of its variables and of these expressions is.
    pub(super) fn depth<'a>(&'a self, others: impl Iterator<Item = &'a Compiled>) -> usize {
        let variables = self.variables.iter().map(|(_, compiled)| compiled);
        variables.chain(others).flatten().map(Expression::depth).max().unwrap_or_default()
    }

    pub(super) fn define_variables(&self, examination: &mut Examination<'_>) {
        for (name, variable) in &self.variables {
            examination.define(name, variable);
        }
    }
}
