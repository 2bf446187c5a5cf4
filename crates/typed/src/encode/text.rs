//! Numbers, dates and times as Java and Spark write them.

use std::io::Write;

use arrow_schema::TimeUnit;

use crate::column::DecimalType;
use crate::error::Filled;
use crate::time::{DAY, of_day, per_second};

pub(super) fn integer(value: impl std::fmt::Display, out: &mut Vec<u8>) {
    // To write into memory never fails.
    let _ = write!(out, "{value}");
}

/// What `Double.toString` gives: with at least one digit behind the point, and with an exponent
/// below 10^-3 and from 10^7 up. It has as few digits as distinguish the number from its
/// neighbours, as Java has it since 19.
pub(super) fn float(value: impl Into<f64> + std::fmt::LowerExp + Copy, out: &mut Vec<u8>) {
    let wide: f64 = value.into();
    if wide.is_nan() {
        return out.extend_from_slice(b"NaN");
    }
    if wide.is_infinite() {
        return out.extend_from_slice(if wide > 0.0 {
            b"Infinity"
        } else {
            b"-Infinity"
        });
    }
    // Of one digit, Java writes two: those that are nearest to the number.
    let mut text = Digits::default();
    let _ = write!(text, "{value:e}");
    if !text.as_str().contains('.') {
        text = Digits::default();
        let _ = write!(text, "{value:.1e}");
    }
    // `-1.25e-7`, or `3.0e0`.
    let (mantissa, exponent) = text.as_str().split_once('e').unwrap_or_default();
    let mantissa = match mantissa.strip_prefix('-') {
        Some(mantissa) => {
            out.push(b'-');
            mantissa
        }
        None => mantissa,
    };
    let (first, rest) = mantissa.split_once('.').unwrap_or_default();
    let exponent: i32 = exponent.parse().unwrap_or(0);
    match usize::try_from(exponent) {
        _ if !(-3..7).contains(&exponent) && wide != 0.0 => {
            out.extend_from_slice(first.as_bytes());
            out.push(b'.');
            out.extend_from_slice(rest.as_bytes());
            out.push(b'E');
            integer(exponent, out);
        }
        Ok(places) => {
            let (whole, fraction) = rest.split_at_checked(places).unwrap_or((rest, ""));
            out.extend_from_slice(first.as_bytes());
            out.extend_from_slice(whole.as_bytes());
            zeros(places - whole.len(), out);
            out.push(b'.');
            out.extend_from_slice(if fraction.is_empty() {
                b"0"
            } else {
                fraction.as_bytes()
            });
        }
        Err(_) => {
            out.extend_from_slice(b"0.");
            zeros(exponent.unsigned_abs() as usize - 1, out);
            out.extend_from_slice(first.as_bytes());
            out.extend_from_slice(if rest == "0" { b"" } else { rest.as_bytes() });
        }
    }
}

/// What `BigDecimal.toString` gives: an exponent stands where the point would have more than six zeros behind it.
pub(super) fn decimal(unscaled: i128, kind: DecimalType, out: &mut Vec<u8>) {
    if unscaled < 0 {
        out.push(b'-');
    }
    let start = out.len();
    integer(unscaled.unsigned_abs(), out);
    let count = out.len() - start;
    let scale = i64::from(kind.scale);
    if scale == 0 {
        return;
    }
    let exponent = count as i64 - 1 - scale;
    if scale > 0 && exponent >= -6 {
        let scale = usize::from(kind.scale.unsigned_abs());
        let missing = (scale + 1).saturating_sub(count);
        out.splice(start..start, std::iter::repeat_n(b'0', missing));
        out.insert(out.len() - scale, b'.');
        return;
    }
    if count > 1 {
        out.insert(start + 1, b'.');
    }
    if exponent != 0 {
        let _ = write!(out, "E{exponent:+}");
    }
}

/// `2026-11-23`; years beyond 9999 have a plus.
pub(super) fn date(days: i64, out: &mut Vec<u8>) {
    let (year, month, day) = civil(days);
    let sign = match year {
        10_000.. => "+",
        0.. => "",
        _ => "-",
    };
    let _ = write!(out, "{sign}{:04}-{month:02}-{day:02}", year.unsigned_abs());
}

/// `2026-11-23T09:52:20.123`, with a `Z` behind it unless it is local. What is finer than milliseconds is cut off, as in Spark.
pub(super) fn timestamp(value: i64, unit: TimeUnit, is_local: bool, out: &mut Vec<u8>) {
    let units = per_second(unit);
    let seconds = value.div_euclid(units);
    let milliseconds = i128::from(value.rem_euclid(units)) * 1000 / i128::from(units);
    date(seconds.div_euclid(DAY), out);
    out.push(b'T');
    clock(seconds.rem_euclid(DAY), out);
    let zone = if is_local { "" } else { "Z" };
    let _ = write!(out, ".{milliseconds:03}{zone}");
}

/// `09:52:20.123456`, with as many digits behind the point as there are.
pub(super) fn time_of_day(value: i64, unit: TimeUnit, out: &mut Vec<u8>) -> Filled {
    let units = per_second(unit);
    let value = of_day(value, unit)?;
    clock(value / units, out);
    let fraction = value % units;
    if fraction != 0 {
        let _ = write!(out, ".{:09}", fraction * (1_000_000_000 / units));
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
    Ok(())
}

fn clock(seconds: i64, out: &mut Vec<u8>) {
    let (minutes, second) = (seconds / 60, seconds % 60);
    let _ = write!(out, "{:02}:{:02}:{second:02}", minutes / 60, minutes % 60);
}

/// The text of a float, which is short: no memory is asked for.
#[derive(Default)]
struct Digits {
    bytes: [u8; 32],
    length: usize,
}

impl Digits {
    fn as_str(&self) -> &str {
        let written = self.bytes.get(..self.length).unwrap_or_default();
        std::str::from_utf8(written).unwrap_or_default()
    }
}

impl Write for Digits {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut room = self.bytes.get_mut(self.length..).unwrap_or_default();
        let written = room.write(bytes)?;
        self.length += written;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn zeros(count: usize, out: &mut Vec<u8>) {
    out.extend(std::iter::repeat_n(b'0', count));
}

/// Year, month and day in the proleptic Gregorian calendar. Years are counted from March, so that a leap day ends one.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, year) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (year_of_era + era * 400 + year, month, day)
}
