//! What is wrong with a text that is not JSON, in the sentences of Go's decoder, which the real
//! server passes on to its clients.

/// Deeper than this and Go gives up.
const MOST_NESTED: usize = 10_000;

/// Reads the text through; the error is Go's sentence.
pub(super) fn check(text: &[u8]) -> Result<(), String> {
    let mut scan = Scan { text, at: 0, depth: 0 };
    scan.value("looking for beginning of value")?;
    scan.space();
    match scan.peek() {
        None => Ok(()),
        Some(_) => Err(scan.unexpected("after top-level value")),
    }
}

struct Scan<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
}

impl Scan<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn unexpected(&self, context: &str) -> String {
        let Some(byte) = self.peek() else { return "unexpected end of JSON input".to_owned() };
        let shown = match byte {
            b'\'' => r"'\''".to_owned(),
            b'"' => r#"'"'"#.to_owned(),
            b'\n' => r"'\n'".to_owned(),
            b'\r' => r"'\r'".to_owned(),
            b'\t' => r"'\t'".to_owned(),
            b'\\' => r"'\\'".to_owned(),
            0x20..=0x7e => format!("'{}'", char::from(byte)),
            0x00..=0x1f | 0x7f => format!(r"'\x{byte:02x}'"),
            // Go quotes the byte as if it were a character.
            0x80..=0xa0 | 0xad => format!(r"'\u{byte:04x}'"),
            _ => format!("'{}'", char::from(byte)),
        };
        format!("invalid character {shown} {context}")
    }

    fn value(&mut self, context: &str) -> Result<(), String> {
        self.space();
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => self.string(),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.unexpected(context)),
        }
    }

    fn nested(&mut self, inner: fn(&mut Self) -> Result<(), String>) -> Result<(), String> {
        self.depth += 1;
        if self.depth > MOST_NESTED {
            return Err("exceeded max depth".to_owned());
        }
        self.at += 1;
        inner(self)?;
        self.depth -= 1;
        Ok(())
    }

    fn object(&mut self) -> Result<(), String> {
        let mut first = true;
        loop {
            self.space();
            match self.peek() {
                Some(b'}') if first => break,
                Some(b'"') => self.string()?,
                _ => return Err(self.unexpected("looking for beginning of object key string")),
            }
            first = false;
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.unexpected("after object key"));
            }
            self.at += 1;
            self.value("looking for beginning of value")?;
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return Err(self.unexpected("after object key:value pair")),
            }
        }
        self.at += 1;
        Ok(())
    }

    fn array(&mut self) -> Result<(), String> {
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.value("looking for beginning of value")?;
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return Err(self.unexpected("after array element")),
            }
        }
        self.at += 1;
        Ok(())
    }

    fn string(&mut self) -> Result<(), String> {
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    self.at += 1;
                    match self.peek() {
                        Some(b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => self.at += 1,
                        Some(b'u') => {
                            self.at += 1;
                            for _ in 0..4 {
                                if !self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                                    return Err(self.unexpected(r"in \u hexadecimal character escape"));
                                }
                                self.at += 1;
                            }
                        }
                        _ => return Err(self.unexpected("in string escape code")),
                    }
                }
                Some(0x20..) => self.at += 1,
                _ => return Err(self.unexpected("in string literal")),
            }
        }
        self.at += 1;
        Ok(())
    }

    fn literal(&mut self, word: &str) -> Result<(), String> {
        for expected in word.bytes() {
            if self.peek() != Some(expected) {
                let context = format!("in literal {word} (expecting '{}')", char::from(expected));
                return Err(self.unexpected(&context));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), String> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.unexpected("in numeric literal")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                return Err(self.unexpected("after decimal point in numeric literal"));
            }
            self.digits();
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                return Err(self.unexpected("in exponent of numeric literal"));
            }
            self.digits();
        }
        Ok(())
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }
}
