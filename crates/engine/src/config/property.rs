//! A row of the table, and how a property's text becomes a value.

use std::time::Duration;

/// The client that is being configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sends records.
    Producer,
    /// Reads records.
    Consumer,
    /// Reads records as a member of a share group.
    ShareConsumer,
    /// Manages topics.
    Admin,
}

impl Role {
    /// The role in lower case, as used in messages and documentation.
    pub fn name(self) -> &'static str {
        match self {
            Role::Producer => "producer",
            Role::Consumer => "consumer",
            Role::ShareConsumer => "share-consumer",
            Role::Admin => "admin",
        }
    }
}

/// A row of the table, for settings of type `S`.
#[derive(Clone, Copy, Debug)]
pub struct Property<S> {
    /// Kafka's name, with dots.
    pub name: &'static str,
    /// The clients that know it.
    pub roles: &'static [Role],
    /// Kind, range and destination.
    pub value: Value<S>,
    /// Default, as the text that would set it; `None` if being absent is a state of its own.
    pub default: Option<&'static str>,
    /// A line or two of documentation.
    pub doc: &'static str,
}

/// The valid texts of a property, and where its value goes.
#[derive(Clone, Copy, Debug)]
pub enum Value<S> {
    /// `true` or `false`.
    Bool(fn(&mut S, bool)),
    /// A whole number in a range. `unit` is empty, `bytes` or `ms`.
    Int {
        /// Smallest allowed.
        min: i64,
        /// Largest allowed.
        max: i64,
        /// The counted thing.
        unit: &'static str,
        /// Takes the value.
        set: fn(&mut S, i64),
    },
    /// One of several words; `set` gets the word in lower case, which is one of `of`.
    Choice {
        /// The words allowed.
        of: &'static [&'static str],
        /// Takes the word.
        set: fn(&mut S, &str),
    },
    /// Any text that `set` accepts; its error describes what it would have accepted.
    Text(fn(&mut S, &str) -> Result<(), String>),
    /// As `Text`, but the text is taken with the spaces around it, and no error repeats it. Nor does `set`.
    Secret(fn(&mut S, &str) -> Result<(), String>),
}

impl<S> Property<S> {
    /// The kind of value in a word: `bool`, `int`, `choice`, `text`, `secret`.
    pub fn kind(&self) -> &'static str {
        match self.value {
            Value::Bool(_) => "bool",
            Value::Int { .. } => "int",
            Value::Choice { .. } => "choice",
            Value::Text(_) => "text",
            Value::Secret(_) => "secret",
        }
    }

    /// Whether the value may never be shown.
    pub fn is_secret(&self) -> bool {
        matches!(self.value, Value::Secret(_))
    }

    /// Puts the value that `text` stands for into `settings`.
    ///
    /// # Errors
    /// The rule that the text breaks.
    pub(super) fn apply(&self, settings: &mut S, text: &str) -> Result<(), String> {
        let text = if self.is_secret() { text } else { text.trim() };
        match self.value {
            Value::Bool(set) => match text.to_ascii_lowercase().as_str() {
                "true" => set(settings, true),
                "false" => set(settings, false),
                _ => return Err("must be true or false".to_owned()),
            },
            Value::Int {
                min,
                max,
                unit,
                set,
            } => match text.parse::<i64>() {
                Ok(number) if (min..=max).contains(&number) => set(settings, number),
                _ => {
                    let space = if unit.is_empty() { "" } else { " " };
                    return Err(format!(
                        "must be a whole number from {min} to {max}{space}{unit}"
                    ));
                }
            },
            Value::Choice { of, set } => {
                let word = text.to_ascii_lowercase();
                if !of.contains(&word.as_str()) {
                    return Err(format!("must be one of {}", of.join(", ")));
                }
                set(settings, &word);
            }
            Value::Text(set) | Value::Secret(set) => return set(settings, text),
        }
        Ok(())
    }
}

/// The types of fields for whole numbers. The range of the property's row keeps the number within
/// the type.
pub(super) trait FromWhole {
    fn from_whole(number: i64) -> Self;
}

impl FromWhole for usize {
    fn from_whole(number: i64) -> usize {
        usize::try_from(number).unwrap_or(0)
    }
}

impl FromWhole for i32 {
    fn from_whole(number: i64) -> i32 {
        i32::try_from(number).unwrap_or(i32::MAX)
    }
}

impl FromWhole for u32 {
    fn from_whole(number: i64) -> u32 {
        u32::try_from(number).unwrap_or(u32::MAX)
    }
}

/// A number of milliseconds.
impl FromWhole for Duration {
    fn from_whole(number: i64) -> Duration {
        Duration::from_millis(number.unsigned_abs())
    }
}

/// -1 stands for "never".
impl FromWhole for Option<Duration> {
    fn from_whole(number: i64) -> Option<Duration> {
        (number >= 0).then(|| Duration::from_whole(number))
    }
}

impl FromWhole for Option<i32> {
    fn from_whole(number: i64) -> Option<i32> {
        i32::try_from(number).ok()
    }
}

/// -1 stands for "left to the system".
impl FromWhole for Option<usize> {
    fn from_whole(number: i64) -> Option<usize> {
        usize::try_from(number).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Secret;

    #[test]
    fn a_secret_is_taken_as_it_stands() {
        let row = Property::<Secret> {
            name: "ssl.key.password",
            roles: &[Role::Admin],
            value: Value::Secret(|kept, text| {
                *kept = Secret::new(text);
                Ok(())
            }),
            default: None,
            doc: "",
        };
        let mut kept = Secret::default();
        row.apply(&mut kept, " hunter2 ").unwrap();
        assert_eq!(kept.expose(), " hunter2 ");
        assert_eq!((row.kind(), row.is_secret()), ("secret", true));
    }
}
