//! `sasl.jaas.config`, as Java's clients have it: `MODULE required key="value" ...;`
//!
//! A module's name only selects the mechanism of its options. No class is loaded, whatever its name
//! is (CVE-2023-25194).

use super::secret::Secret;

/// A login module whose options are known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Module {
    /// For PLAIN.
    Plain,
    /// For SCRAM.
    Scram,
    /// For OAUTHBEARER.
    OauthBearer,
    /// For GSSAPI.
    Krb5,
    /// For AWS_MSK_IAM.
    Iam,
}

const MODULES: [(&str, Module); 5] = [
    ("PlainLoginModule", Module::Plain),
    ("ScramLoginModule", Module::Scram),
    ("OAuthBearerLoginModule", Module::OauthBearer),
    ("Krb5LoginModule", Module::Krb5),
    ("IAMLoginModule", Module::Iam),
];

const FORM: &str = "must be a login module with options: MODULE required name=\"value\" ...;";

/// A login module with its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jaas {
    /// The module.
    pub module: Module,
    /// Its options, by name. Any of them may be a password.
    pub options: Vec<(String, Secret)>,
}

impl Jaas {
    /// Reads the text of a property. An error repeats nothing of it but a module's name.
    pub(super) fn read(text: &str) -> Result<Jaas, String> {
        let words = words(text)?;
        let (end, entry) = words.split_last().ok_or(FORM)?;
        if *end != Word::Sign(';') {
            return Err(format!("{FORM} The semicolon at its end is missing"));
        }
        if entry.contains(&Word::Sign(';')) {
            return Err("must have one login module, and has more".to_owned());
        }
        let [Word::Text(class), Word::Text(flag), rest @ ..] = entry else {
            return Err(FORM.to_owned());
        };
        let flags = ["required", "requisite", "sufficient", "optional"];
        if !flags.iter().any(|known| known.eq_ignore_ascii_case(flag)) {
            return Err(format!("{FORM} The word after the module is not required"));
        }
        let simple = class.rsplit('.').next().unwrap_or(class);
        let known = MODULES.iter().find(|(name, _)| *name == simple);
        let Some((_, module)) = known else {
            let names: Vec<_> = MODULES.iter().map(|(name, _)| *name).collect();
            return Err(format!(
                "has a login module that is not known here; known are {}. For tokens of your own, pass sasl_token=",
                names.join(", ")
            ));
        };
        let options = rest.chunks(3).map(|part| match part {
            [Word::Text(name), Word::Sign('='), Word::Text(value)] => {
                Ok((name.clone(), Secret::new(value)))
            }
            _ => Err(FORM.to_owned()),
        });
        Ok(Jaas {
            module: *module,
            options: options.collect::<Result<_, _>>()?,
        })
    }

    /// The value of an option.
    pub fn option(&self, name: &str) -> Option<&Secret> {
        let mut options = self.options.iter();
        options
            .find(|(known, _)| known == name)
            .map(|(_, value)| value)
    }
}

#[derive(Debug, PartialEq)]
enum Word {
    Text(String),
    Sign(char),
}

fn words(text: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(next) = rest.next() {
        match next {
            ';' | '=' => words.push(Word::Sign(next)),
            '"' | '\'' => {
                let mut value = String::new();
                loop {
                    match rest.next() {
                        Some(end) if end == next => break,
                        Some('\\') => value.push(escaped(rest.next())?),
                        Some(other) => value.push(other),
                        None => return Err("has a quote that does not end".to_owned()),
                    }
                }
                words.push(Word::Text(value));
            }
            space if space.is_whitespace() => {}
            first => {
                let mut value = String::from(first);
                let plain = |next: &char| !next.is_whitespace() && !";=\"'".contains(*next);
                while let Some(more) = rest.next_if(plain) {
                    value.push(more);
                }
                words.push(Word::Text(value));
            }
        }
    }
    Ok(words)
}

/// The character after a backslash.
fn escaped(next: Option<char>) -> Result<char, String> {
    match next {
        Some('n') => Ok('\n'),
        Some('r') => Ok('\r'),
        Some('t') => Ok('\t'),
        Some(other) => Ok(other),
        None => Err("has a quote that does not end".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Vec<(String, String)> {
        let read = Jaas::read(text).unwrap();
        let pairs = read.options.into_iter();
        pairs
            .map(|(name, value)| (name, value.expose().to_owned()))
            .collect()
    }

    #[test]
    fn reads_what_java_clients_have() {
        let plain = "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"alice\" password=\"a;b=c \\\" d\";";
        assert_eq!(Jaas::read(plain).unwrap().module, Module::Plain);
        let wanted = [("username", "alice"), ("password", "a;b=c \" d")];
        let wanted = wanted.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(options(plain), wanted);
        let scram = "kafkashaded.org.apache.kafka.common.security.scram.ScramLoginModule   required\n  username='al'\n tokenauth=true ;";
        let read = Jaas::read(scram).unwrap();
        assert_eq!(read.module, Module::Scram);
        assert_eq!(read.option("tokenauth").unwrap().expose(), "true");
        let bare = "software.amazon.msk.auth.iam.IAMLoginModule required;";
        assert_eq!(options(bare), []);
    }

    /// Rule: 2.4.16.
    #[test]
    fn an_error_repeats_no_option() {
        for bad in [
            "",
            "PlainLoginModule",
            "PlainLoginModule required password=\"hunter2\"",
            "PlainLoginModule required password=\"hunter2",
            "PlainLoginModule required password hunter2;",
            "PlainLoginModule password=hunter2;",
            "com.sun.security.auth.module.JndiLoginModule required user.provider.url=\"hunter2\";",
            "PlainLoginModule required password=hunter2; ScramLoginModule required;",
            "PlainLoginModule required password=\"hunter2\\",
        ] {
            let error = Jaas::read(bad).unwrap_err();
            assert!(!error.contains("hunter2"), "{error}");
        }
        assert!(
            !format!(
                "{:?}",
                Jaas::read("PlainLoginModule required password=hunter2;")
            )
            .contains("hunter2")
        );
    }
}
