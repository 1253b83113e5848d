//! Match conditions: expressions that all have to hold before a policy or a webhook is asked.

use serde_json::Value;

use crate::cel::request::{Answer, Examination, Expression, Facts, Known, Uncompiled, Wanted, examine};
use crate::kinds::walk::{list, text};

/// The conditions of one policy or webhook, compiled.
#[derive(Debug)]
pub(super) struct Conditions(Vec<Result<Expression, Uncompiled>>);

/// Whether the one that has the conditions is to be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Holds,
    /// One of them does not hold.
    Fails,
    /// None is false, and some could not be evaluated.
    Unknown(String),
}

impl Conditions {
    pub(super) fn compile(written: &Value, known: &Known) -> Self {
        let expressions = list(written).iter().map(|condition| text(condition, "expression").trim());
        Conditions(expressions.map(|source| known.compile(source, Wanted::Bool)).collect())
    }

    /// Holds them against a request, of which they see neither the namespace nor variables.
    pub(super) fn outcome(&self, facts: &Facts<'_>) -> Outcome {
        if self.0.is_empty() {
            return Outcome::Holds;
        }
        let depth = self.0.iter().flatten().map(Expression::depth).max().unwrap_or_default();
        examine(&Facts { namespace: None, ..*facts }, depth, |examination| self.outcome_of(examination))
    }

    fn outcome_of(&self, examination: &Examination<'_>) -> Outcome {
        let mut wrong = Vec::new();
        for condition in &self.0 {
            let answer = match condition {
                Ok(expression) => examination.answer(expression),
                Err(why) => Err(format!("compilation error: {}", why.why)),
            };
            match answer {
                Ok(Answer::Bool(false)) => return Outcome::Fails,
                Ok(_) => {}
                Err(why) => wrong.push(why),
            }
        }
        // As Go joins errors.
        match wrong.as_slice() {
            [] => Outcome::Holds,
            [one] => Outcome::Unknown(one.clone()),
            many => Outcome::Unknown(format!("[{}]", many.join(", "))),
        }
    }
}

/// Whether the conditions of a webhook let it see a request.
pub(crate) fn of_webhook(webhook: &Value, facts: &Facts<'_>) -> Outcome {
    Conditions::compile(&webhook["matchConditions"], &Known::new(false, true)).outcome(facts)
}
