//! A whole client as one state machine: the cluster, single questions, and the work that makes it a producer or a consumer.
//!
//! The owner moves bytes and keeps time, and does nothing else. Five verbs: [`Engine::handle`] an event,
//! [`Engine::handle_timeout`], [`Engine::next_timeout`], [`Engine::poll_send`] for the next thing to send on a link, and
//! [`Engine::poll_action`] for the next thing to do.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use crate::api::{Response, Versions};
use crate::cluster::{Action, Cluster, LinkId, Next, Orphan, Owner};
use crate::config::Config;
use crate::connection::Outgoing;
use crate::error::{Error, Kind};
use crate::metadata::{Metadata, Topic};
use crate::observe::Observer;
use crate::operation::{Answer, Asker, OperationId, Operations, Question};
use crate::produce::request::Parcel;

/// What happened to a link.
#[derive(Debug)]
pub enum Event {
    /// The broker told its versions.
    Up(Versions),
    /// A request was answered.
    Answer {
        /// The request's token.
        token: u64,
        /// The answer.
        response: Response,
    },
    /// A request that has no answer was written to the socket.
    Written {
        /// The request's token.
        token: u64,
    },
    /// A request could not be encoded; nothing of it was written.
    Unsendable {
        /// The request's token.
        token: u64,
        /// Why.
        error: Error,
    },
    /// The connection broke, or never came to be.
    Down(Error),
}

/// Something to send.
#[derive(Debug)]
pub enum Dispatch {
    /// A request.
    Ready(Outgoing),
    /// Batches that still have to be compressed and summed: work to be done without holding the engine.
    Produce(Parcel),
}

impl Dispatch {
    /// The request's token.
    pub fn token(&self) -> u64 {
        match self {
            Dispatch::Ready(outgoing) => outgoing.token,
            Dispatch::Produce(parcel) => parcel.token(),
        }
    }

    /// The request, complete.
    ///
    /// # Errors
    /// A batch that cannot be compressed; to be reported as [`Event::Unsendable`].
    pub fn into_outgoing(self) -> Result<Outgoing, Error> {
        match self {
            Dispatch::Ready(outgoing) => Ok(outgoing),
            Dispatch::Produce(parcel) => parcel.finish(),
        }
    }
}

/// What every kind of client has.
#[derive(Debug)]
pub struct Core {
    pub(crate) cluster: Cluster,
    pub(crate) operations: Operations,
}

/// What makes an engine a producer or a consumer.
pub trait Work: fmt::Debug + Send + 'static {
    /// A request of this work was answered.
    #[doc(hidden)]
    fn handle_answer(
        &mut self,
        now: Instant,
        core: &mut Core,
        link: LinkId,
        token: u64,
        response: Response,
    );
    /// A request of this work will not be answered.
    #[doc(hidden)]
    fn handle_orphan(&mut self, now: Instant, core: &mut Core, orphan: Failed);
    /// A request without answer was written.
    #[doc(hidden)]
    fn handle_written(&mut self, now: Instant, core: &mut Core, token: u64);
    /// A question of this work was answered.
    #[doc(hidden)]
    fn handle_operation(
        &mut self,
        now: Instant,
        core: &mut Core,
        id: OperationId,
        outcome: Result<Answer, Error>,
    );
    /// Anything may have changed: ask for links, set alarms, give up what is late.
    #[doc(hidden)]
    fn pump(&mut self, now: Instant, core: &mut Core);
    /// What this work has to send on `link` now.
    #[doc(hidden)]
    fn next_dispatch(&mut self, now: Instant, core: &mut Core, link: LinkId) -> Option<Dispatch>;
    /// The client closes: everything undecided fails with `cause`.
    #[doc(hidden)]
    fn abort(&mut self, now: Instant, core: &mut Core, cause: &Error);
}

/// A request of the work that will not be answered.
#[derive(Debug)]
pub struct Failed(pub(crate) Orphan);

/// No work of its own: questions only.
#[derive(Debug, Default)]
pub struct Questions;

