//! One policy: its expressions, and what they say of a request.

use serde_json::Value;

use super::frame::{Compiled, Frame};
use super::{ConditionsOutcome, Denial};
use crate::cel::request::{Answer, Examination, Facts, Known, Wanted, examine};
use crate::kinds::walk::{list, text};

/// Longer messages are not shown.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// A policy, compiled.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) frame: Frame,
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
        let (frame, known) = Frame::compile(name, policy);
        let validations = list(&spec["validations"]).iter();
        let validations: Vec<Validation> = validations.map(|one| Validation::compile(one, &known)).collect();
        let annotations = list(&spec["auditAnnotations"])
            .iter()
            .map(|annotation| known.compile(text(annotation, "valueExpression").trim(), Wanted::TextOrNull));
        let annotations: Vec<Compiled> = annotations.collect();
        let of_validations = validations
            .iter()
            .flat_map(|one| [Some(&one.expression), one.message_expression.as_ref()].into_iter().flatten());
        let depth = frame.depth(of_validations.chain(&annotations));
        Policy { frame, validations, annotations, depth }
    }

    /// What speaks against a request.
    pub(super) fn decide(&self, facts: &Facts<'_>) -> Vec<Denial> {
        let fails_open = self.frame.fails_open;
        match self.frame.conditions.outcome(facts) {
            ConditionsOutcome::Holds => {}
            ConditionsOutcome::Unknown(why) if !fails_open => return vec![Denial::new(why)],
            ConditionsOutcome::Fails | ConditionsOutcome::Unknown(_) => return Vec::new(),
        }
        examine(facts, self.depth, |examination| {
            self.frame.define_variables(examination);
            let validations = self.validations.iter().filter_map(|one| one.denial(examination, fails_open));
            let annotations = self.annotations.iter().filter_map(|annotation| {
                let failed = answer(annotation, examination).err().filter(|_| !fails_open);
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
