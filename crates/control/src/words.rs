//! What other clusters say, made fit for a log, a terminal or a status: no control characters, and not too long.

/// What is said of an error, in a status or a log line, is at most so long.
pub const SENTENCE: usize = 1024;

/// The text in one line, without anything that a terminal would obey, and cut after `most` characters.
pub fn clean(text: &str, most: usize) -> String {
    let mut cleaned = String::new();
    for (count, letter) in text.chars().enumerate() {
        if count == most {
            cleaned.push('…');
            break;
        }
        cleaned.push(if is_plain(letter) { letter } else { ' ' });
    }
    cleaned.trim().to_owned()
}

/// Whether a character only shows itself: no line ends, escapes or marks that turn the direction of what follows.
fn is_plain(letter: char) -> bool {
    !letter.is_control()
        && !matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_gone_and_the_rest_is_cut() {
        for (said, cleaned) in [
            ("v1.36.3", "v1.36.3"),
            ("v1\u{1b}[2J\u{1b}]0;owned\u{7}.36", "v1 [2J ]0;owned .36"),
            ("one\r\ntwo\u{9b}31m", "one  two 31m"),
            ("\u{202e}evil", "evil"),
            ("größer als 日本", "größer als 日本"),
        ] {
            assert_eq!(clean(said, 64), cleaned);
        }
        let long = clean(&"ä".repeat(4 << 20), 64);
        assert_eq!(long, format!("{}…", "ä".repeat(64)));
    }
}