impl Work for Questions {
    fn handle_answer(&mut self, _: Instant, _: &mut Core, _: LinkId, _: u64, _: Response) {}
    fn handle_orphan(&mut self, _: Instant, _: &mut Core, _: Failed) {}
    fn handle_written(&mut self, _: Instant, _: &mut Core, _: u64) {}
    fn handle_operation(
        &mut self,
        _: Instant,
        _: &mut Core,
        _: OperationId,
        _: Result<Answer, Error>,
    ) {
    }
    fn pump(&mut self, _: Instant, _: &mut Core) {}
    fn next_dispatch(&mut self, _: Instant, _: &mut Core, _: LinkId) -> Option<Dispatch> {
        None
    }
    fn abort(&mut self, _: Instant, _: &mut Core, _: &Error) {}
}

/// A client without sockets and clocks.
#[derive(Debug)]
pub struct Engine<W> {
    pub(crate) core: Core,
    pub(crate) work: W,
    closed: Option<Error>,
}

impl<W: Work> Engine<W> {
    pub(crate) fn with_work(config: Arc<Config>, seed: u64, work: W) -> Engine<W> {
        let core = Core {
            cluster: Cluster::new(config, seed),
            operations: Operations::default(),
        };
        Engine {
            core,
            work,
            closed: None,
        }
    }

    /// Takes in what happened to a link.
    pub fn handle(&mut self, now: Instant, link: LinkId, event: Event) {
        match event {
            Event::Up(versions) => self.core.cluster.link_up(link, versions),
            Event::Answer { token, response } => self.handle_answer(now, link, token, response),
            Event::Written { token } => {
                self.core.cluster.answered(link, token);
                self.work.handle_written(now, &mut self.core, token);
            }
            Event::Unsendable { token, error } => {
                if let Some(owner) = self.core.cluster.answered(link, token) {
                    self.handle_orphan(
                        now,
                        Orphan {
                            token,
                            owner,
                            error,
                            sent: false,
                        },
                    );
                }
            }
            Event::Down(cause) => self.core.cluster.link_down(now, link, &cause),
        }
        self.settle(now);
    }

