//! The words of an expression.

use super::issue::Issue;

/// A word and where it starts.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token {
    pub(super) at: usize,
    pub(super) word: Word,
    /// How it was written.
    pub(super) text: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Word {
    Ident,
    Int(Option<i64>),
    Uint(Option<u64>),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
    /// An operator, a bracket or one of the words `in`, `true`, `false` and `null`.
    Sign,
    End,
}

const SIGNS: [&str; 26] = [
    "==", "!=", "<=", ">=", "&&", "||", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":", "+", "*",
    "/", "%", "<", ">", "=", "&",
];
const KEYWORDS: [&str; 4] = ["in", "true", "false", "null"];

/// Splits a source into words, the last of which is its end. What is no word is told, and left out.
pub(super) fn tokens(source: &str, issues: &mut Vec<Issue>) -> Vec<Token> {
    let letters: Vec<char> = source.chars().collect();
    let mut lexer = Lexer { letters: &letters, at: 0 };
    let mut found = Vec::new();
    loop {
        lexer.skip_blanks();
        let at = lexer.at;
        let word = lexer.word();
        let text: String = letters[at..lexer.at].iter().collect();
        match word {
            Some(word) => {
                let end = word == Word::End;
                found.push(Token { at, word, text });
                if end {
                    return found;
                }
            }
            None => {
                issues.push(Issue::new(at, format!("Syntax error: token recognition error at: '{text}'")))
            }
        }
    }
}

