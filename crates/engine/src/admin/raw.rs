//! Any request of the protocol, in the JSON of Kafka's own converters.

use ottla_protocol::ApiKey;
use serde::Deserialize;
use serde_json::Value;

use super::verb::{Ask, Verb, verbs};
use crate::api::{self, Request, Response};
use crate::call::interface::only;
use crate::call::{About, Asked, Call, Retry, Target};
use crate::error::{Error, Kind};

verbs! {
    request: AnyRequest,
}

/// Sends a request to a broker.
#[derive(Clone, Debug, Deserialize)]
pub struct AnyRequest {
    /// The name of the API, such as `DescribeCluster`.
    pub api: String,
    /// The fields of the request, as a JSON object. Fields of the message itself that are left out have their defaults.
    pub message: String,
    /// The version; `None` selects the highest that the broker supports and that has all fields of
    /// the message.
    pub version: Option<i16>,
    /// The id of the broker; `None` for any.
    pub broker: Option<i32>,
}

impl Verb for AnyRequest {
    type Outcome = String;

    async fn run(self, admin: &impl Ask) -> Result<String, Error> {
        let wrong = |text: String| Error::new(Kind::Argument, text);
        let mut known = ApiKey::ALL.iter().copied();
        let api = known
            .find(|api| api.name() == self.api)
            .ok_or_else(|| wrong(format!("Kafka has no API {:?}", self.api)))?;
        let (least, most) =
            api::spoken(api).ok_or_else(|| wrong(format!("{} is not for clients", self.api)))?;
        let fields: Value = serde_json::from_str(&self.message)
            .map_err(|error| wrong(format!("the message is no JSON: {error}")))?;
        let mut versions = match self.version {
            Some(version) if (least..=most).contains(&version) => vec![version],
            Some(version) => {
                let text = format!("{api} has the versions {least} to {most}, not {version}");
                return Err(wrong(text));
            }
            None => (least..=most).collect(),
        };
        let mut refusal = None;
        versions.retain(|version| match encoded(api, &fields, *version) {
            Some(Ok(())) => true,
            Some(Err(error)) => {
                refusal = Some(error);
                false
            }
            None => false,
        });
        let (Some(least), Some(most)) = (versions.first(), versions.last()) else {
            let why = refusal.unwrap_or_default();
            return Err(wrong(format!("the message is no {api} request: {why}")));
        };
        let call = Raw {
            api,
            fields,
            versions: (*least, *most),
            broker: self.broker,
        };
        admin.ask(call).await.map(|found| found.to_string())
    }
}

/// Whether a version has all fields of the message that are not at their defaults, or why not; `None` if no client sends the API.
fn encoded(api: ApiKey, fields: &Value, version: i16) -> Option<Result<(), String>> {
    let made = api::from_json(api, fields, version)?;
    let made = made.map_err(|error| error.to_string());
    Some(made.and_then(|request| {
        let frame = request.encode(version, 0, "");
        frame.map(|_| ()).map_err(|error| error.to_string())
    }))
}

#[derive(Clone, Debug)]
struct Raw {
    api: ApiKey,
    fields: Value,
    versions: (i16, i16),
    broker: Option<i32>,
}

impl Call for Raw {
    type Found = Value;
    type Answer = Value;
    /// See [`Self::api`].
    const API: ApiKey = ApiKey::ApiVersions;

    fn api(&self) -> ApiKey {
        self.api
    }

    fn versions(&self) -> (i16, i16) {
        self.versions
    }

    fn target(&self, _: usize) -> Target {
        self.broker.map_or(Target::Any, Target::Node)
    }

    fn request(&self, _: &[usize], about: &About<'_>) -> Request {
        let made = api::from_json(self.api, &self.fields, about.version);
        // The fields were read at the versions that this call allows.
        made.and_then(Result::ok)
            .unwrap_or_else(|| Request::ApiVersions(Default::default()))
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<Value, Error>> {
        let versions = items.iter().map(|asked| asked.version);
        versions
            .map(|version| Ok(response.to_json(version)))
            .collect()
    }

    /// It may.
    fn changes(&self) -> bool {
        true
    }

    fn retry(&self, _: &Error, _: u32) -> Retry {
        Retry::Never
    }

    fn merge(self, found: Vec<Result<Value, Error>>) -> Result<Value, Error> {
        only(found, "the response")
    }
}
