//! A scripted cluster for tests: links come up at once, metadata and producer ids are returned,
//! everything else is handed to the test. The clock moves only when the test moves it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_protocol::messages::api_versions_response::ApiVersion;
use ottla_protocol::messages::{
    ApiVersionsResponse, InitProducerIdResponse, MetadataRequest, MetadataResponse,
};
use ottla_protocol::{ApiKey, ErrorCode, Uuid};

use crate::api::{HIGHEST, Request, Response, Versions};
use crate::cluster::{Action, Dial, Expected, LinkId};
use crate::config::{Config, Role};
use crate::dispatch::Outgoing;
use crate::engine::{Engine, Event};
use crate::error::{Error, Kind};
use crate::metadata::tests::answer;
use crate::part::Client;

/// A request for which the test has to provide the response.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) link: LinkId,
    pub(crate) token: u64,
    pub(crate) request: Request,
    /// The version that the client chose.
    pub(crate) version: i16,
}

pub(crate) struct Script<W> {
    pub(crate) engine: Engine<W>,
    pub(crate) now: Instant,
    /// Topics and the leaders of their partitions.
    pub(crate) topics: Vec<(&'static str, Vec<i32>)>,
    /// The byte that the ids of all topics consist of, where a test sets one.
    pub(crate) topic_id: Option<u8>,
    pub(crate) nodes: i32,
    /// Whether brokers take metrics of clients.
    pub(crate) telemetry: bool,
    /// Addresses that refuse connections.
    pub(crate) dead: Vec<String>,
    /// The error of every dial, if it is set.
    pub(crate) refusal: Option<Error>,
    /// Names that the DNS does not know.
    pub(crate) unknown: Vec<String>,
    /// The addresses at which they fail so; none stands for all.
    pub(crate) refusing: Vec<String>,
    pub(crate) dials: Vec<String>,
    /// The versions of every broker.
    pub(crate) versions: Versions,
    /// Whom each dial is meant for.
    pub(crate) expected: Vec<Option<Expected>>,
    /// Whether brokers can check whom a connection is meant for, and know their cluster's id.
    pub(crate) checks: bool,
    pub(crate) cluster_id: Option<&'static str>,
    /// How long each dial may take.
    pub(crate) setup: Vec<Duration>,
    /// The code that Metadata returns.
    pub(crate) metadata_code: ErrorCode,
    /// Whether requests for metadata never get a response.
    pub(crate) metadata_silent: bool,
    /// The topics of each Metadata request, and whether it may create them.
    pub(crate) metadata_asked: Vec<(Vec<String>, bool)>,
    /// The hosts that got a request for it.
    pub(crate) metadata_from: Vec<String>,
    pub(crate) producer_ids: i64,
    /// The code that InitProducerId returns.
    pub(crate) producer_id_code: ErrorCode,
    links: Vec<(LinkId, String)>,
}

/// When a script begins. It reads the clock once, since an `Instant` comes from nowhere else.
#[allow(clippy::disallowed_methods, reason = "it only has to be some time")]
pub(crate) fn start() -> Instant {
    Instant::now()
}

pub(crate) fn config(role: Role, pairs: &[(&'static str, &'static str)]) -> Arc<Config> {
    let bootstrap = [("bootstrap.servers", "boot:1")]
        .into_iter()
        .filter(|(key, _)| !pairs.iter().any(|p| p.0 == *key));
    Arc::new(Config::parse(role, bootstrap.chain(pairs.iter().copied())).unwrap())
}

/// A broker that supports every API of the table, but takes no metrics of clients.
pub(crate) fn versions() -> Versions {
    speaking(false, false)
}

/// A broker that supports every API of the table, but takes metrics of clients only if `telemetry`.
/// If `checks`, it knows whom connections are meant for.
fn speaking(telemetry: bool, checks: bool) -> Versions {
    let mut api_keys: Vec<_> = HIGHEST
        .iter()
        .filter(|(api, _)| {
            telemetry
                || !matches!(
                    api,
                    ApiKey::GetTelemetrySubscriptions | ApiKey::PushTelemetry
                )
        })
        .map(|&(api, max_version)| ApiVersion {
            api_key: api.as_i16(),
            max_version,
            ..Default::default()
        })
        .collect();
    if checks {
        api_keys.push(ApiVersion {
            api_key: ApiKey::ApiVersions.as_i16(),
            max_version: 5,
            ..Default::default()
        });
    }
    Versions::new(&ApiVersionsResponse {
        api_keys,
        ..Default::default()
    })
}

impl<W: Client> Script<W> {
    pub(crate) fn new(engine: Engine<W>) -> Script<W> {
        Script {
            engine,
            now: start(),
            topics: vec![("t", vec![1, 2])],
            topic_id: None,
            nodes: 2,
            telemetry: false,
            dead: Vec::new(),
            refusal: None,
            unknown: Vec::new(),
            refusing: Vec::new(),
            dials: Vec::new(),
            versions: versions(),
            expected: Vec::new(),
            checks: false,
            cluster_id: None,
            setup: Vec::new(),
            metadata_code: ErrorCode::NONE,
            metadata_silent: false,
            metadata_asked: Vec::new(),
            metadata_from: Vec::new(),
            producer_ids: 0,
            producer_id_code: ErrorCode::NONE,
            links: Vec::new(),
        }
    }

