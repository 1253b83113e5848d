//! Cron schedules: five fields, or a word that stands for them.

/// The lowest and highest number of a field, and the words that stand for some of them.
struct Bounds {
    least: u64,
    most: u64,
    words: &'static [(&'static str, u64)],
}

const FIELDS: [Bounds; 5] = [
    Bounds { least: 0, most: 59, words: &[] },
    Bounds { least: 0, most: 23, words: &[] },
    Bounds { least: 1, most: 31, words: &[] },
    Bounds { least: 1, most: 12, words: &MONTHS },
    Bounds { least: 0, most: 6, words: &DAYS },
];

const MONTHS: [(&str, u64); 12] = [
    ("jan", 1),
    ("feb", 2),
    ("mar", 3),
    ("apr", 4),
    ("may", 5),
    ("jun", 6),
    ("jul", 7),
    ("aug", 8),
    ("sep", 9),
    ("oct", 10),
    ("nov", 11),
    ("dec", 12),
];

const DAYS: [(&str, u64); 7] =
    [("sun", 0), ("mon", 1), ("tue", 2), ("wed", 3), ("thu", 4), ("fri", 5), ("sat", 6)];

/// What is wrong with a schedule, if anything.
pub(super) fn fault(schedule: &str) -> Option<String> {
    check(schedule).err()
}

/// Whether a time zone of that name is known.
pub(super) fn zone_exists(zone: &str) -> bool {
    // Go's own names for the one zone that is always there.
    matches!(zone, "UTC" | "") || jiff::tz::db().get(zone).is_ok_and(|found| found.iana_name() == Some(zone))
}

fn check(schedule: &str) -> Result<(), String> {
    let rest = if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
        let equals = schedule.find('=').unwrap_or_default();
        let Some(space) = schedule.find(' ') else {
            let why = "invalid schedule format: runtime error: slice bounds out of range [:-1]";
            return Err(why.to_owned());
        };
        let zone = &schedule[equals + 1..space];
        if !zone.is_empty() && zone != "Local" && !zone_exists(zone) {
            return Err(format!("provided bad location {zone}: unknown time zone {zone}"));
        }
        schedule[space..].trim()
    } else {
        schedule
    };
    if rest.starts_with('@') {
        return check_descriptor(rest);
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    for (field, bounds) in fields.iter().zip(&FIELDS) {
        for range in field.split(',').filter(|range| !range.is_empty()) {
            check_range(range, bounds)?;
        }
    }
    Ok(())
}

fn check_descriptor(word: &str) -> Result<(), String> {
    const KNOWN: [&str; 7] =
        ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
    if KNOWN.contains(&word) {
        return Ok(());
    }
    match word.strip_prefix("@every ") {
        Some(duration) => duration_fault(duration)
            .map_or(Ok(()), |why| Err(format!("failed to parse duration {word}: {why}"))),
        None => Err(format!("unrecognized descriptor: {word}")),
    }
}

fn check_range(text: &str, bounds: &Bounds) -> Result<(), String> {
    let parts: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let (start, mut end) = if matches!(ends[0], "*" | "?") {
        (bounds.least, bounds.most)
    } else {
        let start = number_or_word(ends[0], bounds)?;
        match ends[..] {
            [_] => (start, start),
            [_, end] => (start, number_or_word(end, bounds)?),
            _ => return Err(format!("too many hyphens: {text}")),
        }
    };
    let step = match parts[..] {
        [_] => 1,
        [_, step] => {
            if ends.len() == 1 {
                end = bounds.most;
            }
            number(step)?
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    let Bounds { least, most, .. } = bounds;
    if start < *least {
        Err(format!("beginning of range ({start}) below minimum ({least}): {text}"))
    } else if end > *most {
        Err(format!("end of range ({end}) above maximum ({most}): {text}"))
    } else if start > end {
        Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"))
    } else if step == 0 {
        Err(format!("step of range should be a positive number: {text}"))
    } else {
        Ok(())
    }
}

fn number_or_word(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let lower = text.to_lowercase();
    let word = bounds.words.iter().find(|(word, _)| *word == lower);
    word.map_or_else(|| number(text), |(_, value)| Ok(*value))
}

fn number(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let why = if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        "invalid syntax"
    } else {
        match text.parse::<i64>() {
            Ok(value) => {
                let negative = format!("negative number ({value}) not allowed: {text}");
                return u64::try_from(value).map_err(|_| negative);
            }
            Err(_) => "value out of range",
        }
    };
    Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {why}"))
}

/// What is wrong with a duration such as `1h30m`, in Go's words.
fn duration_fault(text: &str) -> Option<String> {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return None;
    }
    let invalid = || Some(format!("time: invalid duration {text:?}"));
    if rest.is_empty() {
        return invalid();
    }
    while !rest.is_empty() {
        let end = rest.find(|one: char| !one.is_ascii_digit() && one != '.').unwrap_or(rest.len());
        let (amount, after) = rest.split_at(end);
        if !amount.bytes().any(|byte| byte.is_ascii_digit()) || amount.matches('.').count() > 1 {
            return invalid();
        }
        let end = after.find(|one: char| one.is_ascii_digit() || one == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        if unit.is_empty() {
            return Some(format!("time: missing unit in duration {text:?}"));
        }
        if !matches!(unit, "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h") {
            return Some(format!("time: unknown unit {unit:?} in duration {text:?}"));
        }
        rest = after;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_schedules_pass() {
        for schedule in [
            "* * * * *",
            "*/5 0-23/2 1,15 jan-DEC ?",
            "@hourly",
            "@every 1h30m",
            "0 0 1 1 0",
            "5/15 * * * mon",
        ] {
            assert_eq!(fault(schedule), None, "{schedule}");
        }
    }

    #[test]
    fn bad_schedules_say_why() {
        let check = |schedule: &str, expected: &str| {
            assert_eq!(fault(schedule).as_deref(), Some(expected), "{schedule}");
        };
        check("error", "expected exactly 5 fields, found 1: [error]");
        check("* * * *", "expected exactly 5 fields, found 4: [* * * *]");
        check("60 * * * *", "end of range (60) above maximum (59): 60");
        check("* * 0 * *", "beginning of range (0) below minimum (1): 0");
        check("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1");
        check("*/0 * * * *", "step of range should be a positive number: */0");
        check("1-2-3 * * * *", "too many hyphens: 1-2-3");
        check("x * * * *", r#"failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax"#);
        check("@never", "unrecognized descriptor: @never");
        check("@every 5", r#"failed to parse duration @every 5: time: missing unit in duration "5""#);
        check("TZ=0", "invalid schedule format: runtime error: slice bounds out of range [:-1]");
    }
}
