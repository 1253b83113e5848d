//! Turns the words of an expression into its tree; macros are expanded on the way.

use super::ast::{Call, Entry, Expr, Field, Item, Kind, Literal, Message, Mode, Select};
use super::declarations;
use super::escape::RESERVED;
use super::issue::Issue;
use super::lexer::{Token, Word, tokens};
use super::macros;

/// Deeper expressions are refused: they would only exhaust the stack.
const DEEPEST: usize = 250;
const STARTS: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

/// The tree of a source.
pub(super) fn parse(source: &str) -> Result<Expr, Vec<Issue>> {
    let mut issues = Vec::new();
    let tokens = tokens(source, &mut issues);
    let mut parser = Parser { tokens: &tokens, next: 0, depth: 0, issues };
    let parsed = parser.whole();
    let mut issues = parser.issues;
    match parsed {
        Ok(expr) if issues.is_empty() => Ok(expr),
        Ok(_) => Err(issues),
        Err(last) => {
            issues.push(last);
            Err(issues)
        }
    }
}

struct Parser<'a> {
    tokens: &'a [Token],
    next: usize,
    depth: usize,
    /// Slips that could be passed over.
    issues: Vec<Issue>,
}

impl<'a> Parser<'a> {
    fn token(&self) -> &'a Token {
        &self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    fn advance(&mut self) -> &'a Token {
        let token = self.token();
        self.next += 1;
        token
    }

    fn is(&self, sign: &str) -> bool {
        let token = self.token();
        token.word == Word::Sign && token.text == sign
    }

    /// The place of the sign, if it comes next.
    fn accept(&mut self, sign: &str) -> Option<usize> {
        self.is(sign).then(|| self.advance().at)
    }

    fn whole(&mut self) -> Result<Expr, Issue> {
        let expr = checked(self.expression()?)?;
        if self.token().word == Word::End {
            return Ok(expr);
        }
        // One word too many is taken for a slip.
        let how = if self.after().word == Word::End { "extraneous" } else { "mismatched" };
        Err(self.complaint(how, "<EOF>"))
    }

    /// The word after the next.
    fn after(&self) -> &'a Token {
        &self.tokens[(self.next + 1).min(self.tokens.len() - 1)]
    }

    /// Passes a sign. A word before it is passed over, and the sign may be missing where what follows it is
    /// there: that is how the real server's parser recovers.
    fn expect(&mut self, sign: &str) -> Result<usize, Issue> {
        if let Some(at) = self.accept(sign) {
            return Ok(at);
        }
        let wanted = format!("'{sign}'");
        let after = self.after();
        if after.word == Word::Sign && after.text == sign {
            let issue = self.complaint("extraneous", &wanted);
            self.issues.push(issue);
            self.advance();
            return Ok(self.advance().at);
        }
        let token = self.token();
        let starts = starts_expression(token);
        if starts == (sign == ":") && !(sign == ":" && token.word == Word::End) {
            let issue = Issue::new(token.at, format!("Syntax error: missing {wanted} at '{}'", shown(token)));
            self.issues.push(issue);
            return Ok(token.at);
        }
        Err(self.unexpected(&wanted))
    }

    fn complaint(&self, how: &str, wanted: &str) -> Issue {
        let token = self.token();
        Issue::new(token.at, format!("Syntax error: {how} input '{}' expecting {wanted}", shown(token)))
    }

    fn unexpected(&self, wanted: &str) -> Issue {
        self.complaint("mismatched", wanted)
    }

    fn expression(&mut self) -> Result<Expr, Issue> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Issue::nowhere(format!("expression recursion limit exceeded: {DEEPEST}")));
        }
        let condition = self.logical("||")?;
        let expr = match self.accept("?") {
            None => condition,
            Some(at) => {
                let yes = self.logical("||")?;
                self.expect(":")?;
                let no = self.expression()?;
                Expr::call(at, "_?_:_", vec![condition, yes, no])
            }
        };
        self.depth -= 1;
        Ok(expr)
    }

    /// `a || b || c` is one call with three arguments.
    fn logical(&mut self, sign: &str) -> Result<Expr, Issue> {
        let below = |parser: &mut Self| match sign {
            "||" => parser.logical("&&"),
            _ => parser.relation(),
        };
        let first = below(self)?;
        let mut place = None;
        let mut args = vec![first];
        while let Some(at) = self.accept(sign) {
            place = place.or(Some(at));
            args.push(below(self)?);
        }
        match place {
            None => Ok(args.remove(0)),
            Some(at) => Ok(Expr::call(at, if sign == "||" { "_||_" } else { "_&&_" }, args)),
        }
    }

    fn relation(&mut self) -> Result<Expr, Issue> {
        let signs = [
            ("<=", "_<=_"),
            ("<", "_<_"),
            (">=", "_>=_"),
            (">", "_>_"),
            ("==", "_==_"),
            ("!=", "_!=_"),
            ("in", "@in"),
        ];
        self.binary(&signs, Self::sum)
    }

    fn sum(&mut self) -> Result<Expr, Issue> {
        self.binary(&[("+", "_+_"), ("-", "_-_")], Self::product)
    }

    fn product(&mut self) -> Result<Expr, Issue> {
        self.binary(&[("*", "_*_"), ("/", "_/_"), ("%", "_%_")], Self::unary)
    }

    fn binary(
        &mut self,
        signs: &[(&str, &str)],
        below: fn(&mut Self) -> Result<Expr, Issue>,
    ) -> Result<Expr, Issue> {
        let mut left = below(self)?;
        while let Some((_, function)) = signs.iter().find(|(sign, _)| self.is(sign)) {
            let at = self.advance().at;
            let right = below(self)?;
            left = checked(Expr::call(at, function, vec![left, right]))?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expr, Issue> {
        let (sign, function) = match () {
            () if self.is("!") => ("!", "!_"),
            () if self.is("-") => ("-", "-_"),
            () => return self.member(),
        };
        let at = self.token().at;
        let mut count = 0;
        while self.accept(sign).is_some() {
            count += 1;
        }
        if sign == "-" && count == 1 {
            // A number takes its sign with it, so that the least integer can be written.
            let token = self.token();
            let negative = match token.word {
                Word::Int(Some(value)) => Some(Literal::Int(value.wrapping_neg())),
                Word::Double(value) => Some(Literal::Double(-value)),
                _ => None,
            };
            if let Some(literal) = negative {
                self.advance();
                return self.tail(Expr::new(at, Kind::Literal(literal)));
            }
        }
        if !starts_expression(self.token()) {
            return Err(self.complaint("extraneous", STARTS));
        }
        let inner = self.member()?;
        match count % 2 {
            0 => Ok(inner),
            _ => Ok(Expr::call(at, function, vec![inner])),
        }
    }

    fn member(&mut self) -> Result<Expr, Issue> {
        let primary = self.primary()?;
        self.tail(primary)
    }

    /// Fields, calls and indexes that follow an expression.
    fn tail(&mut self, mut expr: Expr) -> Result<Expr, Issue> {
        loop {
            expr = checked(expr)?;
            if let Some(at) = self.accept(".") {
                let optional = self.accept("?").is_some();
                let token = self.token();
                if token.word != Word::Ident {
                    if optional || matches!(token.text.as_str(), "true" | "false" | "null") {
                        return Err(self.unexpected("IDENTIFIER"));
                    }
                    let why = format!("Syntax error: no viable alternative at input '.{}'", token.text);
                    return Err(Issue::new(token.at, why));
                }
                self.advance();
                expr = match self.accept("(").filter(|_| !optional) {
                    Some(open) => {
                        let args = self.list_until(")")?;
                        self.called(open, &token.text, Some(expr), args)?
                    }
                    None => {
                        let mode = if optional { Mode::Optional } else { Mode::Value };
                        let select = Select { operand: expr, field: token.text.clone(), mode };
                        let select = Expr::new(at, Kind::Select(Box::new(select)));
                        match select.qualified().filter(|name| declarations::named_type(name).is_some()) {
                            Some(name) => Expr::new(at, Kind::Ident(name)),
                            None => select,
                        }
                    }
                };
            } else if let Some(at) = self.accept("[") {
                let optional = self.accept("?").is_some();
                let index = self.expression()?;
                self.expect("]")?;
                expr = Expr::call(at, if optional { "_[?_]" } else { "_[_]" }, vec![expr, index]);
            } else if self.is("{") && expr.qualified().is_some() {
                let name = expr.qualified().unwrap_or_default();
                let at = self.advance().at;
                let fields = self.fields()?;
                expr = Expr::new(at, Kind::Message(Box::new(Message { name, fields })));
            } else {
                return Ok(expr);
            }
        }
    }

    fn called(
        &mut self,
        at: usize,
        function: &str,
        target: Option<Expr>,
        args: Vec<Expr>,
    ) -> Result<Expr, Issue> {
        let full = target.as_ref().and_then(Expr::qualified).map(|prefix| format!("{prefix}.{function}"));
        if let Some(full) = full.filter(|full| declarations::function(full).is_some()) {
            return Ok(Expr::call(at, &full, args));
        }
        let call = Call { function: function.to_owned(), target: target.map(Box::new), args };
        macros::expand(at, call)
    }

    fn primary(&mut self) -> Result<Expr, Issue> {
        let token = self.token();
        let at = token.at;
        let literal = |literal: Literal| Ok(Expr::new(at, Kind::Literal(literal)));
        match &token.word {
            Word::Int(value) => {
                self.advance();
                let value = value.ok_or_else(|| Issue::new(at, "invalid int literal"))?;
                literal(Literal::Int(value))
            }
            Word::Uint(value) => {
                self.advance();
                let value = value.ok_or_else(|| Issue::new(at, "invalid uint literal"))?;
                literal(Literal::Uint(value))
            }
            Word::Double(value) => {
                self.advance();
                literal(Literal::Double(*value))
            }
            Word::String(value) => {
                self.advance();
                literal(Literal::String(value.clone()))
            }
            Word::Bytes(value) => {
                self.advance();
                literal(Literal::Bytes(value.clone()))
            }
            Word::Ident => self.name(),
            Word::Sign => match token.text.as_str() {
                "true" | "false" => {
                    self.advance();
                    literal(Literal::Bool(token.text == "true"))
                }
                "null" => {
                    self.advance();
                    literal(Literal::Null)
                }
                "(" => {
                    self.advance();
                    let inner = self.expression()?;
                    self.expect(")")?;
                    Ok(inner)
                }
                "[" => {
                    self.advance();
                    Ok(Expr::new(at, Kind::List(self.items()?)))
                }
                "{" => {
                    self.advance();
                    Ok(Expr::new(at, Kind::Map(self.entries()?)))
                }
                "." => {
                    // A leading dot makes a name absolute, and there is only one container.
                    self.advance();
                    match self.token().word {
                        Word::Ident => self.name(),
                        _ => Err(self.unexpected("IDENTIFIER")),
                    }
                }
                _ if starts_expression(self.after()) => {
                    let issue = self.complaint("extraneous", STARTS);
                    self.issues.push(issue);
                    self.advance();
                    self.primary()
                }
                _ => Err(self.unexpected(STARTS)),
            },
            Word::End => Err(self.unexpected(STARTS)),
        }
    }

    fn name(&mut self) -> Result<Expr, Issue> {
        let token = self.advance();
        if RESERVED.contains(&token.text.as_str()) {
            return Err(Issue::new(token.at, format!("reserved identifier: {}", token.text)));
        }
        match self.accept("(") {
            Some(open) => {
                let args = self.list_until(")")?;
                self.called(open, &token.text, None, args)
            }
            None => Ok(Expr::new(token.at, Kind::Ident(token.text.clone()))),
        }
    }

    fn list_until(&mut self, close: &str) -> Result<Vec<Expr>, Issue> {
        let mut found = Vec::new();
        if self.accept(close).is_some() {
            return Ok(found);
        }
        loop {
            found.push(self.expression()?);
            if self.accept(",").is_none() {
                self.expect(close)?;
                return Ok(found);
            }
        }
    }

    fn separator(&mut self, close: &str) -> Result<(), Issue> {
        let wanted = format!("{{'{close}', ','}}");
        self.accept(",").map(|_| ()).ok_or_else(|| self.unexpected(&wanted))
    }

    fn items(&mut self) -> Result<Vec<Item>, Issue> {
        let mut found = Vec::new();
        while self.accept("]").is_none() {
            let optional = self.accept("?").is_some();
            found.push(Item { value: self.expression()?, optional });
            if !self.is("]") {
                self.separator("]")?;
            }
        }
        Ok(found)
    }

    fn entries(&mut self) -> Result<Vec<Entry>, Issue> {
        let mut found = Vec::new();
        while self.accept("}").is_none() {
            let optional = self.accept("?").is_some();
            let key = self.expression()?;
            self.expect(":")?;
            found.push(Entry { key, value: self.expression()?, optional });
            if !self.is("}") {
                self.separator("}")?;
            }
        }
        Ok(found)
    }

    /// The fields of a message, which are of no interest: its type is unknown.
    fn fields(&mut self) -> Result<Vec<Field>, Issue> {
        let mut fields = Vec::new();
        while self.accept("}").is_none() {
            let optional = self.accept("?").is_some();
            if self.token().word != Word::Ident {
                return Err(self.unexpected("IDENTIFIER"));
            }
            let name = self.token().text.clone();
            self.advance();
            let at = self.token().at;
            self.expect(":")?;
            let value = self.expression()?;
            fields.push(Field { at, name, value, optional });
            if !self.is("}") {
                self.separator("}")?;
            }
        }
        Ok(fields)
    }
}

/// Refuses an expression in which too many others are inside each other.
fn checked(expr: Expr) -> Result<Expr, Issue> {
    match expr.depth > DEEPEST {
        true => Err(Issue::nowhere("max recursion depth exceeded")),
        false => Ok(expr),
    }
}

fn shown(token: &Token) -> &str {
    if token.word == Word::End { "<EOF>" } else { &token.text }
}

fn starts_expression(token: &Token) -> bool {
    match token.word {
        Word::End => false,
        Word::Sign => {
            matches!(token.text.as_str(), "[" | "{" | "(" | "." | "-" | "!" | "true" | "false" | "null")
        }
        _ => true,
    }
}
