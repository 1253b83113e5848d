//! What kubectl prints, with placeholders where two servers may differ: addresses, uids, times and ages,
//! resource versions, cluster IPs, node ports, suffixes of generated names, and the width of columns.

use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

use crate::known;
use crate::normal::Normaliser;

/// Patterns and what takes their place, in this order.
static REPLACED: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (r"(?m)^[EWI]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", "<log> "),
        (r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d ", "<time> "),
        (r"(resourceVersion: |Resource Version: +)\W?\d+\W?", "$1<rv>"),
        (r#"(?P<before>resourceVersion=)\d+"#, "${before}<rv>"),
        (r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "<time>"),
        (r"/tmp/(LIVE|MERGED)-\d+/", "<$1>/"),
        (r"\t\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}", "<time>"),
        (r"kubectl-edit-\w+\.yaml", "<edited file>"),
        (r"\b10\.\d+\.\d+\.\d+\b", "<cluster-ip>"),
        // Where it listens, or what it advertises for that.
        (r"(?:127\.0|172\.18)\.0\.1:\d+", "<address>"),
        (r"(nodePort\W+|NodePort: .* |:)3[0-2]\d{3}\b", "$1<node-port>"),
        (r"(?m)( {2,})(?:(?:\d+m)?\d+s|\d{1,2}m)( ago)?( |$)", "$1<age>$3"),
        (r"age=\d+[smh]", "age=<age>"),
        (r"(\S) {2,}", "$1  "),
    ]
    .map(|(pattern, instead)| {
        (Regex::new(pattern).expect("the patterns of this file are well formed"), instead)
    })
    .into()
});

/// The text with placeholders.
pub fn normalise(text: &str, server: &str, folder: &Path) -> String {
    let text = text.replace(server, "<server>").replace(&folder.display().to_string(), "<folder>");
    let mut text = Normaliser::default().text(&text);
    for (pattern, instead) in REPLACED.iter() {
        text = pattern.replace_all(&text, *instead).into_owned();
    }
    for known in known::KNOWN_TEXTS {
        text = text.replace(known.koinon, known.stock);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders() {
        let check = |text: &str, expected: &str| {
            assert_eq!(normalise(text, "https://127.0.0.1:7", Path::new("/f")), expected);
        };
        check("NAME   DATA   AGE\none    1      12s", "NAME  DATA  AGE\none  1  <age>");
        check("NAME   DATA   AGE\none    1      2m", "NAME  DATA  AGE\none  1  <age>");
        check("NAME   DATA   AGE\none    1      2m3s ago", "NAME  DATA  AGE\none  1  <age>");
        check("  resourceVersion: \"12\"\n", "  resourceVersion: <rv>\n");
        check("at https://127.0.0.1:7/api", "at <server>/api");
        check("cpu: 100m", "cpu: 100m");
        check("80:31234/TCP", "80:<node-port>/TCP");
        check("Created:  Sun, 15 Nov 2026 22:49:56 +0000", "Created:  <time>");
    }
}
