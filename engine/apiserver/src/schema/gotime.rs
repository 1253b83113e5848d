//! Times as Go's `time.Parse` reads them for the layouts of Kubernetes, with its errors.

use jiff::Timestamp;
use jiff::civil::DateTime;

use crate::context::{rfc3339, rfc3339_micro};

/// The two layouts that objects use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// `metav1.Time`: whole seconds.
    Seconds,
    /// `metav1.MicroTime`: exactly six digits of a second.
    Micro,
}

impl Layout {
    fn pattern(self) -> &'static str {
        match self {
            Layout::Seconds => "2006-01-02T15:04:05Z07:00",
            Layout::Micro => "2006-01-02T15:04:05.000000Z07:00",
        }
    }
}

/// The time in its canonical form; `None` is Go's zero time, which is written as null.
pub(crate) fn canonical(text: &str, layout: Layout) -> Result<Option<String>, String> {
    let mut reader = Reader { text, rest: text, layout };
    let time = reader.read()?;
    if time == zero() {
        return Ok(None);
    }
    Ok(Some(match layout {
        Layout::Seconds => rfc3339(time),
        Layout::Micro => rfc3339_micro(time),
    }))
}

fn zero() -> Timestamp {
    // The first second of year one.
    Timestamp::constant(-62_135_596_800, 0)
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    layout: Layout,
}