struct Lexer<'a> {
    letters: &'a [char],
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> char {
        self.letters.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn skip_blanks(&mut self) {
        loop {
            match self.peek(0) {
                ' ' | '\t' | '\r' | '\n' | '\u{c}' => self.at += 1,
                '/' if self.peek(1) == '/' => {
                    while self.at < self.letters.len() && self.peek(0) != '\n' {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    /// The next word; `None` after passing letters that are none, up to the one that cannot be.
    fn word(&mut self) -> Option<Word> {
        if self.at >= self.letters.len() {
            return Some(Word::End);
        }
        if let Some((prefix, raw, bytes)) = self.string_prefix() {
            return self.string(prefix, raw, bytes);
        }
        let letter = self.peek(0);
        if letter.is_ascii_digit() || (letter == '.' && self.peek(1).is_ascii_digit()) {
            return Some(self.number());
        }
        if letter.is_ascii_alphabetic() || letter == '_' {
            let start = self.at;
            while self.peek(0).is_ascii_alphanumeric() || self.peek(0) == '_' {
                self.at += 1;
            }
            let name: String = self.letters[start..self.at].iter().collect();
            return Some(if KEYWORDS.contains(&name.as_str()) { Word::Sign } else { Word::Ident });
        }
        let sign = SIGNS.iter().find(|sign| sign.chars().enumerate().all(|(at, one)| self.peek(at) == one));
        match sign {
            // Alone they are the start of `==` and `&&` and mean nothing.
            Some(&"=" | &"&") => {
                self.pass(2);
                None
            }
            None => {
                self.pass(1);
                None
            }
            Some(sign) => {
                self.pass(sign.len());
                Some(Word::Sign)
            }
        }
    }

    fn pass(&mut self, count: usize) {
        self.at = (self.at + count).min(self.letters.len());
    }

    fn number(&mut self) -> Word {
        let start = self.at;
        let mut double = false;
        if self.peek(0) == '0' && self.peek(1) == 'x' && self.peek(2).is_ascii_hexdigit() {
            self.at += 2;
            self.digits(16);
        } else {
            self.digits(10);
            if self.peek(0) == '.' && self.peek(1).is_ascii_digit() {
                double = true;
                self.at += 1;
                self.digits(10);
            }
            let sign = usize::from(matches!(self.peek(1), '+' | '-'));
            if matches!(self.peek(0), 'e' | 'E') && self.peek(1 + sign).is_ascii_digit() {
                double = true;
                self.at += 1 + sign;
                self.digits(10);
            }
        }
        let text: String = self.letters[start..self.at].iter().collect();
        if double {
            return Word::Double(text.parse().unwrap_or(f64::INFINITY));
        }
        let (digits, radix) = text.strip_prefix("0x").map_or((text.as_str(), 10), |hex| (hex, 16));
        let value = u64::from_str_radix(digits, radix).ok();
        if matches!(self.peek(0), 'u' | 'U') {
            self.at += 1;
            return Word::Uint(value);
        }
        // The least integer has no positive twin, so its sign must be seen with it.
        let negative = start > 0 && self.letters[start - 1] == '-';
        Word::Int(match value {
            Some(value) if value == 1 << 63 && negative => Some(i64::MIN),
            Some(value) => i64::try_from(value).ok(),
            None => None,
        })
    }

    fn digits(&mut self, radix: u32) {
        while self.peek(0).is_digit(radix) {
            self.at += 1;
        }
    }

    /// How many letters stand before the quote of a string, and what they mean.
    fn string_prefix(&self) -> Option<(usize, bool, bool)> {
        let (mut raw, mut bytes) = (false, false);
        for ahead in 0..3 {
            match self.peek(ahead) {
                '\'' | '"' => return Some((ahead, raw, bytes)),
                'r' | 'R' if !raw => raw = true,
                // A raw string of bytes is written `br"…"`, never `rb"…"`.
                'b' | 'B' if !bytes && !raw => bytes = true,
                _ => return None,
            }
        }
        None
    }

    fn string(&mut self, prefix: usize, raw: bool, bytes: bool) -> Option<Word> {
        self.at += prefix;
        let quote = self.peek(0);
        let triple = self.peek(1) == quote && self.peek(2) == quote;
        let width = if triple { 3 } else { 1 };
        self.at += width;
        let mut value: Vec<u8> = Vec::new();
        loop {
            if self.at >= self.letters.len() {
                return None;
            }
            let letter = self.peek(0);
            if (0..width).all(|ahead| self.peek(ahead) == quote) {
                self.at += width;
                break;
            }
            if !triple && matches!(letter, '\n' | '\r') {
                self.pass(1);
                return None;
            }
            if letter == '\\' && !raw {
                self.escape(bytes, &mut value)?;
            } else {
                value.extend(letter.encode_utf8(&mut [0; 4]).bytes());
                self.at += 1;
            }
        }
        Some(match bytes {
            true => Word::Bytes(value),
            false => Word::String(String::from_utf8_lossy(&value).into_owned()),
        })
    }

    fn escape(&mut self, bytes: bool, value: &mut Vec<u8>) -> Option<()> {
        let plain = match self.peek(1) {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            letter @ ('\\' | '?' | '"' | '\'' | '`') => letter as u8,
            'x' | 'X' => return self.code(2, 2, 16, bytes, value),
            'u' => return self.code(2, 4, 16, false, value).filter(|()| !bytes),
            'U' => return self.code(2, 8, 16, false, value).filter(|()| !bytes),
            '0'..='3' => return self.code(1, 3, 8, bytes, value),
            _ => {
                self.pass(2);
                return None;
            }
        };
        value.push(plain);
        self.at += 2;
        Some(())
    }

    fn code(
        &mut self,
        skip: usize,
        width: usize,
        radix: u32,
        bytes: bool,
        value: &mut Vec<u8>,
    ) -> Option<()> {
        let mut code = 0;
        for ahead in 0..width {
            let Some(digit) = self.peek(skip + ahead).to_digit(radix) else {
                self.pass(skip + ahead + 1);
                return None;
            };
            code = code * radix + digit;
        }
        match bytes {
            true => value.push(u8::try_from(code).ok()?),
            false => value.extend(char::from_u32(code)?.encode_utf8(&mut [0; 4]).bytes()),
        }
        self.at += skip + width;
        Some(())
    }
}
