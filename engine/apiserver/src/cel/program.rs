//! One rule of a schema, compiled.

use serde_json::Value as Json;

use super::ast::{Expr, Kind, Literal};
use super::checker::{self, Checked, Messages};
use super::estimate::{self, Declared};
use super::eval::{Scope, evaluate};
use super::issue;
use super::library;
use super::meter::Budget;
use super::parser;
use super::room;
use super::schema::Schema;
use super::types::Type;
use super::value::{Result, Value};
use super::{field_path, text};
use crate::schema::validate::pattern;

/// Longer messages are not shown.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// A rule as written, and its programs.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) written: Written,
    /// `None` for an empty rule.
    pub(super) program: Option<std::result::Result<Program, String>>,
    /// The expression that makes the message; one that does not compile makes none.
    pub(super) message: Option<std::result::Result<Expr, String>>,
    /// Where failures are told, below the place of the rule.
    pub(super) field: String,
    pub(super) most: Most,
}

/// What a rule and its message may cost at most, where that was asked for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Most {
    pub(super) rule: u64,
    pub(super) message: u64,
}

/// What a CRD says about a rule.
#[derive(Debug, Clone, Default)]
pub(super) struct Written {
    pub(super) rule: String,
    pub(super) message: String,
    pub(super) reason: String,
    pub(super) optional_old: bool,
}

#[derive(Debug)]
pub(super) struct Program {
    expr: Expr,
    pub(super) uses_old: bool,
}

impl Rule {
    /// Compiles a rule for values of a type.
    pub(super) fn compile(rule: &Json, of: &Type, schema: &Schema) -> Rule {
        Self::in_room(rule, of, schema, None)
    }

    /// The same, with what it may cost for values of these sizes.
    pub(super) fn estimate(rule: &Json, of: &Type, schema: &Schema, sizes: &Declared) -> Rule {
        Self::in_room(rule, of, schema, Some(sizes))
    }

    fn in_room(rule: &Json, of: &Type, schema: &Schema, sizes: Option<&Declared>) -> Rule {
        let levels = room::levels(text(rule, "rule")).max(room::levels(text(rule, "messageExpression")));
        room::with_room(levels, || Self::compile_here(rule, of, schema, sizes))
    }

    fn compile_here(rule: &Json, of: &Type, schema: &Schema, sizes: Option<&Declared>) -> Rule {
        let estimated =
            |expr: &Expr, checked: &Checked| sizes.map_or(0, |sizes| estimate::most(expr, checked, sizes));
        let mut most = Most::default();
        let written = Written {
            rule: text(rule, "rule").to_owned(),
            message: text(rule, "message").to_owned(),
            reason: text(rule, "reason").to_owned(),
            optional_old: rule.get("optionalOldSelf").and_then(Json::as_bool).unwrap_or_default(),
        };
        let old = if written.optional_old { Type::optional(of.clone()) } else { of.clone() };
        let variables = [("self", of.clone()), ("oldSelf", old)];
        let empty = written.rule.trim().is_empty();
        let program = (!empty).then(|| {
            let (expr, checked) =
                compile(&written.rule, &variables).map_err(|why| format!("compilation failed: {why}"))?;
            match checked.of {
                Type::Bool => {
                    constants(&expr).map_err(|why| format!("program {why}"))?;
                    most.rule = estimated(&expr, &checked);
                    Ok(Program { expr, uses_old: checked.uses_old })
                }
                _ => Err("cel expression must evaluate to a bool".to_owned()),
            }
        });
        let message = match &program {
            Some(Ok(_)) => Some(text(rule, "messageExpression")).filter(|source| !source.is_empty()),
            _ => None,
        };
        let message = message.map(|source| {
            let (expr, checked) = compile(source, &variables)
                .map_err(|why| format!("messageExpression compilation failed: {why}"))?;
            match checked.of {
                Type::String => {
                    constants(&expr).map_err(|why| format!("messageExpression {why}"))?;
                    most.message = estimated(&expr, &checked);
                    Ok(expr)
                }
                _ => Err("messageExpression must evaluate to a string".to_owned()),
            }
        });
        let field = field_path::normalized(text(rule, "fieldPath"), schema).unwrap_or_default();
        Rule { written, program, message, field, most }
    }

    /// How deep its expressions are.
    pub(super) fn depth(&self) -> usize {
        let program = self.program.iter().flatten().map(|program| program.expr.depth);
        let message = self.message.iter().flatten().map(|message| message.depth);
        program.chain(message).max().unwrap_or_default()
    }

    /// What names the rule in messages about it.
    pub(super) fn name(&self) -> &str {
        match self.written.message.is_empty() {
            true => self.written.rule.trim(),
            false => self.written.message.trim(),
        }
    }

    /// What is said when the rule does not hold.
    pub(super) fn failure(&self, new: &Value<'_>, old: Option<&Value<'_>>, budget: &Budget) -> String {
        let own = || match self.written.message.is_empty() {
            true => format!("failed rule: {}", self.name()),
            false => self.written.message.trim().to_owned(),
        };
        let Some(Ok(expr)) = &self.message else { return own() };
        match run(expr, new, old, budget) {
            Ok(Value::String(message)) => {
                let message = message.trim();
                let fits = !message.is_empty() && message.len() <= LONGEST_MESSAGE && !message.contains('\n');
                if fits { message.to_owned() } else { own() }
            }
            _ => own(),
        }
    }
}

impl Program {
    pub(super) fn run<'a>(
        &self,
        new: &Value<'a>,
        old: Option<&Value<'a>>,
        budget: &Budget,
    ) -> Result<Value<'a>> {
        run(&self.expr, new, old, budget)
    }
}

fn run<'a>(expr: &Expr, new: &Value<'a>, old: Option<&Value<'a>>, budget: &Budget) -> Result<Value<'a>> {
    let scope = Scope::new("self", new.clone(), None);
    match old {
        Some(old) => evaluate(expr, &Scope::new("oldSelf", old.clone(), Some(&scope)), budget),
        None => evaluate(expr, &scope, budget),
    }
}

pub(super) fn compile(
    source: &str,
    variables: &[(&str, Type)],
) -> std::result::Result<(Expr, Checked), String> {
    compile_with(source, variables, Messages::Unknown)
}

pub(super) fn compile_with(
    source: &str,
    variables: &[(&str, Type)],
    messages: Messages,
) -> std::result::Result<(Expr, Checked), String> {
    let expr = parser::parse(source).map_err(|wrong| issue::show(&wrong, source))?;
    let checked = checker::check(&expr, variables, messages).map_err(|wrong| issue::show(&wrong, source))?;
    Ok((expr, checked))
}

/// Patterns and conversions that are written out are worked out once, with the program.
pub(super) fn constants(expr: &Expr) -> std::result::Result<(), String> {
    let mut wrong = None;
    expr.visit(&mut |expr| {
        let Kind::Call(call) = &expr.kind else { return };
        let Some(Expr { kind: Kind::Literal(literal), .. }) = call.args.first() else { return };
        let why = match (call.function.as_str(), literal) {
            ("find" | "findAll", Literal::String(regex)) => {
                pattern::objection(regex).map(|why| format!("error parsing regexp: {why}"))
            }
            (function @ ("bool" | "bytes" | "double" | "int" | "string" | "uint"), literal) => {
                library::call_once(function, &[Value::literal(literal)]).err().map(|error| error.0)
            }
            _ => None,
        };
        wrong = wrong.take().or(why);
    });
    wrong.map_or(Ok(()), |why| Err(format!("instantiation failed: {why}")))
}