    /// To be called when [`Engine::next_timeout`] has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.core.cluster.take_alarm(now) {
            self.settle(now);
        }
    }

    /// When [`Engine::handle_timeout`] is due; may be early.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.core.cluster.alarm()
    }

    /// The next thing to send on `link`. After `None`, an [`Action::Wake`] says when to ask again.
    pub fn poll_send(&mut self, now: Instant, link: LinkId) -> Option<Dispatch> {
        loop {
            match self.core.cluster.next_queued(link) {
                Next::Send(outgoing) => return Some(Dispatch::Ready(outgoing)),
                Next::Refused(orphan) => {
                    self.handle_orphan(now, orphan);
                    self.settle(now);
                }
                Next::Nothing => break,
            }
        }
        let dispatch = self.work.next_dispatch(now, &mut self.core, link);
        match &dispatch {
            Some(dispatch) => self.core.cluster.sent(link, dispatch.token()),
            None => self.core.cluster.not_woken(link),
        }
        dispatch
    }

    /// Whether this link is still wanted: not closed since [`Action::Dial`].
    pub fn has_link(&self, link: LinkId) -> bool {
        self.core.cluster.has_link(link)
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.core.cluster.poll_action()
    }

    /// Starts to find out the answer to `question`.
    pub fn ask(&mut self, now: Instant, question: Question, deadline: Instant) -> OperationId {
        let Core {
            cluster,
            operations,
        } = &mut self.core;
        let id = operations.start(now, cluster, question, Asker::Caller, deadline);
        if let Some(cause) = self.closed.clone() {
            operations.abort(cluster, &cause);
        }
        self.settle(now);
        id
    }

    /// The answer, once; to be asked again after anything happened.
    pub fn take_answer(&mut self, id: OperationId) -> Option<Result<Answer, Error>> {
        self.core.operations.take(id)
    }

    /// Nobody waits for the answer any more.
    pub fn cancel(&mut self, id: OperationId) {
        self.core.operations.cancel(&mut self.core.cluster, id);
    }

    /// Fails everything undecided with `cause`, closes every link; nothing can be started any more.
    pub fn close(&mut self, now: Instant, cause: &Error) {
        self.closed.get_or_insert_with(|| cause.clone());
        self.core.operations.abort(&mut self.core.cluster, cause);
        self.work.abort(now, &mut self.core, cause);
        self.core.cluster.close_all(cause);
        self.settle(now);
    }

    /// The cause given to [`Engine::close`].
    pub fn closed(&self) -> Option<&Error> {
        self.closed.as_ref()
    }

    /// The view of the cluster.
    pub fn metadata(&self) -> &Metadata {
        self.core.cluster.view()
    }

    /// The topic, if its partitions are known. If not, why not as far as known: an error that is not retriable will not
    /// go away by waiting.
    ///
    /// # Errors
    /// `Some` of the cause, or `None` while nothing is known.
    pub fn topic(&self, name: &str) -> Result<&Topic, Option<Error>> {
        let view = self.core.cluster.view();
        view.topic(name).ok_or_else(|| {
            let error = match view.problem(name) {
                Some(code) => Error::from_code(code, None).calling("Metadata"),
                None => self.core.cluster.refresh_error()?.clone(),
            };
            Some(error.topic_is(&name.into()))
        })
    }

    /// Why no broker can be asked anything at the moment; `None` if one is connected.
    pub fn trouble(&self) -> Option<Error> {
        self.core.cluster.trouble()
    }

    /// Whether the first connection is still being made, and nothing is wrong so far.
    pub fn is_starting(&self, now: Instant) -> bool {
        self.core.cluster.is_starting(now)
    }

    /// [`Engine::trouble`], if waiting cannot help.
    pub fn hopeless(&self) -> Option<Error> {
        if self.core.cluster.is_hopeless() {
            self.trouble()
        } else {
            None
        }
    }

    /// What happened since it was last drained.
    pub fn observer(&mut self) -> &mut Observer {
        &mut self.core.cluster.observer
    }

    /// The settings.
    pub fn config(&self) -> &Arc<Config> {
        &self.core.cluster.config
    }

    fn handle_answer(&mut self, now: Instant, link: LinkId, token: u64, response: Response) {
        let Core {
            cluster,
            operations,
        } = &mut self.core;
        match (cluster.answered(link, token), response) {
            (Some(Owner::Metadata), Response::Metadata(answer)) => {
                cluster.handle_metadata(now, link, &answer)
            }
            (Some(Owner::Operation), response) => {
                operations.handle_answer(now, cluster, token, link, response)
            }
            (Some(Owner::Work), response) => {
                self.work
                    .handle_answer(now, &mut self.core, link, token, response)
            }
            (Some(Owner::Metadata) | None, _) => {}
        }
    }

    fn handle_orphan(&mut self, now: Instant, orphan: Orphan) {
        let Core {
            cluster,
            operations,
        } = &mut self.core;
        match orphan.owner {
            Owner::Metadata => cluster.refresh_failed(now, orphan.error),
            Owner::Operation => operations.handle_orphan(now, cluster, orphan),
            Owner::Work => self.work.handle_orphan(now, &mut self.core, Failed(orphan)),
        }
    }

    /// Follows up on what happened until nothing more follows from it.
    pub(crate) fn settle(&mut self, now: Instant) {
        if self.closed.is_none() {
            self.core.cluster.pump(now);
            self.core.operations.pump(now, &mut self.core.cluster);
            self.work.pump(now, &mut self.core);
            // The work may have wanted a topic, and a question may have been waiting for what it wanted.
            self.core.cluster.pump(now);
        }
        loop {
            if let Some(orphan) = self.core.cluster.poll_orphan() {
                self.handle_orphan(now, orphan);
            } else if let Some((id, outcome)) = self.core.operations.take_for_work() {
                self.work.handle_operation(now, &mut self.core, id, outcome);
            } else {
                break;
            }
        }
    }
}

