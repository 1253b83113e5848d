//! Differences between two texts and between two JSON values, for people.

use serde_json::Value;

/// The lines of both texts, those of the first alone marked `-` and those of the second alone `+`;
/// equal stretches are shortened to three lines of context.
pub fn lines(stock: &str, subject: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (stock.lines().collect(), subject.lines().collect());
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let mut marked: Vec<(char, &str)> = old[..head].iter().map(|line| (' ', *line)).collect();
    marked.extend(middle(&old[head..old.len() - tail], &new[head..new.len() - tail]));
    marked.extend(old[old.len() - tail..].iter().map(|line| (' ', *line)));
    shorten(&marked)
}

/// The place where two values first differ, as a JSON pointer.
pub fn first(stock: &Value, subject: &Value) -> Option<String> {
    match (stock, subject) {
        _ if stock == subject => None,
        (Value::Object(a), Value::Object(b)) => {
            a.keys().chain(b.keys()).find_map(|key| match (a.get(key), b.get(key)) {
                (Some(x), Some(y)) => first(x, y).map(|rest| format!("/{key}{rest}")),
                _ => Some(format!("/{key}")),
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().find_map(|(i, (x, y))| first(x, y).map(|rest| format!("/{i}{rest}")))
        }
        _ => Some(String::new()),
    }
}

/// Longest common subsequence of the part that differs; large parts are shown as replaced as a whole.
fn middle<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(char, &'a str)> {
    if old.len() * new.len() > 4_000_000 {
        let removed = old.iter().map(|line| ('-', *line));
        return removed.chain(new.iter().map(|line| ('+', *line))).collect();
    }
    let width = new.len() + 1;
    let mut common = vec![0u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = if old[i] == new[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j, mut marked) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            marked.push((' ', old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len()
            || (i < old.len() && common[(i + 1) * width + j] >= common[i * width + j + 1])
        {
            marked.push(('-', old[i]));
            i += 1;
        } else {
            marked.push(('+', new[j]));
            j += 1;
        }
    }
    marked
}

fn shorten(marked: &[(char, &str)]) -> String {
    let near = |at: usize| {
        let (from, to) = (at.saturating_sub(3), (at + 4).min(marked.len()));
        marked[from..to].iter().any(|(mark, _)| *mark != ' ')
    };
    let mut text = String::new();
    let mut skipped = false;
    for (at, (mark, line)) in marked.iter().enumerate() {
        if near(at) {
            text += &format!("{mark} {line}\n");
        } else if !skipped {
            text += "  ...\n";
        }
        skipped = !near(at);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn shows_what_changed_with_context() {
        let old = "a\nb\nc\nd\ne\nf\ng";
        let new = "a\nb\nc\nd\nE\nf\ng\nh";
        assert_eq!(lines(old, new), "  ...\n  b\n  c\n  d\n- e\n+ E\n  f\n  g\n+ h\n");
        assert_eq!(lines("same", "same"), "  ...\n");
    }

    #[test]
    fn points_at_the_first_difference() {
        let check =
            |a: Value, b: Value, expected: Option<&str>| assert_eq!(first(&a, &b).as_deref(), expected);
        check(json!({"a": [1, {"b": 2}]}), json!({"a": [1, {"b": 3}]}), Some("/a/1/b"));
        check(json!({"a": 1}), json!({"a": 1, "c": 2}), Some("/c"));
        check(json!([1]), json!([1, 2]), Some(""));
        check(json!({"a": null}), json!({"a": null}), None);
    }
}
