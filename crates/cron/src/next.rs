//! The next time of a schedule, found as robfig/cron finds it: also where clocks are put forward or back.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::Calendar;

const HOUR: i64 = 3600;
const MINUTE: i64 = 60;
/// A schedule without a time within so many years has none.
const YEARS: i16 = 5;

/// The first time after `time` that the calendar allows.
pub(crate) fn next(calendar: &Calendar, zone: &TimeZone, time: Timestamp) -> Option<Timestamp> {
    // Times before 1970 are cut to their second downwards, too.
    let mut now = time.as_nanosecond().div_euclid(1_000_000_000) as i64 + 1;
    let limit = civil(zone, now)?.year() + YEARS;
    // Whether a field has been counted up, so that all smaller ones begin anew.
    let mut moved = false;
    loop {
        if civil(zone, now)?.year() > limit {
            return None;
        }
        match step(calendar, zone, &mut now, &mut moved)? {
            Found::Match => return Timestamp::from_second(now).ok(),
            Found::Wrapped => {}
        }
    }
}

enum Found {
    Match,
    /// A larger field has changed, so all have to be looked at again.
    Wrapped,
}

fn step(calendar: &Calendar, zone: &TimeZone, now: &mut i64, moved: &mut bool) -> Option<Found> {
    let at = |now: i64| civil(zone, now);
    while !calendar.months.has(at(*now)?.month()) {
        let date = at(*now)?;
        let first = if *moved { date } else { midnight(date.first_of_month()) };
        *moved = true;
        *now = instant(zone, add_month(first)?);
        if at(*now)?.month() == 1 {
            return Some(Found::Wrapped);
        }
    }
    while !is_day(calendar, at(*now)?) {
        let date = at(*now)?;
        let start = if *moved { date } else { midnight(date) };
        *moved = true;
        *now = instant(zone, start.checked_add(jiff::Span::new().days(1)).ok()?);
        // Where clocks change at midnight, the day may begin at one, or still be the last hour of the day before.
        match i64::from(at(*now)?.hour()) {
            0 => {}
            hour @ 13.. => *now += (24 - hour) * HOUR,
            hour => *now -= hour * HOUR,
        }
        if at(*now)?.day() == 1 {
            return Some(Found::Wrapped);
        }
    }
    while !calendar.hours.has(at(*now)?.hour()) {
        if !*moved {
            *moved = true;
            let date = at(*now)?;
            *now = instant(zone, midnight(date).with().hour(date.hour()).build().ok()?);
        }
        *now += HOUR;
        if at(*now)?.hour() == 0 {
            return Some(Found::Wrapped);
        }
    }
    while !calendar.minutes.has(at(*now)?.minute()) {
        if !*moved {
            *moved = true;
            *now -= now.rem_euclid(MINUTE);
        }
        *now += MINUTE;
        if at(*now)?.minute() == 0 {
            return Some(Found::Wrapped);
        }
    }
    while at(*now)?.second() != 0 {
        *moved = true;
        *now += 1;
        if at(*now)?.second() == 0 {
            return Some(Found::Wrapped);
        }
    }
    Some(Found::Match)
}

/// Both fields for days restrict a day; where neither is a star, one of them is enough.
fn is_day(calendar: &Calendar, date: DateTime) -> bool {
    let (day, weekday) = (calendar.days.has(date.day()), calendar.weekdays.has(weekday(date)));
    if calendar.days.star || calendar.weekdays.star { day && weekday } else { day || weekday }
}

fn weekday(date: DateTime) -> i8 {
    date.weekday().to_sunday_zero_offset()
}

fn midnight(date: DateTime) -> DateTime {
    date.date().at(0, 0, 0, 0)
}

fn add_month(date: DateTime) -> Option<DateTime> {
    date.checked_add(jiff::Span::new().months(1)).ok()
}

fn civil(zone: &TimeZone, second: i64) -> Option<DateTime> {
    Some(zone.to_datetime(Timestamp::from_second(second).ok()?))
}

/// The second at which clocks show a time. Where they show it twice or never, Go's choice: the offset in force
/// at the time that the offset in force at that reading of UTC leads to.
fn instant(zone: &TimeZone, date: DateTime) -> i64 {
    let Ok(reading) = TimeZone::UTC.to_timestamp(date) else { return i64::MAX };
    let offset = |second: i64| {
        Timestamp::from_second(second).map_or(0, |time| i64::from(zone.to_offset(time).seconds()))
    };
    match offset(reading.as_second()) {
        0 => reading.as_second(),
        guess => reading.as_second() - offset(reading.as_second() - guess),
    }
}

#[cfg(test)]
mod tests {
    use crate::Schedule;

    /// Times as Go writes them, such as `2012-07-09T15:00:00+00:00`, with zone where a schedule names one.
    #[track_caller]
    fn check(after: &str, schedule: &str, expected: &str) {
        let parsed = Schedule::parse(schedule).unwrap();
        let next = parsed.next(after.parse().unwrap()).map(|next| next.to_string());
        let expected = expected.parse::<jiff::Timestamp>().ok().map(|time| time.to_string());
        assert_eq!(next, expected, "after {after}: {schedule}");
    }