impl Reader<'_> {
    fn read(&mut self) -> Result<Timestamp, String> {
        let year = self.year()?;
        self.separator("-")?;
        let month = self.digits("01", 2)?;
        self.in_range(month, 1, 12, "month")?;
        self.separator("-")?;
        let day = self.digits("02", 2)?;
        self.separator("T")?;
        let hour = self.digits("15", 1)?;
        self.in_range(hour, 0, 23, "hour")?;
        self.separator(":")?;
        let minute = self.digits("04", 2)?;
        self.in_range(minute, 0, 59, "minute")?;
        self.separator(":")?;
        let second = self.digits("05", 2)?;
        self.in_range(second, 0, 59, "second")?;
        let nanos = match self.layout {
            Layout::Seconds => self.optional_fraction(),
            Layout::Micro => self.six_digits()?,
        };
        let offset = self.zone()?;
        if !self.rest.is_empty() {
            return Err(format!("parsing time {:?}: extra text: {:?}", self.text, self.rest));
        }
        let civil =
            DateTime::new(year, month as i8, day as i8, hour as i8, minute as i8, second as i8, nanos)
                .map_err(|_| self.out_of_range("day"))?;
        let utc = civil.to_zoned(jiff::tz::TimeZone::UTC).map_err(|_| self.out_of_range("day"))?;
        let seconds = utc.timestamp().as_second() - offset;
        Timestamp::new(seconds, nanos).map_err(|_| self.out_of_range("day"))
    }

    fn cannot(&self, element: &str) -> String {
        format!(
            "parsing time {:?} as {:?}: cannot parse {:?} as {element:?}",
            self.text,
            self.layout.pattern(),
            self.rest
        )
    }

    fn out_of_range(&self, what: &str) -> String {
        format!("parsing time {:?}: {what} out of range", self.text)
    }

    fn in_range(&self, number: u32, least: u32, most: u32, what: &str) -> Result<(), String> {
        if (least..=most).contains(&number) { Ok(()) } else { Err(self.out_of_range(what)) }
    }

    fn year(&mut self) -> Result<i16, String> {
        let year = self.rest.get(..4).and_then(|year| year.parse::<u16>().ok());
        let year = year.filter(|_| self.rest.starts_with(|first: char| first.is_ascii_digit()));
        let year = year.ok_or_else(|| self.cannot("2006"))?;
        self.rest = &self.rest[4..];
        Ok(year as i16)
    }

    fn separator(&mut self, mark: &str) -> Result<(), String> {
        self.rest = self.rest.strip_prefix(mark).ok_or_else(|| self.cannot(mark))?;
        Ok(())
    }

    /// A number of two digits, of which `least` must be there.
    fn digits(&mut self, element: &str, least: usize) -> Result<u32, String> {
        let count = self.rest.bytes().take(2).take_while(u8::is_ascii_digit).count();
        if count < least {
            return Err(self.cannot(element));
        }
        let (number, rest) = self.rest.split_at(count);
        self.rest = rest;
        Ok(number.parse().unwrap_or_default())
    }

    fn optional_fraction(&mut self) -> i32 {
        let Some(rest) = self.rest.strip_prefix(['.', ',']) else { return 0 };
        let count = rest.bytes().take_while(u8::is_ascii_digit).count();
        if count == 0 {
            return 0;
        }
        let (digits, rest) = rest.split_at(count);
        self.rest = rest;
        format!("{:0<9}", &digits[..count.min(9)]).parse().unwrap_or_default()
    }

    fn six_digits(&mut self) -> Result<i32, String> {
        let digits = self.rest.strip_prefix(['.', ',']).and_then(|rest| rest.get(..6));
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let micros: i32 =
            digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| self.cannot(".000000"))?;
        self.rest = &self.rest[7..];
        Ok(micros * 1000)
    }

    /// Seconds east of UTC.
    fn zone(&mut self) -> Result<i64, String> {
        const ELEMENT: &str = "Z07:00";
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let sign = match self.rest.as_bytes().first() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return Err(self.cannot(ELEMENT)),
        };
        let pair = |at: usize| -> Option<u32> {
            let digits = self.rest.get(at..at + 2)?;
            digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
        };
        let separated = self.rest.as_bytes().get(3) == Some(&b':');
        let (Some(hours), Some(minutes), true) = (pair(1), pair(4), separated) else {
            return Err(self.cannot(ELEMENT));
        };
        self.in_range(hours, 0, 24, "time zone offset hour")?;
        self.in_range(minutes, 0, 60, "time zone offset minute")?;
        self.rest = &self.rest[6..];
        Ok(sign * i64::from(hours * 3600 + minutes * 60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(layout: Layout, text: &str, expected: &str) {
        let shown = match canonical(text, layout) {
            Ok(Some(time)) => time,
            Ok(None) => "null".to_owned(),
            Err(error) => error,
        };
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn whole_seconds() {
        let seconds = |text: &str, expected: &str| check(Layout::Seconds, text, expected);
        let cannot = |text: &str, rest: &str, element: &str| {
            let layout = "2006-01-02T15:04:05Z07:00";
            seconds(
                text,
                &format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {element:?}"),
            );
        };
        seconds("2020-01-01T00:00:00.999Z", "2020-01-01T00:00:00Z");
        seconds("2020-01-01T00:00:00,5Z", "2020-01-01T00:00:00Z");
        seconds("2020-01-01T00:00:00+02:00", "2019-12-31T22:00:00Z");
        seconds("2020-01-01T1:00:00Z", "2020-01-01T01:00:00Z");
        seconds("0001-01-01T00:00:00Z", "null");
        cannot("foo", "foo", "2006");
        cannot("", "", "2006");
        cannot("2020-1-01T00:00:00Z", "1-01T00:00:00Z", "01");
        cannot("2020-01-01", "", "T");
        cannot("2020-01-01 00:00:00Z", " 00:00:00Z", "T");
        cannot("2020-01-01T00:00:00", "", "Z07:00");
        cannot("2020-01-01T00:00:00+0200", "+0200", "Z07:00");
        let of =
            |text: &str, what: &str| seconds(text, &format!("parsing time {text:?}: {what} out of range"));
        of("2020-13-01T00:00:00Z", "month");
        of("2020-02-30T00:00:00Z", "day");
        of("2020-01-01T25:00:00Z", "hour");
        of("2020-01-01T00:00:60Z", "second");
        of("2020-01-01T00:00:00+25:00", "time zone offset hour");
        seconds("2020-01-01T00:00:00Zx", r#"parsing time "2020-01-01T00:00:00Zx": extra text: "x""#);
    }

    #[test]
    fn microseconds() {
        let micro = |text: &str, expected: &str| check(Layout::Micro, text, expected);
        let cannot = |text: &str, rest: &str, element: &str| {
            let layout = "2006-01-02T15:04:05.000000Z07:00";
            micro(
                text,
                &format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {element:?}"),
            );
        };
        micro("2020-01-01T00:00:00.123456+02:00", "2019-12-31T22:00:00.123456Z");
        micro("0001-01-01T00:00:00.000000Z", "null");
        cannot("2020-01-01T00:00:00Z", "Z", ".000000");
        cannot("2020-01-01T00:00:00.123Z", ".123Z", ".000000");
        cannot("2020-01-01T00:00:00.1234567Z", "7Z", "Z07:00");
    }
}