    /// Runs until only requests are left for which the test must provide responses, and returns
    /// them in the order sent.
    pub(crate) fn run(&mut self) -> Vec<Asked> {
        let mut asked = Vec::new();
        for _ in 0..1000 {
            let mut idle = true;
            while let Some(action) = self.engine.poll_action() {
                idle = false;
                self.act(action);
            }
            idle &= !self.serve_all(&mut asked);
            if idle {
                return asked;
            }
        }
        panic!("the engine never comes to rest");
    }

    /// Lets time pass, up to each timeout in turn.
    pub(crate) fn pass(&mut self, time: Duration) -> Vec<Asked> {
        let end = self.now + time;
        let mut asked = Vec::new();
        for _ in 0..10_000 {
            asked.append(&mut self.run());
            match self.engine.next_timeout().filter(|at| *at <= end) {
                Some(at) => {
                    self.now = self.now.max(at);
                    self.engine.handle_timeout(self.now);
                }
                None => {
                    self.now = end;
                    self.engine.handle_timeout(end);
                    asked.append(&mut self.run());
                    return asked;
                }
            }
        }
        panic!("the engine sets alarms without end");
    }

    pub(crate) fn answer(&mut self, asked: &Asked, response: Response) {
        self.engine.handle(
            self.now,
            asked.link,
            Event::Answer {
                token: asked.token,
                response: Box::new(response),
                sizes: (100, 200),
            },
        );
    }

    /// Breaks the connection that carried a request.
    pub(crate) fn cut(&mut self, link: LinkId) {
        self.links.retain(|(id, _)| *id != link);
        let cause = Error::new(Kind::Unreachable, "the broker closed the connection");
        self.engine.handle(self.now, link, Event::Down(cause));
    }

    pub(crate) fn address(&self, link: LinkId) -> &str {
        &self.links.iter().find(|(id, _)| *id == link).unwrap().1
    }

    /// The hosts that are connected, in the order of their dials.
    pub(crate) fn connected(&self) -> Vec<&str> {
        self.links.iter().map(|(_, host)| &**host).collect()
    }

    pub(crate) fn act(&mut self, action: Action) {
        match action {
            Action::Dial(link, dial) => {
                let Dial {
                    host,
                    timeout,
                    expected,
                    ..
                } = *dial;
                self.expected.push(expected);
                self.dials.push(host.clone());
                self.setup.push(timeout);
                let dead = || Error::new(Kind::Unreachable, "connection refused");
                let dead = self.dead.contains(&host).then(dead);
                let unknown = || Error::new(Kind::Unresolved, "the name is unknown");
                let unknown = self.unknown.contains(&host).then(unknown);
                let refuses = self.refusing.is_empty() || self.refusing.contains(&host);
                let refusal = self.refusal.clone().filter(|_| refuses);
                if let Some(cause) = refusal.or(dead).or(unknown) {
                    self.engine.handle(self.now, link, Event::Down(cause));
                } else {
                    self.links.push((link, host));
                    let versions = match (self.telemetry, self.checks) {
                        (false, false) => self.versions.clone(),
                        (telemetry, checks) => speaking(telemetry, checks),
                    };
                    self.engine.handle(self.now, link, Event::Up(versions));
                }
            }
            Action::Close(link) => self.links.retain(|(id, _)| *id != link),
            Action::Wake(_) => {}
        }
    }

    /// Serves what links have to send, as far as the test need not. Returns the rest.
    pub(crate) fn serve_once(&mut self) -> Vec<Asked> {
        let mut rest = Vec::new();
        self.serve_all(&mut rest);
        rest
    }

