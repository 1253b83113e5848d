//! From the text of a path to its steps.

use serde_json::Value;

use super::{Error, Filter, Slice, Step, Test};

/// Unions and filters hold paths of their own; nobody nests them deeper than this by hand.
const DEEPEST: usize = 32;

pub(super) fn parse(text: &str) -> Result<Vec<Step>, Error> {
    parse_at(text, 0)
}

fn parse_at(text: &str, depth: usize) -> Result<Vec<Step>, Error> {
    if depth > DEEPEST {
        return Err(Error("path is nested too deeply".to_owned()));
    }
    let mut parser = Parser { text, at: 0, depth, steps: Vec::new() };
    while parser.at < text.len() {
        parser.step()?;
    }
    Ok(parser.steps)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    steps: Vec<Step>,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let found = self.peek()?;
        self.at += found.len_utf8();
        Some(found)
    }

    /// Whether the character just read follows a backslash.
    fn escaped(&self, read: char) -> bool {
        self.text[..self.at - read.len_utf8()].ends_with('\\')
    }

    fn step(&mut self) -> Result<(), Error> {
        if self.rest().starts_with("[?(") {
            return self.filter();
        }
        if self.rest().starts_with("..") {
            return self.recursive();
        }
        match self.next() {
            None | Some('\r' | '\n') => Err(Error("unclosed action".to_owned())),
            // `@` and `$` are where the walk already is.
            Some(' ' | '@' | '$') => Ok(()),
            Some('[') => self.array(),
            Some(quote @ ('"' | '\'')) => self.quoted(quote),
            Some('.') => self.field(),
            Some(sign @ ('+' | '-')) => self.number(sign),
            Some(digit) if digit.is_numeric() => self.number(digit),
            Some(letter) if letter == '_' || letter.is_alphabetic() => {
                self.identifier(letter);
                Ok(())
            }
            Some(other) => {
                Err(Error(format!("unrecognized character in action: U+{:04X} '{other}'", u32::from(other))))
            }
        }
    }

    fn recursive(&mut self) -> Result<(), Error> {
        if self.steps.last() == Some(&Step::Recursive) {
            return Err(Error("invalid multiple recursive descent".to_owned()));
        }
        self.at += "..".len();
        self.steps.push(Step::Recursive);
        if self.peek().is_some_and(|next| next == '_' || next.is_alphanumeric()) {
            return self.field();
        }
        Ok(())
    }

    fn field(&mut self) -> Result<(), Error> {
        let mut name = String::new();
        let mut plain_star = true;
        while let Some(next) = self.peek().filter(|next| !terminates(*next)) {
            self.at += next.len_utf8();
            if next == '\\' {
                plain_star = false;
                // Whatever follows is part of the name; a further backslash vanishes like the first.
                let escaped = self.next().ok_or_else(|| Error("unclosed action".to_owned()))?;
                name.extend(Some(escaped).filter(|escaped| *escaped != '\\'));
            } else {
                name.push(next);
            }
        }
        let wildcard = plain_star && name == "*";
        self.steps.push(if wildcard { Step::Wildcard } else { Step::Field(name) });
        Ok(())
    }

    fn identifier(&mut self, first: char) {
        let start = self.at - first.len_utf8();
        while self.peek().is_some_and(|next| !terminates(next)) {
            self.next();
        }
        self.steps.push(match &self.text[start..self.at] {
            "true" => Step::Literal(Value::Bool(true)),
            "false" => Step::Literal(Value::Bool(false)),
            _ => Step::Identifier,
        });
    }

    fn number(&mut self, first: char) -> Result<(), Error> {
        let start = self.at - first.len_utf8();
        while self.peek().is_some_and(|next| next == '.' || next.is_numeric()) {
            self.next();
        }
        let text = &self.text[start..self.at];
        let whole = text.parse::<i64>().ok().map(Value::from);
        let literal = whole.or_else(|| text.parse::<f64>().ok().map(Value::from));
        let literal = literal.ok_or_else(|| Error(format!("cannot parse number {text}")))?;
        self.steps.push(Step::Literal(literal));
        Ok(())
    }

    fn quoted(&mut self, quote: char) -> Result<(), Error> {
        let start = self.at;
        loop {
            match self.next() {
                None | Some('\n') => return Err(Error("unterminated quoted string".to_owned())),
                Some(read) if read == quote && !self.escaped(read) => break,
                Some(_) => {}
            }
        }
        let inner = &self.text[start..self.at - quote.len_utf8()];
        let text = unquote(inner, quote)
            .ok_or_else(|| Error(format!("unquote string {quote}{inner}{quote} error invalid syntax")))?;
        self.steps.push(Step::Literal(Value::String(text)));
        Ok(())
    }

    fn array(&mut self) -> Result<(), Error> {
        let end = self.rest().find([']', '\n']);
        let Some(length) = end.filter(|end| self.rest()[*end..].starts_with(']')) else {
            return Err(Error("unterminated array".to_owned()));
        };
        let text = &self.rest()[..length];
        self.at += length + 1;
        let step = match text {
            "*" => Step::Slice(slice(":")?),
            _ if text.contains(',') => {
                let parts = text.split(',').map(|part| format!("[{}]", part.trim_matches(' ')));
                Step::Union(parts.map(|part| parse_at(&part, self.depth + 1)).collect::<Result<_, Error>>()?)
            }
            _ => match text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
                Some(key) if !key.contains('\'') => {
                    self.steps.extend(parse_at(&format!(".{key}"), self.depth + 1)?);
                    return Ok(());
                }
                _ => Step::Slice(slice(text)?),
            },
        };
        self.steps.push(step);
        Ok(())
    }

    fn filter(&mut self) -> Result<(), Error> {
        self.at += "[?(".len();
        let start = self.at;
        let (mut open, mut closed) = (None, false);
        loop {
            match self.next() {
                None | Some('\n') => return Err(Error("unterminated filter".to_owned())),
                Some(quote @ ('"' | '\'')) => match open {
                    None => open = Some(quote),
                    Some(pair) => closed = closed || pair == quote && !self.escaped(quote),
                },
                Some(')') if open.is_some() == closed => break,
                Some(_) => {}
            }
        }
        let text = &self.text[start..self.at - 1];
        if self.next() != Some(']') {
            return Err(Error("unclosed array expect ]".to_owned()));
        }
        let (left, test, right) = split_test(text).unwrap_or((text, Test::Exists, ""));
        let left = parse_at(left, self.depth + 1)?;
        let right = parse_at(right, self.depth + 1)?;
        self.steps.push(Step::Filter(Filter { left, test, right }));
        Ok(())
    }
}

