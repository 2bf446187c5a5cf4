//! Numbers from their text.

use crate::column::DecimalType;
use crate::error::{Bad, Filled, shown};

/// The unscaled value of a decimal: digits beyond its scale are rounded half up, as Spark rounds them.
///
/// `text` is a sign, digits with at most one point, and an exponent; all but one digit may be missing.
pub(crate) fn decimal(text: &str, wanted: DecimalType) -> Filled<i128> {
    let DecimalType { precision, scale } = wanted;
    let too_large = || {
        Bad::new(format!(
            "{} does not fit decimal({precision}, {scale})",
            shown(text)
        ))
    };
    let malformed = || Bad::wanted(format_args!("decimal({precision}, {scale})"), text);
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        None => (text, 0),
        Some(at) => {
            let exponent = text
                .get(at + 1..)
                .and_then(|digits| digits.parse::<i32>().ok());
            (
                text.get(..at).unwrap_or_default(),
                exponent.ok_or_else(malformed)?,
            )
        }
    };
    let (is_negative, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = || whole.bytes().chain(fraction.bytes());
    if digits().next().is_none() || !digits().all(|digit| digit.is_ascii_digit()) {
        return Err(malformed());
    }
    // This many digits of the text are before the point of the unscaled value.
    let kept = whole.len() as i64 + i64::from(exponent) + i64::from(scale);
    let mut unscaled = 0_i128;
    let mut seen = 0_i64;
    for digit in digits() {
        let digit = i128::from(digit - b'0');
        if seen >= kept {
            if seen == kept && digit >= 5 {
                unscaled += 1;
            }
            break;
        }
        seen += 1;
        unscaled = unscaled
            .checked_mul(10)
            .and_then(|value| value.checked_add(digit))
            .ok_or_else(too_large)?;
    }
    if unscaled != 0 {
        for _ in seen..kept {
            unscaled = unscaled.checked_mul(10).ok_or_else(too_large)?;
        }
    }
    fits(unscaled, precision).ok_or_else(too_large)?;
    Ok(if is_negative { -unscaled } else { unscaled })
}

/// The unscaled value of a decimal in a text, whose commas do not count, as for Spark: `1,234.50`.
pub(crate) fn decimal_of_text(text: &str, wanted: DecimalType) -> Filled<i128> {
    match text.contains(',') {
        true => decimal(&text.replace(',', ""), wanted),
        false => decimal(text, wanted),
    }
}

/// The value if it has no more digits than a decimal holds.
pub(crate) fn fits(unscaled: i128, precision: u8) -> Option<i128> {
    let limit = 10_u128.checked_pow(u32::from(precision))?;
    (unscaled.unsigned_abs() < limit).then_some(unscaled)
}

/// The names that Spark's JSON gives to what is not a number, as strings.
pub(crate) fn not_finite(text: &str) -> Option<f64> {
    Some(match text {
        "NaN" => f64::NAN,
        "Infinity" | "+Infinity" | "+INF" => f64::INFINITY,
        "-Infinity" | "-INF" => f64::NEG_INFINITY,
        _ => return None,
    })
}

/// A float or a double as Java reads it from a text, but for hexadecimal ones; `Inf` and `-Inf` are Spark's names in CSV.
pub(crate) fn float_of_text<T: std::str::FromStr>(text: &str, wanted: &str) -> Filled<T> {
    let trimmed = text.trim_matches(|char| char <= ' ');
    let is_number = |byte: u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
    let parsed = match (text, trimmed) {
        ("Inf", _) => "inf".parse().ok(),
        ("-Inf", _) => "-inf".parse().ok(),
        (_, "NaN" | "+NaN" | "-NaN") => "NaN".parse().ok(),
        (_, "Infinity" | "+Infinity") => "inf".parse().ok(),
        (_, "-Infinity") => "-inf".parse().ok(),
        _ => {
            let digits = trimmed
                .strip_suffix(['d', 'D', 'f', 'F'])
                .unwrap_or(trimmed);
            let parsed = digits.bytes().all(is_number).then(|| digits.parse().ok());
            parsed.flatten()
        }
    };
    parsed.ok_or_else(|| Bad::wanted(wanted, text))
}
