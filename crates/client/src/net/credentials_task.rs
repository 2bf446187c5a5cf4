//! What a connection needs to prove who the client is, looked after away from the connection's task: chance, processor time,
//! and what a provider has.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ottla_engine::connection::Authentication;
use ottla_engine::credentials::Provider;
use ottla_engine::sasl::{Given, Need, mechanism};
use ottla_engine::{Config, Error, Kind};

use crate::net::transport::{nonce, seed};

/// What was needed, on its way.
pub(crate) type Giving = Pin<Box<dyn Future<Output = Result<Given, Error>> + Send>>;

/// How a connection authenticates, if the settings ask for it.
///
/// # Errors
/// Settings that the mechanism cannot use.
pub(crate) fn authentication(config: &Config) -> Result<Option<Authentication>, Error> {
    Ok(mechanism(config)?.map(|mechanism| Authentication {
        mechanism,
        again_within: config.request_timeout,
        seed: seed(),
    }))
}

/// One connection, as the provider sees it.
pub(crate) struct Proving {
    provider: Option<Arc<dyn Provider>>,
    connection: u64,
    host: String,
}

impl fmt::Debug for Proving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proving({})", self.host)
    }
}

impl Proving {
    /// A connection to `host`.
    pub(crate) fn new(config: &Config, host: &str) -> Proving {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Proving {
            provider: config.credentials.0.clone(),
            connection: NEXT.fetch_add(1, Ordering::Relaxed),
            host: host.to_owned(),
        }
    }

    /// Begins to look after a need.
    pub(crate) fn give(&self, need: Need) -> Giving {
        match need {
            Need::Nonce => Box::pin(async { nonce().map(Given::Nonce) }),
            Need::Stretch(stretch) => Box::pin(async move {
                let stretched = tokio::task::spawn_blocking(move || stretch.run()).await;
                stretched
                    .map_err(|_| Error::new(Kind::Closed, "the client's threads are at their end"))
            }),
            Need::Outside(question) => {
                let Some(provider) = &self.provider else {
                    let text = format!(
                        "nobody was named who has a {}: pass sasl_token=",
                        question.name()
                    );
                    return Box::pin(async { Err(Error::new(Kind::Authentication, text)) });
                };
                let reply = provider.ask(self.connection, &self.host, question);
                Box::pin(async move { reply.await.map(Given::Reply) })
            }
        }
    }

    /// The connection ended for this reason.
    pub(crate) fn ended(&self, cause: &Error) {
        if let Some(provider) = self.provider.as_ref().filter(|_| cause.is_final()) {
            provider.refused();
        }
    }
}

impl Drop for Proving {
    fn drop(&mut self) {
        if let Some(provider) = &self.provider {
            provider.ended(self.connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use ottla_engine::Role;
    use ottla_engine::credentials::{Credentials, Question, Reply, Replying};
    use parking_lot::Mutex;

    use super::*;

    /// Gives the host, and writes down what else it heard.
    #[derive(Debug, Default)]
    struct Host(Mutex<Vec<String>>);

    impl Provider for Host {
        fn ask(&self, _: u64, host: &str, question: Question) -> Replying {
            let bytes = format!("{host} {}", question.name()).into_bytes();
            let reply = Reply {
                bytes,
                ..Default::default()
            };
            Box::pin(async { Ok(reply) })
        }

        fn refused(&self) {
            self.0.lock().push("refused".to_owned());
        }

        fn ended(&self, _: u64) {
            self.0.lock().push("ended".to_owned());
        }
    }

    fn config() -> Config {
        let pairs = [
            ("bootstrap.servers", "b:1"),
            ("security.protocol", "SASL_PLAINTEXT"),
            ("sasl.allow.plaintext", "true"),
            ("sasl.mechanism", "OAUTHBEARER"),
        ];
        Config::parse(Role::Admin, pairs).unwrap()
    }

    #[tokio::test]
    async fn a_question_goes_to_the_provider_with_the_host() {
        let provider = Arc::new(Host::default());
        let mut config = config();
        config.credentials = Credentials(Some(Arc::clone(&provider) as Arc<dyn Provider>));
        let proving = Proving::new(&config, "kafka-1");
        let given = proving.give(Need::Outside(Question::Token)).await.unwrap();
        let Given::Reply(reply) = given else {
            panic!("{given:?}")
        };
        assert_eq!(reply.bytes, b"kafka-1 token");
        proving.ended(&Error::new(Kind::Unreachable, "gone"));
        assert!(provider.0.lock().is_empty());
        proving.ended(&Error::new(Kind::Authentication, "no"));
        drop(proving);
        assert_eq!(*provider.0.lock(), ["refused", "ended"]);
        assert!(authentication(&config).unwrap().is_some());
    }

    #[tokio::test]
    async fn without_a_provider_the_error_says_what_is_missing() {
        let proving = Proving::new(&config(), "kafka-1");
        let error = proving.give(Need::Outside(Question::Token)).await;
        let error = error.unwrap_err();
        assert!(error.message().contains("sasl_token="), "{error}");
    }

    #[tokio::test]
    async fn nonces_differ() {
        let proving = Proving::new(&config(), "h");
        let one = proving.give(Need::Nonce).await.unwrap();
        let two = proving.give(Need::Nonce).await.unwrap();
        assert!(one != two);
    }
}