    fn serve_all(&mut self, rest: &mut Vec<Asked>) -> bool {
        let mut any = false;
        let links: VecDeque<_> = self.links.iter().map(|(link, _)| *link).collect();
        for link in links {
            while let Some(dispatch) = self.engine.poll_send(self.now, link) {
                any = true;
                let token = dispatch.token();
                let outgoing = match dispatch.into_outgoing() {
                    Ok(outgoing) => outgoing,
                    Err(error) => {
                        let event = Event::Unsendable { token, error };
                        self.engine.handle(self.now, link, event);
                        continue;
                    }
                };
                let Outgoing {
                    token,
                    request,
                    version,
                    ..
                } = outgoing;
                let asked = Asked {
                    link,
                    token,
                    request,
                    version,
                };
                self.serve(asked, rest);
            }
        }
        any
    }

    fn serve(&mut self, asked: Asked, rest: &mut Vec<Asked>) {
        match &asked.request {
            Request::Metadata(_) if self.metadata_silent => {}
            Request::Metadata(_) if self.metadata_code.is_error() => {
                let response = MetadataResponse {
                    error_code: self.metadata_code.0,
                    ..Default::default()
                };
                self.answer(&asked, Response::Metadata(response));
            }
            Request::Metadata(request) => {
                let response = self.metadata(request, asked.version);
                let host = self.address(asked.link).to_owned();
                self.metadata_from.push(host);
                let names = request.topics.iter().flatten();
                let names = names.filter_map(|topic| topic.name.as_deref());
                self.metadata_asked.push((
                    names.map(str::to_owned).collect(),
                    request.allow_auto_topic_creation,
                ));
                self.answer(&asked, Response::Metadata(response));
            }
            Request::InitProducerId(request) if request.transactional_id.is_none() => {
                self.producer_ids += 1;
                let response = InitProducerIdResponse {
                    error_code: self.producer_id_code.0,
                    producer_id: self.producer_ids,
                    ..Default::default()
                };
                self.answer(&asked, Response::InitProducerId(response));
            }
            _ => rest.push(asked),
        }
    }

    fn metadata(&self, request: &MetadataRequest, version: i16) -> MetadataResponse {
        let mut fitted = Request::Metadata(request.clone());
        fitted.fit(version);
        let Request::Metadata(MetadataRequest { topics, .. }) = &fitted else {
            return MetadataResponse::default();
        };
        let all = topics
            .as_ref()
            .is_none_or(|topics| version == 0 && topics.is_empty());
        if all {
            let rows = self.topics.iter();
            let rows: Vec<_> = rows.map(|(name, leaders)| (*name, &leaders[..])).collect();
            return answer(self.nodes, &rows);
        }
        let names = topics.iter().flatten();
        let names = names.filter_map(|topic| topic.name.as_deref());
        let mut unknown = Vec::new();
        let rows: Vec<_> = names
            .filter_map(|name| {
                let found = self.topics.iter().find(|(topic, _)| *topic == name);
                if found.is_none() {
                    unknown.push(name.to_owned());
                }
                found.map(|(topic, leaders)| (*topic, &leaders[..]))
            })
            .collect();
        let by_id = topics.iter().flatten();
        let by_id: Vec<_> = by_id
            .filter(|topic| topic.name.is_none())
            .map(|topic| topic.topic_id)
            .collect();
        let mut response = answer(self.nodes, &rows);
        response.cluster_id = self.cluster_id.map(Into::into);
        for (topic, byte) in response
            .topics
            .iter_mut()
            .zip(self.topic_id.into_iter().cycle())
        {
            topic.topic_id = Uuid([byte; 16]);
        }
        if !by_id.is_empty() {
            let all = self.topics.iter();
            let all: Vec<_> = all.map(|(name, leaders)| (*name, &leaders[..])).collect();
            let mut all = answer(1, &all).topics;
            for topic in &mut all {
                topic.topic_id = self
                    .topic_id
                    .map_or(topic.topic_id, |byte| Uuid([byte; 16]));
            }
            all.retain(|topic| by_id.contains(&topic.topic_id));
            response.topics.extend(all);
        }
        for name in unknown {
            let mut row = answer(1, &[(&name, &[])]).topics.remove(0);
            row.error_code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0;
            response.topics.push(row);
        }
        response
    }
}
