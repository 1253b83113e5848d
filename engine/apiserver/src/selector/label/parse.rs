//! The grammar of label selectors, with the real server's complaints.

use std::collections::BTreeSet;

use super::{Error, Operator, Requirement};
use crate::{field, names};

const BINARY_OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, Error> {
    let mut parser = Parser { tokens: scan(text), at: 0 };
    let mut requirements = Vec::new();
    loop {
        match parser.peek() {
            Token::End => return Ok(requirements),
            Token::Word(_) | Token::Not => {}
            other => {
                return Err(Error(format!("found '{other}', expected: !, identifier, or 'end of string'")));
            }
        }
        requirements
            .push(parser.requirement().map_err(|why| Error(format!("unable to parse requirement: {why}")))?);
        match parser.next() {
            Token::End => return Ok(requirements),
            Token::Comma => match parser.peek() {
                Token::Word(_) | Token::Not => {}
                other => return Err(Error(format!("found '{other}', expected: identifier after ','"))),
            },
            other => return Err(Error(format!("found '{other}', expected: ',' or 'end of string'"))),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    End,
    Open,
    Close,
    Comma,
    Not,
    Equals,
    DoubleEquals,
    NotEquals,
    Greater,
    Less,
    /// `in` and `notin` are words too: they mean something only after a key.
    Word(String),
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Token::End => "",
            Token::Open => "(",
            Token::Close => ")",
            Token::Comma => ",",
            Token::Not => "!",
            Token::Equals => "=",
            Token::DoubleEquals => "==",
            Token::NotEquals => "!=",
            Token::Greater => ">",
            Token::Less => "<",
            Token::Word(word) => word,
        })
    }
}

fn is_symbol(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn scan(text: &str) -> Vec<Token> {
    // The real scanner takes a zero byte for the end.
    let mut rest = text.split('\0').next().unwrap_or_default().trim_start_matches(is_blank);
    let mut tokens = Vec::new();
    while let Some(first) = rest.chars().next() {
        let (token, length) = match first {
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            ',' => (Token::Comma, 1),
            '>' => (Token::Greater, 1),
            '<' => (Token::Less, 1),
            '=' if rest.starts_with("==") => (Token::DoubleEquals, 2),
            '=' => (Token::Equals, 1),
            '!' if rest.starts_with("!=") => (Token::NotEquals, 2),
            '!' => (Token::Not, 1),
            _ => {
                let length = rest.find(|c| is_symbol(c) || is_blank(c)).unwrap_or(rest.len());
                (Token::Word(rest[..length].to_owned()), length)
            }
        };
        tokens.push(token);
        rest = rest[length..].trim_start_matches(is_blank);
    }
    tokens.push(Token::End);
    tokens
}

struct Parser {
    /// Ends with [`Token::End`], which is never passed.
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.at]
    }

    fn next(&mut self) -> Token {
        let token = self.tokens[self.at].clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn requirement(&mut self) -> Result<Requirement, Error> {
        let absent = *self.peek() == Token::Not;
        if absent {
            self.next();
        }
        let key = match self.next() {
            Token::Word(key) => key,
            other => return Err(Error(format!("found '{other}', expected: identifier"))),
        };
        let why = names::qualified_name(&key);
        if !why.is_empty() {
            // The key stands for itself here: no field leads to it.
            let error = field::Error::invalid(&field::Path::root(), key, why.join("; "));
            return Err(Error(error.to_string()));
        }
        if absent {
            return Requirement::new(&key, Operator::DoesNotExist, Vec::new());
        }
        if matches!(self.peek(), Token::End | Token::Comma) {
            return Requirement::new(&key, Operator::Exists, Vec::new());
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => BTreeSet::from([self.value()?]),
        };
        Requirement::new(&key, operator, values.into_iter().collect())
    }

    fn operator(&mut self) -> Result<Operator, Error> {
        Ok(match self.next() {
            Token::Word(word) if word == "in" => Operator::In,
            Token::Word(word) if word == "notin" => Operator::NotIn,
            Token::Equals => Operator::Equals,
            Token::DoubleEquals => Operator::DoubleEquals,
            Token::NotEquals => Operator::NotEquals,
            Token::Greater => Operator::GreaterThan,
            Token::Less => Operator::LessThan,
            other => return Err(Error(format!("found '{other}', expected: {BINARY_OPERATORS}"))),
        })
    }

    fn value(&mut self) -> Result<String, Error> {
        if matches!(self.peek(), Token::End | Token::Comma) {
            return Ok(String::new());
        }
        match self.next() {
            Token::Word(value) => Ok(value),
            other => Err(Error(format!("found '{other}', expected: identifier"))),
        }
    }

    /// `(x,y)`: an empty place between commas is the empty value.
    fn values(&mut self) -> Result<BTreeSet<String>, Error> {
        match self.next() {
            Token::Open => {}
            other => return Err(Error(format!("found '{other}' expected: '('"))),
        }
        match self.peek() {
            Token::Close => {
                self.next();
                return Ok(BTreeSet::from([String::new()]));
            }
            Token::Word(_) | Token::Comma => {}
            other => return Err(Error(format!("found '{other}', expected: ',', ')' or identifier"))),
        }
        let mut values = BTreeSet::new();
        loop {
            match self.next() {
                Token::Word(value) => {
                    values.insert(value);
                    match self.peek() {
                        Token::Comma => {}
                        Token::Close => break,
                        other => return Err(Error(format!("found '{other}', expected: ',' or ')'"))),
                    }
                }
                Token::Comma => {
                    let closes = *self.peek() == Token::Close;
                    if values.is_empty() || closes || *self.peek() == Token::Comma {
                        values.insert(String::new());
                    }
                    if closes {
                        break;
                    }
                }
                other => return Err(Error(format!("found '{other}', expected: ',', or identifier"))),
            }
        }
        self.next();
        Ok(values)
    }
}
