//! One policy: its expressions, and what they say of a request.

use serde_json::Value;

use super::{Conditions, ConditionsOutcome, Denial};
use crate::cel::request::{Answer, Examination, Expression, Facts, Known, Uncompiled, Wanted, examine};
use crate::kinds::walk::{list, text};

/// Longer messages are not shown.
const LONGEST_MESSAGE: usize = 5 * 1024;

type Compiled = Result<Expression, Uncompiled>;

/// A policy, compiled.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) name: String,
    pub(super) constraints: Value,
    /// Null if it has no parameters.
    pub(super) param_kind: Value,
    /// Whether requests go on when it cannot be evaluated.
    pub(super) fails_open: bool,
    conditions: Conditions,
    variables: Vec<(String, Compiled)>,
    validations: Vec<Validation>,
    /// Values for the audit log: nobody reads one here, but one that cannot be told refuses the request.
    annotations: Vec<Compiled>,
    depth: usize,
}

#[derive(Debug)]
struct Validation {
    source: String,
    expression: Compiled,
    message: String,
    message_expression: Option<Compiled>,
    reason: &'static str,
}

impl Policy {
    pub(super) fn compile(name: &str, policy: &Value) -> Self {
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
        let validations = list(&spec["validations"]).iter();
        let validations = validations.map(|one| Validation::compile(one, &known)).collect();
        let annotations = list(&spec["auditAnnotations"])
            .iter()
            .map(|annotation| known.compile(text(annotation, "valueExpression").trim(), Wanted::TextOrNull));
        let mut policy = Policy {
            name: name.to_owned(),
            constraints: spec["matchConstraints"].clone(),
            param_kind: spec["paramKind"].clone(),
            fails_open: text(spec, "failurePolicy") == "Ignore",
            conditions,
            variables,
            validations,
            annotations: annotations.collect(),
            depth: 0,
        };
        policy.depth = policy.deepest();
        policy
    }

    fn deepest(&self) -> usize {
        let validations = self
            .validations
            .iter()
            .flat_map(|one| [Some(&one.expression), one.message_expression.as_ref()].into_iter().flatten());
        let variables = self.variables.iter().map(|(_, compiled)| compiled);
        let all = validations.chain(variables).chain(&self.annotations).flatten().map(Expression::depth);
        all.max().unwrap_or_default()
    }

    /// What speaks against a request.
    pub(super) fn decide(&self, facts: &Facts<'_>) -> Vec<Denial> {
        match self.conditions.outcome(facts) {
            ConditionsOutcome::Holds => {}
            ConditionsOutcome::Unknown(why) if !self.fails_open => return vec![Denial::new(why)],
            ConditionsOutcome::Fails | ConditionsOutcome::Unknown(_) => return Vec::new(),
        }
        examine(facts, self.depth, |examination| {
            for (name, variable) in &self.variables {
                examination.define(name, variable);
            }
            let validations =
                self.validations.iter().filter_map(|one| one.denial(examination, self.fails_open));
            let annotations = self.annotations.iter().filter_map(|annotation| {
                let failed = answer(annotation, examination).err().filter(|_| !self.fails_open);
                failed.map(Denial::new)
            });
            validations.chain(annotations).collect()
        })
    }
}

fn answer(compiled: &Compiled, examination: &Examination<'_>) -> Result<Answer, String> {
    match compiled {
        Ok(expression) => examination.answer(expression),
        Err(why) => Err(format!("compilation error: {}", why.why)),
    }
}

impl Validation {
    fn compile(validation: &Value, known: &Known) -> Self {
        let source = text(validation, "expression");
        let message_expression = Some(text(validation, "messageExpression"));
        let message_expression = message_expression.filter(|source| !source.trim().is_empty());
        Validation {
            source: source.to_owned(),
            expression: known.compile(source, Wanted::Bool),
            message: text(validation, "message").trim().to_owned(),
            message_expression: message_expression
                .map(|source| known.without_authorizer().compile(source, Wanted::Text)),
            reason: match text(validation, "reason") {
                "Forbidden" => "Forbidden",
                "Unauthorized" => "Unauthorized",
                "RequestEntityTooLarge" => "RequestEntityTooLarge",
                _ => "Invalid",
            },
        }
    }

    fn denial(&self, examination: &Examination<'_>, fails_open: bool) -> Option<Denial> {
        match answer(&self.expression, examination) {
            Ok(Answer::Bool(true)) => None,
            Ok(_) => Some(Denial { message: self.says(examination), reason: self.reason }),
            Err(_) if fails_open => None,
            Err(why) => Some(Denial::new(why)),
        }
    }

    /// The message that its own expression makes, or the one that is written, or the rule itself.
    fn says(&self, examination: &Examination<'_>) -> String {
        let made =
            self.message_expression.as_ref().and_then(|compiled| match answer(compiled, examination) {
                Ok(Answer::Text(message)) => Some(message.trim().to_owned()),
                _ => None,
            });
        let fits = |message: &String| {
            !message.is_empty() && message.len() <= LONGEST_MESSAGE && !message.contains('\n')
        };
        match made.filter(fits) {
            Some(message) => message,
            None if self.message.is_empty() => format!("failed expression: {}", self.source.trim()),
            None => self.message.clone(),
        }
    }
}
