//! The few fields of an X.509 certificate (RFC 5280) that nobody else here reads.

use super::der::{Element, INTEGER, Malformed, Parts, SEQUENCE, context, read};

const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Fields of a certificate, as they stand in it.
#[derive(Debug, PartialEq)]
pub(super) struct Fields<'a> {
    pub(super) issuer: &'a [u8],
    pub(super) subject: &'a [u8],
    /// Seconds since 1970, from which and until which it is valid.
    pub(super) valid: (i64, i64),
    /// The public key, with its algorithm.
    pub(super) key: &'a [u8],
}

/// Reads the fields of a certificate.
pub(super) fn fields(certificate: &[u8]) -> Result<Fields<'_>, Malformed> {
    let mut signed = read(certificate, SEQUENCE)?.parts().take(SEQUENCE)?.parts();
    signed.maybe(context(0))?;
    signed.take(INTEGER)?;
    signed.take(SEQUENCE)?;
    let issuer = signed.take(SEQUENCE)?.whole;
    let mut validity = signed.take(SEQUENCE)?.parts();
    let valid = (time(&mut validity)?, time(&mut validity)?);
    let subject = signed.take(SEQUENCE)?.whole;
    let key = signed.take(SEQUENCE)?.whole;
    Ok(Fields {
        issuer,
        subject,
        valid,
        key,
    })
}

fn time(parts: &mut Parts<'_>) -> Result<i64, Malformed> {
    let Some(Element { tag, body, .. }) = parts.any()? else {
        return Err(Malformed);
    };
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = digits(body, 2)?;
            // RFC 5280, 4.1.2.5.1.
            (year + if year < 50 { 2000 } else { 1900 }, rest)
        }
        GENERALIZED_TIME => digits(body, 4)?,
        _ => return Err(Malformed),
    };
    let (month, rest) = digits(rest, 2)?;
    let (day, rest) = digits(rest, 2)?;
    let (hour, rest) = digits(rest, 2)?;
    let (minute, rest) = digits(rest, 2)?;
    let (second, rest) = digits(rest, 2)?;
    if rest != b"Z" || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return Err(Malformed);
    }
    Ok(((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second)
}

fn digits(text: &[u8], count: usize) -> Result<(i64, &[u8]), Malformed> {
    let (digits, rest) = text.split_at_checked(count).ok_or(Malformed)?;
    let mut number = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return Err(Malformed);
        }
        number = number * 10 + i64::from(digit - b'0');
    }
    Ok((number, rest))
}

/// Days from 1970 to a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March here, so that the day that some lack is their last.
    let year = if month > 2 { year } else { year - 1 };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + of_year - 719_468
}

/// A time in seconds since 1970, as `2026-11-22 08:30:00 UTC`.
pub(super) fn say_time(seconds: i64) -> String {
    let (day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // The year that cannot be too late, and then the month.
    let mut year = 1970 + day.div_euclid(366);
    while days(year + 1, 1, 1) <= day {
        year += 1;
    }
    let mut month = 1;
    while month < 12 && days(year, month + 1, 1) <= day {
        month += 1;
    }
    let of_month = day - days(year, month, 1) + 1;
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!(
        "{year:04}-{month:02}-{of_month:02} {hour:02}:{minute:02}:{:02} UTC",
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_said() {
        for (seconds, tag, written, said) in [
            (0, UTC_TIME, "700101000000Z", "1970-01-01 00:00:00 UTC"),
            (
                951_782_399,
                UTC_TIME,
                "000228235959Z",
                "2000-02-28 23:59:59 UTC",
            ),
            (
                951_868_800,
                GENERALIZED_TIME,
                "20000301000000Z",
                "2000-03-01 00:00:00 UTC",
            ),
            (
                1_709_208_000,
                UTC_TIME,
                "240229120000Z",
                "2024-02-29 12:00:00 UTC",
            ),
            (
                253_402_300_799,
                GENERALIZED_TIME,
                "99991231235959Z",
                "9999-12-31 23:59:59 UTC",
            ),
            (
                -631_152_000,
                UTC_TIME,
                "500101000000Z",
                "1950-01-01 00:00:00 UTC",
            ),
        ] {
            let element = super::super::der::write(tag, written.as_bytes());
            assert_eq!(time(&mut Parts(&element)), Ok(seconds), "{written}");
            assert_eq!(say_time(seconds), said);
        }
        for bad in [
            "700101000000",
            "70010100000Z",
            "701301000000Z",
            "7001010000+0Z",
        ] {
            let element = super::super::der::write(UTC_TIME, bad.as_bytes());
            assert_eq!(time(&mut Parts(&element)), Err(Malformed), "{bad}");
        }
    }
}
