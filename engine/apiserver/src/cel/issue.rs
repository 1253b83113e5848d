//! What is wrong with the text of an expression, shown the way cel-go shows it.

/// A complaint about a place in the source, counted in characters, or about the whole of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Issue {
    at: Option<usize>,
    message: String,
}

impl Issue {
    pub(super) fn new(at: usize, message: impl Into<String>) -> Self {
        Issue { at: Some(at), message: message.into() }
    }

    pub(super) fn nowhere(message: impl Into<String>) -> Self {
        Issue { at: None, message: message.into() }
    }

    /// The complaint with the line it is about, and a mark below the place.
    fn show(&self, source: &str) -> String {
        let Some(at) = self.at else { return format!("ERROR: <input>:-1:0: {}", self.message) };
        let (mut line, mut start) = (1, 0);
        for (index, letter) in source.chars().enumerate().take(at) {
            if letter == '\n' {
                line += 1;
                start = index + 1;
            }
        }
        let column = at - start;
        let text: String = source
            .chars()
            .skip(start)
            .take_while(|letter| *letter != '\n')
            .collect::<String>()
            .replace('\t', " ");
        let mut mark = String::new();
        let mut letters = text.chars();
        for _ in 0..column {
            match letters.next() {
                Some(letter) => mark.push(if letter.is_ascii() { '.' } else { '．' }),
                None => break,
            }
        }
        mark.push(if letters.next().is_none_or(|letter| letter.is_ascii()) { '^' } else { '＾' });
        format!("ERROR: <input>:{line}:{}: {}\n | {text}\n | {mark}", column + 1, self.message)
    }
}

/// All complaints about a source, in its order.
pub(super) fn show(issues: &[Issue], source: &str) -> String {
    let mut sorted: Vec<&Issue> = issues.iter().collect();
    sorted.sort_by_key(|issue| issue.at);
    sorted.iter().map(|issue| issue.show(source)).collect::<Vec<_>>().join("\n")
}
