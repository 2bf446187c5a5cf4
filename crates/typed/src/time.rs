//! Dates and times from the ISO 8601 forms that Spark reads, and between units.

use arrow_schema::TimeUnit;

use crate::error::{Bad, Filled};

/// In seconds.
pub(crate) const DAY: i64 = 86_400;

/// A point in time, or a local one where the text names no zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Since 1970-01-01T00:00:00, in UTC if the text names a zone.
    seconds: i64,
    /// 0 to 999,999,999, counted forward.
    nanoseconds: u32,
    /// Days since 1970-01-01 of the date as it is written.
    pub(crate) day: i32,
    has_zone: bool,
}

impl Moment {
    /// Reads `2026-11-23`, `2026-11-23T09:52`, `2026-11-23 09:52:20.123456789+01:00` and what lies between: one or two digits
    /// for all but the year, up to nine for the fraction; the zone is `Z`, `UTC`, `GMT`, or an offset of hours, minutes and
    /// seconds. A time without zone is taken as UTC. Named regions are not read.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut scan = Scan(text.trim_ascii().as_bytes());
        let day = scan.date()?;
        let midnight = i64::from(day) * DAY;
        if scan.0.is_empty() {
            return Some(Self {
                seconds: midnight,
                nanoseconds: 0,
                day,
                has_zone: false,
            });
        }
        scan.one_of(b"T ")?;
        let (time, nanoseconds) = scan.time()?;
        let offset = scan.zone()?;
        Some(Self {
            seconds: midnight + time - offset.unwrap_or(0),
            nanoseconds,
            day,
            has_zone: offset.is_some(),
        })
    }

    /// Reads a value of a column of timestamps. One without a zone holds local times, which a text with a zone is not: to Spark,
    /// too, it is no `timestamp_ntz`.
    pub(crate) fn timestamp(text: &str, unit: TimeUnit, is_local: bool) -> Filled<i64> {
        let moment = Self::parse(text).filter(|moment| !(is_local && moment.has_zone));
        moment
            .and_then(|moment| moment.since_epoch(unit))
            .ok_or_else(|| {
                let wanted = if is_local {
                    "a local timestamp as 2026-11-23T09:52:20.5"
                } else {
                    "a timestamp as 2026-11-23T09:52:20.5Z"
                };
                Bad::wanted(wanted, text)
            })
    }

    pub(crate) fn of_seconds(seconds: i64) -> Self {
        Self {
            seconds,
            nanoseconds: 0,
            day: 0,
            has_zone: true,
        }
    }

    /// Units since 1970; what is finer is cut off.
    pub(crate) fn since_epoch(self, unit: TimeUnit) -> Option<i64> {
        let per_second = per_second(unit);
        self.seconds
            .checked_mul(per_second)?
            .checked_add(i64::from(self.nanoseconds) / (1_000_000_000 / per_second))
    }
}

/// Units since midnight of `09:52:20.123`.
pub(crate) fn time_of_day(text: &str, unit: TimeUnit) -> Option<i64> {
    let mut scan = Scan(text.trim_ascii().as_bytes());
    let (seconds, nanoseconds) = scan.time()?;
    let per_second = per_second(unit);
    scan.0
        .is_empty()
        .then_some(seconds * per_second + i64::from(nanoseconds) / (1_000_000_000 / per_second))
}

/// A time of day: a count from midnight that ends before the next one.
pub(crate) fn of_day(value: i64, unit: TimeUnit) -> Filled<i64> {
    if (0..DAY * per_second(unit)).contains(&value) {
        return Ok(value);
    }
    Err(Bad::new(format!("{value} is not a time of day")))
}

/// A count of one unit as one of another; what is finer is cut off towards the past.
pub(crate) fn convert(value: i64, from: TimeUnit, to: TimeUnit) -> Filled<i64> {
    let (from, to) = (per_second(from), per_second(to));
    if to >= from {
        let factor = to / from;
        return value.checked_mul(factor).ok_or_else(|| {
            Bad::new(format!(
                "the time {value} is out of the range of the column's unit"
            ))
        });
    }
    Ok(value.div_euclid(from / to))
}