impl Engine<Questions> {
    /// An engine that only answers questions. `seed` drives everything that is left to chance.
    pub fn new(config: Arc<Config>, seed: u64) -> Engine<Questions> {
        Engine::with_work(config, seed, Questions)
    }
}

/// What a closed client says.
pub fn closed_error() -> Error {
    Error::new(Kind::Closed, "the client is closed")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ottla_protocol::ErrorCode;
    use ottla_protocol::messages::create_topics_response::CreatableTopicResult;
    use ottla_protocol::messages::list_offsets_response::{
        ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
    };
    use ottla_protocol::messages::{
        CreateTopicsRequest, CreateTopicsResponse, ListOffsetsResponse,
    };

    use super::*;
    use crate::api::Request;
    use crate::config::Role;
    use crate::script::{Asked, Script, config};

    fn admin(pairs: &[(&'static str, &'static str)]) -> Script<Questions> {
        Script::new(Engine::new(config(Role::Admin, pairs), 7))
    }

    fn ask(script: &mut Script<Questions>, question: Question, seconds: u64) -> OperationId {
        let deadline = script.now + Duration::from_secs(seconds);
        script.engine.ask(script.now, question, deadline)
    }

    fn create() -> Question {
        Question::CreateTopics(CreateTopicsRequest::default())
    }

    fn created(code: ErrorCode) -> Response {
        let topics = vec![CreatableTopicResult {
            name: "t".into(),
            error_code: code.0,
            ..Default::default()
        }];
        Response::CreateTopics(CreateTopicsResponse {
            topics,
            ..Default::default()
        })
    }

    #[test]
    fn a_dead_bootstrap_address_is_passed_over() {
        let mut script = admin(&[("bootstrap.servers", "dead:1,boot:1")]);
        script.dead.push("dead".to_owned());
        for seed in 0..8 {
            script.engine = Engine::new(
                config(Role::Admin, &[("bootstrap.servers", "dead:1,boot:1")]),
                seed,
            );
            let id = ask(
                &mut script,
                Question::Metadata {
                    topics: None,
                    auto_create: false,
                },
                10,
            );
            script.pass(Duration::from_secs(1));
            assert!(
                matches!(script.engine.take_answer(id), Some(Ok(Answer::Metadata(_)))),
                "seed {seed}"
            );
        }
    }

    #[test]
    fn a_silent_bootstrap_address_is_not_waited_for() {
        let mut script = admin(&[("bootstrap.servers", "silent:1,boot:1")]);
        ask(&mut script, create(), 10);
        let mut dialled = Vec::new();
        for _ in 0..20 {
            while let Some(action) = script.engine.poll_action() {
                if let Action::Dial { host, .. } = action {
                    dialled.push(host);
                }
            }
            script.now += Duration::from_millis(100);
            script.engine.handle_timeout(script.now);
        }
        dialled.sort_unstable();
        assert_eq!(dialled, ["boot", "silent"]);
    }

    #[test]
    fn no_broker_at_all_is_said_with_each_cause() {
        let mut script = admin(&[("bootstrap.servers", "x:1,y:2")]);
        script.dead = vec!["x".to_owned(), "y".to_owned()];
        let id = ask(&mut script, create(), 5);
        assert!(script.engine.is_starting(script.now));
        script.pass(Duration::from_secs(4));
        assert!(script.engine.take_answer(id).is_none());
        assert!(!script.engine.is_starting(script.now));
        script.pass(Duration::from_secs(1));
        let error = script.engine.take_answer(id).unwrap().unwrap_err();
        assert_eq!(error.kind(), Kind::Unreachable);
        assert_eq!(
            error.message(),
            "no broker could be reached: x:1: connection refused; y:2: connection refused"
        );
        assert!(
            script.dials.len() < 40,
            "{} dials in 5 s are too many",
            script.dials.len()
        );
    }

    #[test]
    fn strangers_at_every_address_make_waiting_hopeless() {
        let mut script = admin(&[]);
        ask(&mut script, create(), 60);
        let Some(Action::Dial { link, .. }) = script.engine.poll_action() else {
            panic!("no dial")
        };
        assert!(script.engine.hopeless().is_none());
        script.engine.handle(
            script.now,
            link,
            Event::Down(Error::new(Kind::NotKafka, "the port speaks TLS")),
        );
        let error = script.engine.hopeless().unwrap();
        assert_eq!(error.kind(), Kind::NotKafka);
        assert_eq!(
            error.message(),
            "no broker could be reached: boot:1: the port speaks TLS"
        );
    }

    #[test]
    fn the_controller_is_asked_and_found_again() {
        let mut script = admin(&[]);
        let id = ask(&mut script, create(), 10);
        let asked = script.run();
        assert_eq!(script.address(asked[0].link), "b1");
        script.answer(&asked[0], created(ErrorCode::NOT_CONTROLLER));
        let asked = script.pass(Duration::from_secs(2));
        script.answer(&asked[0], created(ErrorCode::TOPIC_ALREADY_EXISTS));
        let Some(Ok(Answer::CreateTopics(answer))) = script.engine.take_answer(id) else {
            panic!("no answer")
        };
        assert_eq!(
            ErrorCode(answer.topics[0].error_code),
            ErrorCode::TOPIC_ALREADY_EXISTS
        );
    }

    #[test]
    fn a_question_outlives_its_connection_but_not_its_deadline() {
        let mut script = admin(&[]);
        let id = ask(&mut script, create(), 10);
        let asked = script.run();
        script.cut(asked[0].link);
        let again = script.pass(Duration::from_secs(5));
        assert_eq!(again.len(), 1);
        script.pass(Duration::from_secs(5));
        let error = script.engine.take_answer(id).unwrap().unwrap_err();
        assert!(error.message().contains("closed the connection"), "{error}");
        script.answer(&again[0], created(ErrorCode::NONE));
        assert!(
            script.engine.take_answer(id).is_none(),
            "it was answered already"
        );
    }

    fn offsets(asked: &Asked, code: ErrorCode) -> Response {
        let Request::ListOffsets(request) = &asked.request else {
            panic!("not a ListOffsets")
        };
        let topics = request
            .topics
            .iter()
            .map(|topic| ListOffsetsTopicResponse {
                name: topic.name.clone(),
                partitions: topic
                    .partitions
                    .iter()
                    .map(|part| ListOffsetsPartitionResponse {
                        partition_index: part.partition_index,
                        error_code: code.0,
                        offset: i64::from(part.partition_index) * 100,
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            })
            .collect();
        Response::ListOffsets(ListOffsetsResponse {
            topics,
            ..Default::default()
        })
    }

    #[test]
    fn offsets_come_from_each_leader_in_the_order_asked() {
        let mut script = admin(&[]);
        let wanted = [1, 0, 1].map(|partition| ("t".into(), partition, crate::operation::LATEST));
        let id = ask(&mut script, Question::Offsets(wanted.to_vec()), 10);
        let asked = script.run();
        assert_eq!(asked.len(), 2);
        for request in &asked {
            script.answer(request, offsets(request, ErrorCode::NONE));
        }
        let Some(Ok(Answer::Offsets(found))) = script.engine.take_answer(id) else {
            panic!("no answer")
        };
        assert_eq!(
            found
                .iter()
                .map(|row| row.as_ref().unwrap().offset)
                .collect::<Vec<_>>(),
            [100, 0, 100]
        );
    }

    #[test]
    fn one_partition_that_fails_does_not_hide_the_others() {
        let mut script = admin(&[]);
        let wanted = [0, 1, 7].map(|partition| ("t".into(), partition, crate::operation::EARLIEST));
        let id = ask(&mut script, Question::Offsets(wanted.to_vec()), 10);
        for request in script.run() {
            let code = if script.address(request.link) == "b1" {
                ErrorCode::NONE
            } else {
                ErrorCode::TOPIC_AUTHORIZATION_FAILED
            };
            script.answer(&request, offsets(&request, code));
        }
        script.pass(Duration::from_secs(1));
        let Some(Ok(Answer::Offsets(found))) = script.engine.take_answer(id) else {
            panic!("no answer")
        };
        assert_eq!(found[0].as_ref().unwrap().offset, 0);
        assert_eq!(
            found[1].as_ref().unwrap_err().code(),
            Some(ErrorCode::TOPIC_AUTHORIZATION_FAILED)
        );
        assert!(
            found[2]
                .as_ref()
                .unwrap_err()
                .message()
                .contains("the topic has 2")
        );
    }

    #[test]
    fn offsets_of_an_unknown_topic_are_waited_for_until_the_deadline() {
        let mut script = admin(&[]);
        let id = ask(
            &mut script,
            Question::Offsets(vec![("nope".into(), 0, 0)]),
            5,
        );
        script.pass(Duration::from_secs(4));
        assert!(script.engine.take_answer(id).is_none());
        script.pass(Duration::from_secs(1));
        let error = script.engine.take_answer(id).unwrap().unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
    }

    #[test]
    fn metadata_is_asked_for_again_when_it_is_old() {
        let mut script = admin(&[("metadata.max.age.ms", "1000")]);
        script.engine.core.cluster.want(script.now, &"t".into());
        script.engine.settle(script.now);
        script.run();
        script.topics = vec![("t", vec![2, 1])];
        script.pass(Duration::from_millis(900));
        assert_eq!(script.engine.metadata().leader("t", 0), Some((1, 1)));
        script.pass(Duration::from_millis(200));
        assert_eq!(script.engine.metadata().leader("t", 0), Some((2, 1)));
    }

    #[test]
    fn why_there_is_no_metadata_is_said() {
        let mut script = admin(&[]);
        let wanted = vec![("t".into(), 0, 0)];
        let id = ask(&mut script, Question::Offsets(wanted), 5);
        let Some(Action::Dial { link, .. }) = script.engine.poll_action() else {
            panic!("no dial")
        };
        let old = Versions::new(&ottla_protocol::messages::ApiVersionsResponse::default());
        script.engine.handle(script.now, link, Event::Up(old));
        assert!(script.engine.poll_send(script.now, link).is_none());
        let error = script.engine.topic("t").unwrap_err().unwrap();
        assert!(error.is_retriable(), "another broker may do better");
        script.now += Duration::from_secs(5);
        script.engine.handle_timeout(script.now);
        let error = script.engine.take_answer(id).unwrap().unwrap_err();
        assert!(
            error.message().contains("does not know Metadata"),
            "{error}"
        );
        assert_eq!(error.broker(), Some("boot:1"));
    }

    #[test]
    fn only_topics_that_are_wanted_are_remembered() {
        let mut script = admin(&[("metadata.max.age.ms", "1000")]);
        let cluster = &mut script.engine.core.cluster;
        for topic in ["t", "u", "nope"] {
            cluster.want(script.now, &topic.into());
        }
        script.topics = vec![("t", vec![1]), ("u", vec![1])];
        script.engine.settle(script.now);
        script.run();
        let view = script.engine.metadata();
        let id = view.topic("u").unwrap().id;
        assert!(view.name_of(id).is_some() && view.problem("nope").is_some());
        for topic in ["u", "nope"] {
            script.engine.core.cluster.unwant(topic);
        }
        script.pass(Duration::from_secs(2));
        let view = script.engine.metadata();
        assert!(view.topic("t").is_some() && view.topic("u").is_none());
        assert!(view.problem("nope").is_none());
        assert_ne!(view.name_of(id).map(|name| &**name), Some("u"));
    }

    #[test]
    fn closing_answers_everything_and_hangs_up() {
        let mut script = admin(&[]);
        let id = ask(&mut script, create(), 10);
        script.run();
        script.engine.close(script.now, &closed_error());
        assert_eq!(
            script.engine.take_answer(id).unwrap().unwrap_err().kind(),
            Kind::Closed
        );
        let Some(Action::Close(link)) = script.engine.poll_action() else {
            panic!("the connection stays open")
        };
        assert!(!script.engine.has_link(link));
        let late = ask(&mut script, create(), 10);
        assert_eq!(
            script.engine.take_answer(late).unwrap().unwrap_err().kind(),
            Kind::Closed
        );
    }
}
