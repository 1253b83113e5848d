//! Base64 as Go reads it: line breaks are skipped, loose bits at the end are forgiven, and an error
//! tells where.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The text in its canonical form.
pub(crate) fn canonical(text: &str) -> Result<String, String> {
    decode(text.as_bytes())
        .map(|bytes| encode(&bytes))
        .map_err(|at| format!("illegal base64 data at input byte {at}"))
}

pub(crate) fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The bytes, or the offset of what is wrong.
fn decode(text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let mut at = 0;
    loop {
        let mut bits = 0u32;
        let mut count = 0;
        while count < 4 {
            let Some(symbol) = text.get(at) else {
                return if count == 0 { Ok(bytes) } else { Err(at - count) };
            };
            at += 1;
            match symbol {
                b'\r' | b'\n' => {}
                b'=' => {
                    let end = padding(text, at, count)?;
                    push(&mut bytes, bits << (6 * (4 - count)), count - 1);
                    return if end < text.len() { Err(end) } else { Ok(bytes) };
                }
                _ => {
                    bits = bits << 6 | value(*symbol).ok_or(at - 1)?;
                    count += 1;
                }
            }
        }
        push(&mut bytes, bits, 3);
    }
}

/// Where the text goes on after padding whose first sign ends at `at`.
fn padding(text: &[u8], at: usize, count: usize) -> Result<usize, usize> {
    let skip = |at: usize| at + text[at..].iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    match count {
        0 | 1 => Err(at - 1),
        2 => {
            let second = skip(at);
            match text.get(second) {
                None => Err(text.len()),
                Some(b'=') => Ok(skip(second + 1)),
                Some(_) => Err(second - 1),
            }
        }
        _ => Ok(skip(at)),
    }
}

fn push(bytes: &mut Vec<u8>, bits: u32, count: usize) {
    bytes.extend_from_slice(&bits.to_be_bytes()[1..=count]);
}

fn value(symbol: u8) -> Option<u32> {
    let value = match symbol {
        b'A'..=b'Z' => symbol - b'A',
        b'a'..=b'z' => symbol - b'a' + 26,
        b'0'..=b'9' => symbol - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_canonical_or_refused_at_the_right_place() {
        let at = |offset: usize| Err(format!("illegal base64 data at input byte {offset}"));
        for (text, expected) in [
            ("", Ok("".to_owned())),
            ("YQ==", Ok("YQ==".to_owned())),
            ("Y\nQ==\n", Ok("YQ==".to_owned())),
            ("YR==", Ok("YQ==".to_owned())),
            ("YWJj", Ok("YWJj".to_owned())),
            ("YWI=", Ok("YWI=".to_owned())),
            ("****", at(0)),
            ("YQ", at(0)),
            ("YWJjY", at(4)),
            ("YQ=", at(3)),
            ("YQ=a", at(2)),
            ("YQ==YQ==", at(4)),
            ("Y===", at(1)),
            ("YW-j", at(2)),
        ] {
            assert_eq!(canonical(text), expected, "{text}");
        }
    }
}
