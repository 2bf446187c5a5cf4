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
    has_zone: bool,
}

impl Moment {
    /// Reads `2026`, `2026-11`, `2026-11-23`, `2026-11-23T09`, `2026-11-23
    /// 09:52:20.123456789+01:00` and the forms between them: one or two digits for all but the year
    /// and the fraction; the zone is `Z`, `UTC`, `UT`, `GMT`, or an offset of hours, minutes and
    /// seconds. A time without zone is taken as UTC. Named regions are not read.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut scan = Scan(trimmed(text));
        let midnight = i64::from(scan.date(6)?) * DAY;
        if scan.0.is_empty() {
            return Some(Self {
                seconds: midnight,
                nanoseconds: 0,
                has_zone: false,
            });
        }
        scan.one_of(b"T ")?;
        let (time, nanoseconds) = scan.time()?;
        let offset = scan.zone()?;
        Some(Self {
            seconds: midnight + time - offset.unwrap_or(0),
            nanoseconds,
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

/// Days since 1970 of `2026`, `2026-11` or `2026-11-23`, behind which anything may stand after a `T` or a space, as for Spark.
pub(crate) fn date(text: &str) -> Filled<i32> {
    let mut scan = Scan(trimmed(text));
    let day = scan
        .date(7)
        .filter(|_| matches!(scan.0.first(), None | Some(b'T' | b' ')));
    day.ok_or_else(|| Bad::wanted("a date as 2026-11-23", text))
}

/// Without the white space and control characters around it, which Spark takes off.
fn trimmed(text: &str) -> &[u8] {
    let is_outside = |char: char| char.is_ascii_control() || char == ' ';
    text.trim_matches(is_outside).as_bytes()
}

/// Units since midnight of `09:52:20.123`.
pub(crate) fn time_of_day(text: &str, unit: TimeUnit) -> Option<i64> {
    let mut scan = Scan(trimmed(text));
    let (seconds, nanoseconds) = text.contains(':').then(|| scan.time())??;
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

    /// `[+-]yyyy[-[m]m[-[d]d]]` with at most this many digits of the year, as days since 1970. Without a day it ends the text.
    fn date(&mut self, of_year: usize) -> Option<i32> {
        let sign = self.one_of(b"+-");
        let year = self.digits(4, of_year)?.0;
        let year = if sign == Some(b'-') { -year } else { year };
        let (mut month, mut day) = (1, 1);
        if !self.0.is_empty() {
            self.one_of(b"-")?;
            month = self.number(1, 2, 1..=12)?;
        }
        if !self.0.is_empty() {
            self.one_of(b"-")?;
            day = self.number(1, 2, 1..=days_of(year, month))?;
        }
        i32::try_from(days_since_epoch(year, month, day)).ok()
    }

    /// `[h]h[:[m]m[:[s]s[.fraction]]]`, as seconds and nanoseconds; finer digits are cut off.
    fn time(&mut self) -> Option<(i64, u32)> {
        let mut seconds = 3600 * self.number(1, 2, 0..=23)?;
        let mut nanoseconds = 0;
        if self.one_of(b":").is_some() {
            seconds += 60 * self.number(1, 2, 0..=59)?;
            if self.one_of(b":").is_some() {
                seconds += self.number(1, 2, 0..=59)?;
                if self.one_of(b".").is_some() {
                    nanoseconds = self.fraction();
                }
            }
        }
        Some((seconds, nanoseconds))
    }

    /// Any number of digits behind a point, as nanoseconds.
    fn fraction(&mut self) -> u32 {
        let (mut nanoseconds, mut unit) = (0, 100_000_000);
        while let Some((digit @ b'0'..=b'9', rest)) = self.0.split_first() {
            nanoseconds += u32::from(digit - b'0') * unit;
            unit /= 10;
            self.0 = rest;
        }
        nanoseconds
    }

    /// Seconds east of UTC, if there is a zone; all of the rest must be it.
    fn zone(&mut self) -> Option<Option<i64>> {
        let rest = self.0.trim_ascii_start();
        self.0 = &[];
        let is_utc = |name: &&[u8]| rest.starts_with(name);
        let name = [&b"UTC"[..], b"GMT", b"UT"].into_iter().find(is_utc);
        match (rest, name) {
            (b"", _) => Some(None),
            (b"Z", _) => Some(Some(0)),
            (_, Some(name)) if name.len() == rest.len() => Some(Some(0)),
            (_, name) => Scan(rest.get(name.map_or(0, <[u8]>::len)..)?)
                .offset()
                .map(Some),
        }
    }

    /// A sign and `h`, `hh`, `hhmm`, `hhmmss`, `[h]h:[m]m` or `[h]h:mm:ss`, up to 18 hours, as seconds.
    fn offset(&mut self) -> Option<i64> {
        let sign = if self.one_of(b"+-")? == b'-' { -1 } else { 1 };
        let (first, count) = self.digits(1, 6)?;
        let seconds = match count {
            1 | 2 if self.one_of(b":").is_some() => {
                let (minutes, digits) = self.digits(1, 2)?;
                let seconds = match self.one_of(b":") {
                    Some(_) if digits == 2 => self.number(2, 2, 0..=59)?,
                    Some(_) => return None,
                    None => 0,
                };
                sexagesimal(first, minutes, seconds)?
            }
            1 | 2 => sexagesimal(first, 0, 0)?,
            4 => sexagesimal(first / 100, first % 100, 0)?,
            6 => sexagesimal(first / 10_000, first / 100 % 100, first % 100)?,
            _ => return None,
        };
        (seconds <= 18 * 3600 && self.0.is_empty()).then_some(sign * seconds)
    }
}

fn sexagesimal(hours: i64, minutes: i64, seconds: i64) -> Option<i64> {
    (minutes <= 59 && seconds <= 59).then_some(hours * 3600 + minutes * 60 + seconds)
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