fn terminates(next: char) -> bool {
    matches!(next, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

/// `left op right`; none where one of the three is missing.
fn split_test(text: &str) -> Option<(&str, Test, &str)> {
    let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
    let from = text.find(is_operator).filter(|from| *from > 0)?;
    let tail = &text[from..];
    let length = tail.find(|c| !is_operator(c)).unwrap_or(tail.len());
    // Where nothing follows, the last operator sign is taken for the right side.
    let length = if length == tail.len() { length - 1 } else { length };
    let test = match tail.get(..length).filter(|operator| !operator.is_empty())? {
        "==" => Test::Equal,
        "!=" => Test::NotEqual,
        "<" => Test::Less,
        "<=" => Test::LessEqual,
        ">" => Test::Greater,
        ">=" => Test::GreaterEqual,
        _ => Test::Unknown,
    };
    Some((&text[..from], test, &tail[length..]))
}

fn slice(text: &str) -> Result<Slice, Error> {
    let parts: Vec<&str> = text.split(':').collect();
    let shaped = |part: &&str| part.strip_prefix('-').unwrap_or(part).bytes().all(|b| b.is_ascii_digit());
    if parts.len() > 3 || !parts.iter().all(shaped) {
        return Err(Error(format!("invalid array index {text}")));
    }
    let number = |part: Option<&&str>| match part {
        None | Some(&"") => Ok(None),
        Some(part) => {
            part.parse().map(Some).map_err(|_| Error(format!("array index {part} is not a number")))
        }
    };
    let start: Option<i64> = number(parts.first())?;
    let single = parts.len() == 1;
    let end = if single { start.unwrap_or(0).checked_add(1) } else { number(parts.get(1))? };
    Ok(Slice { start, end, single, step: number(parts.get(2))? })
}

/// Go's string escapes, in either kind of quotes.
fn unquote(inner: &str, quote: char) -> Option<String> {
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner.chars();
    while let Some(next) = rest.next() {
        if next != '\\' {
            text.push(next);
            continue;
        }
        text.push(match rest.next()? {
            'a' => '\x07',
            'b' => '\x08',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            '\\' => '\\',
            'x' => character(&mut rest, 0, 2, 16)?,
            'u' => character(&mut rest, 0, 4, 16)?,
            'U' => character(&mut rest, 0, 8, 16)?,
            octal @ '0'..='7' => character(&mut rest, octal.to_digit(8)?, 2, 8)?,
            same if same == quote => quote,
            _ => return None,
        });
    }
    Some(text)
}

fn character(rest: &mut std::str::Chars<'_>, first: u32, digits: u32, radix: u32) -> Option<char> {
    let code = (0..digits)
        .try_fold(first, |code, _| code.checked_mul(radix)?.checked_add(rest.next()?.to_digit(radix)?))?;
    char::from_u32(code)
}
