//! Reading objects the way Go's zero values let printers read them: what is absent is empty.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// What Go's zero `time.Time` is in seconds since 1970.
const ZERO_TIME: i64 = -62_135_596_800;

static NULL: Value = Value::Null;

/// Short ways into an object, by dotted paths of plain field names.
pub(super) trait Read {
    /// The value at the path; null where it is absent.
    fn at(&self, path: &str) -> &Value;

    fn has(&self, path: &str) -> bool {
        !self.at(path).is_null()
    }

    fn text(&self, path: &str) -> &str {
        self.at(path).as_str().unwrap_or_default()
    }

    /// The text, or what stands for an empty one.
    fn text_or<'a>(&'a self, path: &str, empty: &'a str) -> &'a str {
        match self.text(path) {
            "" => empty,
            text => text,
        }
    }

    fn int(&self, path: &str) -> i64 {
        self.at(path).as_i64().unwrap_or_default()
    }

    fn flag(&self, path: &str) -> bool {
        self.at(path).as_bool().unwrap_or_default()
    }

    fn list(&self, path: &str) -> &[Value] {
        self.at(path).as_array().map(Vec::as_slice).unwrap_or_default()
    }

    /// How many entries a map has.
    fn entries(&self, path: &str) -> usize {
        self.at(path).as_object().map_or(0, serde_json::Map::len)
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.at("metadata.annotations").get(key)?.as_str()
    }

    /// The status of the first condition of that type.
    fn condition(&self, kind: &str) -> Option<&str> {
        let found = self.list("status.conditions").iter().find(|condition| condition.text("type") == kind);
        found.map(|condition| condition.text("status"))
    }
}

impl Read for Value {
    fn at(&self, path: &str) -> &Value {
        path.split('.').fold(self, |value, name| value.get(name).unwrap_or(&NULL))
    }
}

/// A quantity as it was stored, which is its canonical form; an absent one is zero.
pub(super) fn quantity(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => "0".to_owned(),
    }
}

/// The texts of a list, with commas between.
pub(super) fn joined(items: &[Value]) -> String {
    items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
}

/// How long ago the time at a path was.
pub(super) fn since(value: &Value, now: Timestamp) -> String {
    match time(value) {
        None => "<unknown>".to_owned(),
        Some(then) => human(now.duration_since(then)),
    }
}

/// How old an object is.
pub(super) fn age(object: &Value, now: Timestamp) -> String {
    since(object.at("metadata.creationTimestamp"), now)
}

/// A time that is set: Go's zero time counts as absent.
pub(super) fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse::<Timestamp>().ok().filter(|time| time.as_second() != ZERO_TIME)
}

/// A duration in two or three significant figures: `5s`, `3m12s`, `26h`, `2d3h`, `1y20d`.
pub fn human(duration: SignedDuration) -> String {
    // Go's durations end at 292 years.
    let seconds = duration.as_secs().min(i64::MAX / 1_000_000_000);
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    let parts = |large: i64, unit: char, small: i64, rest: char| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{rest}"),
    };
    match seconds {
        // Clocks may differ a little: a second in the future is now.
        ..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => parts(minutes, 'm', seconds % 60, 's'),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => parts(hours, 'h', minutes % 60, 'm'),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 192 => parts(days, 'd', hours % 24, 'h'),
        _ if days < 730 => format!("{days}d"),
        _ if days < 2920 => parts(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_like_the_real_servers() {
        const MINUTE: i64 = 60;
        const HOUR: i64 = 60 * MINUTE;
        const DAY: i64 = 24 * HOUR;
        const YEAR: i64 = 365 * DAY;
        for (seconds, expected) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (121, "2m1s"),
            (10 * MINUTE - 1, "9m59s"),
            (10 * MINUTE + 59, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + MINUTE, "3h1m"),
            (8 * HOUR - 1, "7h59m"),
            (8 * HOUR, "8h"),
            (2 * DAY - 1, "47h"),
            (2 * DAY, "2d"),
            (2 * DAY + HOUR, "2d1h"),
            (8 * DAY - 1, "7d23h"),
            (8 * DAY, "8d"),
            (2 * YEAR - 1, "729d"),
            (2 * YEAR, "2y"),
            (2 * YEAR + DAY, "2y1d"),
            (8 * YEAR - 1, "7y364d"),
            (8 * YEAR, "8y"),
            (1000 * YEAR, "292y"),
        ] {
            assert_eq!(human(SignedDuration::from_secs(seconds)), expected, "{seconds}");
        }
    }
}