    #[test]
    fn times_follow_the_fields() {
        // Simple cases.
        check("2012-07-09T14:45:00Z", "0/15 * * * *", "2012-07-09T15:00:00Z");
        check("2012-07-09T14:59:00Z", "0/15 * * * *", "2012-07-09T15:00:00Z");
        check("2012-07-09T14:59:59Z", "0/15 * * * *", "2012-07-09T15:00:00Z");
        check("2012-07-09T14:59:59.5Z", "0/15 * * * *", "2012-07-09T15:00:00Z");
        check("2012-07-09T15:00:00Z", "0/15 * * * *", "2012-07-09T15:15:00Z");
        // Over the end of an hour, a day, a month and a year.
        check("2012-07-09T15:45:00Z", "20-35/15 * * * *", "2012-07-09T16:20:00Z");
        check("2012-07-09T23:46:00Z", "*/15 * * * *", "2012-07-10T00:00:00Z");
        check("2012-07-09T23:45:00Z", "20-35/15 * * * *", "2012-07-10T00:20:00Z");
        check("2012-07-09T23:35:51Z", "20-35/15 1/2 * * *", "2012-07-10T01:20:00Z");
        check("2012-07-09T23:35:51Z", "20-35/15 1/2 */2 * *", "2012-07-11T01:20:00Z");
        check("2012-07-09T23:35:51Z", "20-35/15 * 9-20 * *", "2012-07-10T00:20:00Z");
        check("2012-07-09T23:35:51Z", "20-35/15 * 9-20 Jul *", "2012-07-10T00:20:00Z");
        check("2012-07-09T23:35:00Z", "0 0 9 Apr-Oct ?", "2012-08-09T00:00:00Z");
        check("2012-07-09T23:35:00Z", "0 0 */5 Apr,Aug,Oct Mon", "2012-08-01T00:00:00Z");
        check("2012-07-09T23:35:00Z", "0 0 */5 Oct Mon", "2012-10-01T00:00:00Z");
        check("2012-07-09T23:35:00Z", "0 0 * Feb Mon", "2013-02-04T00:00:00Z");
        check("2012-07-09T23:35:00Z", "0 0 * Feb Mon/2", "2013-02-01T00:00:00Z");
        check("2012-12-31T23:59:45Z", "* * * * *", "2013-01-01T00:00:00Z");
        // Leap years, and dates that are none.
        check("2012-07-09T23:35:00Z", "0 0 29 Feb ?", "2016-02-29T00:00:00Z");
        check("2012-07-09T23:35:00Z", "0 0 30 Feb ?", "never");
        check("2012-07-09T23:35:00Z", "0 0 31 Apr ?", "never");
        // Either field for days is enough, unless one is a star.
        check("2012-07-09T00:00:00Z", "0 0 15 * Fri", "2012-07-13T00:00:00Z");
        check("2012-07-09T00:00:00Z", "0 0 15 * *", "2012-07-15T00:00:00Z");
        // Words.
        check("2012-07-09T14:45:00Z", "@hourly", "2012-07-09T15:00:00Z");
        check("2012-07-09T14:45:00Z", "@weekly", "2012-07-15T00:00:00Z");
        check("2012-07-09T14:45:00Z", "@every 90s", "2012-07-09T14:46:30Z");
        check("2012-07-09T14:45:00.7Z", "@every 5ms", "2012-07-09T14:45:01Z");
    }

    #[test]
    fn clocks_that_change_skip_and_repeat_as_in_a_stock_cluster() {
        let york = |after: &str, fields: &str, expected: &str| {
            check(after, &format!("TZ=America/New_York {fields}"), expected);
        };
        // Clocks are put forward from two to three on March 11: half past two is not that day.
        york("2012-03-11T00:00:00-05:00", "30 2 11 Mar ?", "2013-03-11T02:30:00-04:00");
        york("2012-03-11T00:00:00-05:00", "0 * * * ?", "2012-03-11T01:00:00-05:00");
        york("2012-03-11T01:00:00-05:00", "0 * * * ?", "2012-03-11T03:00:00-04:00");
        york("2012-03-11T03:00:00-04:00", "0 * * * ?", "2012-03-11T04:00:00-04:00");
        york("2012-03-11T00:00:00-05:00", "0 2 * * ?", "2012-03-12T02:00:00-04:00");
        // They are put back from two to one on November 4: one o'clock is twice that day.
        york("2012-11-04T00:00:00-04:00", "30 2 04 Nov ?", "2012-11-04T02:30:00-05:00");
        york("2012-11-04T01:45:00-04:00", "30 1 04 Nov ?", "2012-11-04T01:30:00-05:00");
        york("2012-11-04T00:00:00-04:00", "0 * * * ?", "2012-11-04T01:00:00-04:00");
        york("2012-11-04T01:00:00-04:00", "0 * * * ?", "2012-11-04T01:00:00-05:00");
        york("2012-11-04T01:00:00-05:00", "0 * * * ?", "2012-11-04T02:00:00-05:00");
        // A day without midnight begins at one.
        let paulo = "TZ=America/Sao_Paulo 0 9 10 * *";
        check("2018-11-03T05:00:00-03:00", paulo, "2018-11-10T09:00:00-02:00");
        check("2018-02-17T05:00:00-02:00", "TZ=America/Sao_Paulo 0 9 22 * *", "2018-02-22T09:00:00-03:00");
    }

    #[test]
    fn a_zone_can_be_given_beside_the_schedule() {
        let berlin = crate::zone("Europe/Berlin").unwrap();
        let schedule = Schedule::parse("0 7 * * *").unwrap().in_zone(berlin);
        let next = schedule.next("2026-07-01T00:00:00Z".parse().unwrap()).unwrap();
        assert_eq!(next.to_string(), "2026-07-01T05:00:00Z");
    }
}