pub(crate) fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// What is left of a text.
struct Scan<'a>(&'a [u8]);

impl Scan<'_> {
    fn one_of(&mut self, wanted: &[u8]) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        if !wanted.contains(first) {
            return None;
        }
        self.0 = rest;
        Some(*first)
    }

    /// A number of this many digits, and how many there were.
    fn digits(&mut self, least: usize, most: usize) -> Option<(i64, usize)> {
        let mut value = 0;
        let mut count = 0;
        while let Some((digit @ b'0'..=b'9', rest)) = self.0.split_first() {
            if count == most {
                return None;
            }
            value = value * 10 + i64::from(digit - b'0');
            count += 1;
            self.0 = rest;
        }
        (count >= least).then_some((value, count))
    }

    fn number(
        &mut self,
        least: usize,
        most: usize,
        range: std::ops::RangeInclusive<i64>,
    ) -> Option<i64> {
        let (value, _) = self.digits(least, most)?;
        range.contains(&value).then_some(value)
    }

    /// `[+-]yyyy-[m]m-[d]d`, as days since 1970.
    fn date(&mut self) -> Option<i32> {
        let sign = self.one_of(b"+-");
        let year = self.digits(4, 6)?.0;
        let year = if sign == Some(b'-') { -year } else { year };
        self.one_of(b"-")?;
        let month = self.number(1, 2, 1..=12)?;
        self.one_of(b"-")?;
        let day = self.number(1, 2, 1..=days_of(year, month))?;
        i32::try_from(days_since_epoch(year, month, day)).ok()
    }

    /// `[h]h:[m]m[:[s]s[.fraction]]`, as seconds and nanoseconds.
    fn time(&mut self) -> Option<(i64, u32)> {
        let hours = self.number(1, 2, 0..=23)?;
        self.one_of(b":")?;
        let minutes = self.number(1, 2, 0..=59)?;
        let mut seconds = 0;
        let mut nanoseconds = 0;
        if self.one_of(b":").is_some() {
            seconds = self.number(1, 2, 0..=59)?;
            if self.one_of(b".").is_some() {
                let (fraction, count) = self.digits(1, 9)?;
                let missing = u32::try_from(9 - count).ok()?;
                nanoseconds = u32::try_from(fraction * 10_i64.pow(missing)).ok()?;
            }
        }
        Some((hours * 3600 + minutes * 60 + seconds, nanoseconds))
    }

    /// Seconds east of UTC, if there is a zone; all of the rest must be it.
    fn zone(&mut self) -> Option<Option<i64>> {
        let rest = self.0.trim_ascii_start();
        self.0 = &[];
        match rest {
            b"" => return Some(None),
            b"Z" | b"UTC" | b"GMT" => return Some(Some(0)),
            _ => {}
        }
        let rest = rest
            .strip_prefix(b"UTC")
            .or_else(|| rest.strip_prefix(b"GMT"))
            .unwrap_or(rest);
        let mut scan = Scan(rest);
        let sign = if scan.one_of(b"+-")? == b'-' { -1 } else { 1 };
        let (first, count) = scan.digits(1, 4)?;
        let (hours, minutes, seconds) = if count > 2 {
            (first / 100, first % 100, 0)
        } else if scan.one_of(b":").is_some() {
            let minutes = scan.number(1, 2, 0..=59)?;
            let seconds = match scan.one_of(b":") {
                Some(_) => scan.number(1, 2, 0..=59)?,
                None => 0,
            };
            (first, minutes, seconds)
        } else {
            (first, 0, 0)
        };
        let is_zone = hours <= 18 && minutes <= 59 && scan.0.is_empty();
        is_zone.then_some(Some(sign * (hours * 3600 + minutes * 60 + seconds)))
    }
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days from 1970-01-01 in the proleptic Gregorian calendar. Years are counted from March, so that a leap day ends one.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}
