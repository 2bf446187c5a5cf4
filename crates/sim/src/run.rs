//! One run of one seed, from its first event to the checker's verdict.

mod groups;
mod share;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use ottla_broker::BrokerError;
use ottla_engine::consumer::Start;
use ottla_engine::{Config, ErrorCode, Role};

use crate::admin::Admin;
use crate::batches::Wish;
use crate::book::Book;
use crate::brokers::Brokers;
use crate::chance::Chance;
use crate::check::{check, check_hostile, shared_states};
use crate::client::Client;
use crate::consumer::Consumer;
use crate::history::{Act, Anomaly, Fate, History, Place, RecordId, Seen, Told, Value};
use crate::plan::aging::is_compacted;
use crate::plan::{Aim, Fault, Member, Plan, What, login};
use crate::plant::Plant;
use crate::producer::Producer;
use crate::shared::Shared;
use crate::tally::Tally;
use crate::theme::Theme;
use crate::transactor::{Transactor, group};
use crate::world::World;

/// When, after everything healed, every client must have got over it.
const RECOVERY: Duration = Duration::from_secs(45);
/// How long consumers may take to read what is there, and producers to deliver it.
const CATCH_UP: Duration = Duration::from_secs(60);
/// What close() is given, and how much longer it may take.
const CLOSE: Duration = Duration::from_secs(5);
const MARGIN: Duration = Duration::from_secs(1);
/// Within this time every record has its delivery result, and every call its end, whatever brokers send.
const LONGEST_DELIVERY: Duration = Duration::from_secs(40);
const STEP: Duration = Duration::from_millis(500);
/// This many steps without a record, and there are no more.
const IDLE: u32 = 20;
/// The most steps of the referee.
const LONGEST: u32 = 60;

/// What a run is to be like.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// What it is about.
    pub theme: Theme,
    /// A mistake made on purpose.
    pub plant: Option<Plant>,
    /// How many of the plan's steps happen; all if `None`.
    pub steps: Option<usize>,
    /// Whether the trace is kept.
    pub trace: bool,
    /// Whether brokers are malicious: then only what holds whatever they send is checked (R6, R14, R15, and of R20 that members of share
    /// groups receive the results of their acknowledgements).
    pub hostile: bool,
}

/// How a run ended.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Invariants that did not hold.
    pub anomalies: Vec<Anomaly>,
    /// What was met.
    pub tally: Tally,
    /// How long it took, in simulated time.
    pub time: Duration,
    /// Steps of the whole plan.
    pub steps: usize,
    /// Records that were to be sent, and records that were read.
    pub records: (usize, usize),
    /// Events that happened.
    pub events: u64,
    /// Responses that were falsified.
    pub lied: u64,
    /// What happened, where it was kept.
    pub trace: Vec<String>,
}

/// Runs a seed. What panics is an anomaly like any other.
pub fn run(seed: u64, options: Options) -> Report {
    let ran = catch_unwind(AssertUnwindSafe(|| {
        Run::new(seed, options).map(Run::finish)
    }));
    let text = match ran {
        Ok(Ok(report)) => return report,
        Ok(Err(error)) => error.to_string(),
        Err(cause) => {
            let text = cause.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| cause.downcast_ref::<String>().cloned());
            text.unwrap_or_default()
        }
    };
    Report {
        seed,
        anomalies: vec![Anomaly {
            invariant: "R15",
            name: "panic",
            text,
        }],
        steps: options.theme.plan(seed).steps.len(),
        ..Report::default()
    }
}

/// The shortest prefix of a failing seed's steps that still fails, with its trace.
pub fn shorten(seed: u64, options: Options) -> Report {
    let most = options.theme.plan(seed).steps.len();
    let failing = |steps: usize, trace: bool| {
        let report = run(
            seed,
            Options {
                steps: Some(steps),
                trace,
                ..options
            },
        );
        (!report.anomalies.is_empty()).then_some(report)
    };
    let shortest = (0..=most).find(|steps| failing(*steps, false).is_some());
    let steps = shortest.unwrap_or(most);
    failing(steps, true).map_or_else(Report::default, |report| Report { steps, ..report })
}

struct Run {
    seed: u64,
    options: Options,
    plan: Plan,
    /// Steps of the whole plan.
    steps: usize,
    world: World,
    producers: Vec<usize>,
    /// The producers of each transactional id, in the order of their beginnings.
    transactors: Vec<Vec<usize>>,
    /// What those draw from that begin later.
    births: Chance,
    consumers: Vec<usize>,
    /// The processes of each consumer of a group, in the order of their beginnings.
    members: Vec<Vec<usize>>,
    /// The processes of each member of a share group, likewise.
    sharers: Vec<Vec<usize>>,
    admins: Vec<usize>,
    probes: Vec<RecordId>,
    /// Topics that admin clients made after the faults: the calls' places.
    made: Vec<usize>,
}

impl Run {
    fn new(seed: u64, options: Options) -> Result<Run, BrokerError> {
        let mut plan = options.theme.plan(seed);
        let steps = plan.steps.len();
        if options.hostile {
            plan.keep_little();
        }
        let mut chance = plan.chance.clone();
        let mut book = Book::new(options.trace);
        let mortal = plan.topics.iter().filter(|topic| topic.mortal);
        book.history.mortal = mortal.map(|topic| Arc::clone(&topic.name)).collect();
        let brokers = Brokers::new(book.now, seed, &plan)?;
        let network = chance.fork();
        let mut world = World::new(book, brokers, network, plan.weather, options.plant);
        let topics = plan.topics.iter();
        world.topics = topics
            .map(|topic| (Arc::clone(&topic.name), topic.partitions))
            .collect();
        if options.hostile {
            world.turn_hostile(chance.fork());
        }
        let mut producers = Vec::new();
        for member in &plan.producers {
            if let Some(config) = config(&mut world.book, Role::Producer, member) {
                let client = Producer::new(&mut world.book, config, &mut chance, options.plant);
                producers.push(world.join(Client::Producer(client)));
            }
        }
        let mut consumers = Vec::new();
        for member in &plan.consumers {
            if let Some(client) = consumer(&mut world.book, member, &mut chance, options.plant) {
                consumers.push(world.join(Client::Consumer(client)));
            }
        }
        let mut admins = Vec::new();
        for (number, member) in plan.admins.iter().enumerate() {
            if let Some(config) = config(&mut world.book, Role::Admin, member) {
                let client = Admin::new(number, plan.nodes, config, &mut chance, options.plant);
                admins.push(world.join(Client::Admin(client)));
            }
        }
        let kept = options.steps.unwrap_or(plan.steps.len());
        plan.steps.truncate(kept);
        world.set_counting(options.theme != Theme::Everything);
        let mut run = Run {
            seed,
            options,
            plan,
            steps,
            world,
            producers,
            transactors: Vec::new(),
            births: chance.fork(),
            consumers,
            members: Vec::new(),
            sharers: Vec::new(),
            admins,
            probes: Vec::new(),
            made: Vec::new(),
        };
        for id in 0..run.plan.transactors.len() {
            run.transactors.push(Vec::new());
            run.succeed(id);
        }
        run.members = vec![Vec::new(); run.plan.members.len()];
        run.count_strategies();
        run.begin_shares();
        Ok(run)
    }

    fn finish(mut self) -> Report {
        for step in std::mem::take(&mut self.plan.steps) {
            let at = self.world.book.moment(step.at);
            self.world.run_until(at);
            self.act(&step.what);
        }
        let end = self.world.book.moment(self.plan.end);
        self.world.run_until(end);
        self.world.heal_all();
        if self.options.hostile {
            self.pass(LONGEST_DELIVERY);
            self.close();
            return self.judge();
        }
        // A client that nobody has used yet has all addresses still to try, and `max.block.ms` may be shorter than that.
        for producer in 0..self.producers.len() {
            self.send(producer, 0, None, 0);
        }
        let topics = self.world.topics.clone();
        for client in self.transactors.concat() {
            self.with_transactor(client, |transactor, _| transactor.find_out(&topics));
        }
        self.hurry_members();
        self.hurry_sharers();
        self.pass(RECOVERY);
        self.world.book.history.well = Some(self.world.book.at());
        self.probe();
        self.probe_transactions();
        self.make();
        self.catch_up();
        if self.options.theme == Theme::Truncated {
            // A follower that is behind learns the end of the log from the leader.
            self.pass(CATCH_UP / 4);
        }
        self.stay();
        self.close();
        self.referee();
        self.judge()
    }

    fn pass(&mut self, time: Duration) {
        let until = self.world.book.now + time;
        self.world.run_until(until);
    }

    fn act(&mut self, what: &What) {
        match what {
            What::Send {
                producer,
                topic,
                partition,
                count,
                padding,
            } => {
                for _ in 0..*count {
                    self.send(*producer, *topic, *partition, *padding);
                }
            }
            What::Flush(producer) => {
                self.with_producer(*producer, |producer, book| {
                    book.say(producer.name().to_owned(), "flush");
                    producer.flush(book);
                });
            }
            What::Assign(consumer, which) => self.assign(*consumer, *which),
            What::Follow(consumer, which) => {
                let topics = self.world.topics.iter().enumerate();
                let chosen = topics.filter(|(number, _)| which >> number & 1 == 0);
                let chosen: Vec<_> = chosen.map(|(_, (name, _))| Arc::clone(name)).collect();
                self.with_consumer(*consumer, |consumer, book| {
                    consumer.follow(book, chosen, Start::Beginning);
                });
            }
            What::Seek(consumer, which, aim) => {
                let to = match aim {
                    Aim::Offset(offset) => Start::Offset(*offset),
                    Aim::Beginning => Start::Beginning,
                    Aim::End => Start::End,
                    Aim::Beyond => Start::Offset(1 << 40),
                };
                self.with_place(*consumer, *which, |consumer, book, place| {
                    consumer.seek(book, place, to);
                });
            }
            What::Pause(consumer, which, paused) => {
                self.with_place(*consumer, *which, |consumer, book, place| {
                    consumer.pause(book, place, *paused);
                });
            }
            What::Administer(admin, which) => {
                let topics = self.world.topics.clone();
                self.with_admin(*admin, |admin, book| admin.act(book, *which, &topics));
            }
            What::Transact(id, which) => {
                let of_id = self.transactors.get(*id);
                let all = of_id.map(Vec::as_slice).unwrap_or_default();
                // Whoever was succeeded goes on at times.
                let earlier = all.len().checked_sub(2).filter(|_| which % 4 == 0);
                let client = all.get(earlier.unwrap_or(all.len().saturating_sub(1)));
                if let Some(client) = client.copied() {
                    if self.is_over(client) {
                        self.succeed(*id);
                    }
                    let client = if self.is_over(client) {
                        self.newest(*id)
                    } else {
                        Some(client)
                    };
                    if let Some(client) = client {
                        self.transact(client, *which);
                    }
                }
            }
            What::Succeed(id) => {
                if let Some(client) = self.succeed(*id) {
                    self.transact(client, *id as u64);
                }
            }
            What::Join(member) if self.is_about_shares() => self.begin_sharing(*member),
            What::Join(member) => self.join(*member),
            What::Deed(member, which) if self.is_about_shares() => {
                self.sharer_acts(*member, *which);
            }
            What::Deed(member, which) => self.deed(*member, *which),
            What::Die(member) if self.is_about_shares() => self.sharer_dies(*member),
            What::Die(member) => self.die(*member),
            What::Strike(fault) => {
                let newest = |id: usize| self.newest(id).unwrap_or(usize::MAX);
                let fault = match *fault {
                    Fault::Sleeps(id, lasting) => Fault::Sleeps(newest(id), lasting),
                    Fault::CutOff(id, lasting) => Fault::CutOff(newest(id), lasting),
                    Fault::TimeJumps(id, ms) => {
                        let of_number = self.producers.get(id).copied();
                        Fault::TimeJumps(of_number.unwrap_or(usize::MAX), ms)
                    }
                    _ => fault.clone(),
                };
                self.world.strike(&fault);
            }
        }
    }

    /// The newest producer of a transactional id, or process of a consumer of a group.
    fn newest(&self, id: usize) -> Option<usize> {
        let all = match self.options.theme {
            Theme::Groups | Theme::ConsumerGroups => &self.members,
            Theme::Share => &self.sharers,
            _ => &self.transactors,
        };
        all.get(id)?.last().copied()
    }

    /// Another producer of a transactional id begins.
    fn succeed(&mut self, id: usize) -> Option<usize> {
        let member = self.plan.transactors.get(id)?;
        let book = &mut self.world.book;
        let config = config(book, Role::Producer, member)?;
        let born = Transactor::new(book, id, config, &mut self.births, self.options.plant);
        let client = self.world.join(Client::Transactor(born));
        self.transactors.get_mut(id)?.push(client);
        Some(client)
    }

    fn with_transactor<R>(
        &mut self,
        client: usize,
        f: impl FnOnce(&mut Transactor, &mut Book) -> R,
    ) -> Option<R> {
        self.world
            .with(client, |client, book| Some(f(client.transactor()?, book)))?
    }

    fn is_over(&mut self, client: usize) -> bool {
        let found = self.world.clients.get_mut(client);
        let found = found.and_then(Client::transactor);
        found.is_none_or(|transactor| transactor.is_over())
    }

    /// A producer is to run another transaction; one that stands still begins when it goes on.
    fn transact(&mut self, client: usize, which: u64) {
        let topics = self.world.topics.clone();
        let found = self.world.clients.get_mut(client);
        if let Some(transactor) = found.and_then(Client::transactor) {
            transactor.transact(which, &topics);
        }
        if !self.world.is_asleep(client) {
            self.with_transactor(client, |_, _| ());
        }
    }

    /// Everything is well again, and has been for a while: of each transactional id somebody commits a transaction.
    fn probe_transactions(&mut self) {
        let topics = self.world.topics.clone();
        for id in 0..self.transactors.len() {
            // One that was made earlier may have got its identity later, when it was away for a while.
            let all = self.transactors.get(id).cloned().unwrap_or_default();
            let alive = all.into_iter().filter_map(|client| {
                let of_client = self.with_transactor(client, |transactor, book| {
                    let is_over = transactor.is_over();
                    (!is_over).then(|| transactor.initialised_at(book))
                });
                Some((of_client.flatten()?, client))
            });
            let last = alive.max().map(|(_, client)| client);
            let client = last.or_else(|| self.succeed(id));
            if let Some(client) = client {
                self.with_transactor(client, |transactor, _| transactor.probe(&topics));
            }
        }
    }

    fn send(
        &mut self,
        producer: usize,
        topic: usize,
        partition: Option<i32>,
        padding: usize,
    ) -> Option<RecordId> {
        let (name, _) = self.world.topics.get(topic)?;
        let compacted = is_compacted(name);
        // Records of one batch have several keys, so that some of them are replaced and some are not.
        let number = match compacted {
            true => Chance::new(self.world.book.history.sends.len() as u64).below(6),
            false => padding,
        };
        let needs_key = compacted || partition.is_none();
        let key = needs_key.then(|| number.to_string().into_bytes());
        let wish = Wish {
            topic: Arc::clone(name),
            partition,
            key,
            padding,
        };
        self.with_producer(producer, |producer, book| {
            let id = producer.send(book, wish);
            if compacted {
                book.history.keys.insert(id, number);
            }
            id
        })
    }

    fn assign(&mut self, consumer: usize, which: u64) {
        let mut chance = Chance::new(which);
        let mut wanted = Vec::new();
        for (name, partitions) in &self.world.topics {
            for partition in 0..*partitions {
                let start =
                    chance.pick(&[Start::Beginning, Start::Beginning, Start::Reset, Start::End]);
                if chance.percent(60) {
                    wanted.push((
                        Arc::clone(name),
                        partition,
                        start.unwrap_or(Start::Beginning),
                    ));
                }
            }
        }
        self.with_consumer(consumer, |consumer, book| {
            // A partition that continues keeps its position, which the checker knows already.
            let before = consumer.assignment();
            for (topic, partition, start) in &mut wanted {
                if *start == Start::Reset && before.contains(&(Arc::clone(topic), *partition)) {
                    *start = Start::Beginning;
                }
            }
            consumer.assign(book, wanted);
        });
    }

    fn with_producer<R>(
        &mut self,
        number: usize,
        f: impl FnOnce(&mut Producer, &mut Book) -> R,
    ) -> Option<R> {
        let client = *self.producers.get(number)?;
        self.world
            .with(client, |client, book| Some(f(client.producer()?, book)))?
    }

    fn with_consumer<R>(
        &mut self,
        number: usize,
        f: impl FnOnce(&mut Consumer, &mut Book) -> R,
    ) -> Option<R> {
        let client = *self.consumers.get(number)?;
        self.world
            .with(client, |client, book| Some(f(client.consumer()?, book)))?
    }

    fn with_admin<R>(
        &mut self,
        number: usize,
        f: impl FnOnce(&mut Admin, &mut Book) -> R,
    ) -> Option<R> {
        let client = *self.admins.get(number)?;
        self.world
            .with(client, |client, book| Some(f(client.admin()?, book)))?
    }

    fn with_place(
        &mut self,
        consumer: usize,
        which: u64,
        f: impl FnOnce(&mut Consumer, &mut Book, &Place),
    ) {
        self.with_consumer(consumer, |consumer, book| {
            let places = consumer.assignment();
            let at = Chance::new(which).below(places.len());
            if let Some(place) = places.get(at) {
                f(consumer, book, place);
            }
        });
    }

    /// Everything is well again, and has been for a while: each producer must be able to write to each partition.
    fn probe(&mut self) {
        for producer in 0..self.producers.len() {
            for topic in 0..self.plan.topics.len() {
                let Some((name, count)) = self.world.topics.get(topic).cloned() else {
                    continue;
                };
                if !self.world.book.history.lives(&name) {
                    continue;
                }
                for partition in 0..count.min(
                    self.plan
                        .topics
                        .get(topic)
                        .map_or(0, |topic| topic.partitions),
                ) {
                    let probe = self.send(producer, topic, Some(partition), 0);
                    self.probes.extend(probe);
                }
            }
            self.with_producer(producer, Producer::flush);
        }
    }

    /// A producer that found only now that it was succeeded gives way to a new one; another one whose transaction failed runs a
    /// second. Returns whether there is one of either.
    fn probe_again(&mut self) -> bool {
        let topics = self.world.topics.clone();
        let mut any = false;
        for id in 0..self.transactors.len() {
            let Some(client) = self.prober(id) else {
                continue;
            };
            let failed = self.with_transactor(client, |transactor, _| transactor.failed_once());
            if failed == Some(true) {
                self.with_transactor(client, |transactor, _| transactor.probe(&topics));
                any = true;
            }
            if !self.is_over(client) {
                continue;
            }
            let failed =
                self.with_transactor(client, |transactor, _| transactor.take_failed_probe());
            let born = failed
                .filter(|failed| *failed)
                .and_then(|_| self.succeed(id));
            if let Some(client) = born {
                self.with_transactor(client, |transactor, _| transactor.probe(&topics));
                any = true;
            }
        }
        any
    }

    /// The last producer of an id that was to commit a transaction in good weather.
    fn prober(&mut self, id: usize) -> Option<usize> {
        let all = self.transactors.get(id).cloned()?;
        all.into_iter().rev().find(|client| {
            let found = self.with_transactor(*client, |transactor, _| transactor.probed());
            found.flatten().is_some()
        })
    }

    /// Admin clients make a topic each.
    fn make(&mut self) {
        for admin in 0..self.admins.len() {
            let mut chance = Chance::new(self.seed);
            let made = self.with_admin(admin, |admin, book| {
                admin.create(book, &mut chance, CATCH_UP / 2)
            });
            self.made.extend(made);
        }
    }

    /// Producers deliver, and consumers read to the end.
    fn catch_up(&mut self) {
        for consumer in 0..self.consumers.len() {
            self.with_consumer(consumer, |consumer, book| {
                consumer.hurry();
                for place in consumer.assignment() {
                    consumer.pause(book, &place, false);
                }
            });
        }
        let until = self.world.book.now + CATCH_UP;
        loop {
            let late = self.behind();
            if late.is_empty() && !self.probe_again() {
                break;
            }
            if self.world.book.now >= until {
                for text in late {
                    self.world.book.history.complain("R14", "stuck", text);
                }
                break;
            }
            self.pass(STEP);
        }
        let probes = std::mem::take(&mut self.probes);
        for id in probes {
            let history = &mut self.world.book.history;
            if let Some(sent) = history
                .sends
                .get(id)
                .filter(|_| history.made_no_progress(id))
            {
                let text = format!("record {id}, sent in good weather: {:?}", sent.fates);
                history.complain("R14", "no-progress", text);
            }
        }
        for (id, all) in self.transactors.clone().into_iter().enumerate() {
            let probed = |run: &mut Run, client: usize| {
                run.with_transactor(client, |transactor, _| transactor.probed() == Some(true))
            };
            if !all
                .into_iter()
                .any(|client| probed(self, client) == Some(true))
            {
                let text = format!("id-{id}: no transaction was committed in good weather");
                let history = &mut self.world.book.history;
                history.complain("R14", "no-progress", text);
            }
        }
        for number in std::mem::take(&mut self.made) {
            let history = &mut self.world.book.history;
            let call = history.calls.get(number);
            let told = call.and_then(|call| Some(&call.ended.as_ref()?.told));
            let is_fine = match told {
                Some(Told::Done) => true,
                // Brokers before 0.10.1 make no topics.
                Some(Told::Refused(ErrorCode::UNSUPPORTED_VERSION, _)) => true,
                _ => false,
            };
            if !is_fine {
                let text = format!("call {number}, made in good weather: {call:?}");
                history.complain("R14", "no-progress", text);
            }
        }
    }

    /// Who has not done what was asked.
    fn behind(&mut self) -> Vec<String> {
        let mut behind = Vec::new();
        for producer in 0..self.producers.len() {
            let done = self.with_producer(producer, |producer, _| producer.is_done());
            if done == Some(false) {
                behind.push(format!("producer {producer} has records without a result"));
            }
        }
        for admin in 0..self.admins.len() {
            let done = self.with_admin(admin, |admin, _| admin.is_done());
            if done == Some(false) {
                behind.push(format!(
                    "admin client {admin} has calls that have not ended"
                ));
            }
        }
        for client in self.transactors.concat() {
            let text = self.with_transactor(client, |transactor, _| {
                let is_done = transactor.is_done();
                (!is_done).then(|| format!("{} has transactions to run", transactor.name()))
            });
            behind.extend(text.flatten());
        }
        let ends = ends(&self.world.book.history);
        behind.extend(self.unread(&ends));
        behind.extend(self.unshared(&ends));
        for number in 0..self.consumers.len() {
            let positions = self.with_consumer(number, |consumer, _| consumer.positions());
            for (place, position) in positions.unwrap_or_default() {
                let end = ends.get(&place).copied().unwrap_or(0);
                if self.world.book.history.lives(&place.0) && position.is_none_or(|at| at < end) {
                    behind.push(format!(
                        "consumer {number} is at {position:?} of {}-{}, which ends at {end}",
                        place.0, place.1
                    ));
                }
            }
        }
        behind
    }

    fn close(&mut self) {
        for producer in 0..self.producers.len() {
            self.with_producer(producer, |producer, book| producer.close(book, CLOSE));
        }
        for client in self.transactors.concat() {
            self.with_transactor(client, |transactor, book| transactor.close(book, CLOSE));
        }
        for consumer in 0..self.consumers.len() {
            self.with_consumer(consumer, Consumer::close);
        }
        for admin in 0..self.admins.len() {
            self.with_admin(admin, Admin::close);
        }
        self.close_members();
        self.close_sharers();
        self.pass(CLOSE + MARGIN);
        for client in &self.world.clients {
            if !client.is_closed() {
                let text = format!("{} was not closed in time", client.name());
                self.world.book.history.complain("R14", "stuck", text);
            }
        }
        let links: usize = self.world.clients.iter().map(Client::links).sum();
        let wires = self.world.open_wires();
        if links + wires > 0 {
            let text =
                format!("{links} links and {wires} connections are open after all was closed");
            self.world.book.history.complain("R14", "leak", text);
        }
    }

    /// Consumers that nothing befalls read all there is, and what of it is committed.
    fn referee(&mut self) {
        self.world.calm();
        let mut log = BTreeMap::new();
        let mut markers: BTreeMap<Place, BTreeSet<i64>> = BTreeMap::new();
        for seen in self.read_all("read_uncommitted") {
            match seen {
                Seen::Marker(place, offset) => {
                    markers.entry(place).or_default().insert(offset);
                }
                seen => note_record(&mut log, seen),
            }
        }
        let mut committed = BTreeMap::new();
        if !self.transactors.is_empty() {
            for seen in self.read_all("read_committed") {
                note_record(&mut committed, seen);
            }
        }
        let history = &mut self.world.book.history;
        (history.log, history.markers, history.committed) = (log, markers, committed);
        self.look_up_offsets();
        self.look_up_committed();
    }

    /// What the groups of transactional ids have committed.
    fn look_up_offsets(&mut self) {
        let now = self.world.book.now;
        for id in 0..self.transactors.len() {
            for (topic, count) in &self.world.topics {
                for partition in 0..*count {
                    let place = (Arc::clone(topic), partition);
                    let found = self.world.brokers.committed(now, &group(id), &place);
                    let history = &mut self.world.book.history;
                    match found {
                        Some(offset) => {
                            history.group_offsets.insert((id, place), offset);
                        }
                        None => {
                            let text =
                                format!("the offset of {} for {place:?} is unknown", group(id));
                            history.complain("R14", "stuck", text);
                        }
                    }
                }
            }
        }
    }

    /// What a consumer of this isolation level sees, from the beginning of each partition to its end.
    fn read_all(&mut self, level: &str) -> Vec<Seen> {
        let addresses: Vec<String> = (1..=self.plan.nodes)
            .map(|node| format!("n{node}:9092"))
            .collect();
        let mut pairs = vec![
            ("bootstrap.servers", addresses.join(",")),
            ("client.id", "referee".to_owned()),
            ("auto.offset.reset", "earliest".to_owned()),
            ("fetch.max.wait.ms", "500".to_owned()),
            ("api.version.request.timeout.ms", "500".to_owned()),
            ("enable.metrics.push", "false".to_owned()),
            ("isolation.level", level.to_owned()),
        ];
        if self.plan.authenticated {
            pairs.extend(login());
        }
        let member = Member {
            pairs,
            rest: Duration::from_millis(1),
            most: 100_000,
        };
        let mut chance = Chance::new(self.seed);
        let Some(referee) = consumer(&mut self.world.book, &member, &mut chance, None) else {
            return Vec::new();
        };
        let number = self.world.book.history.seen.len() - 1;
        let client = self.world.join(Client::Consumer(referee));
        let topics: Vec<_> = self
            .world
            .topics
            .iter()
            .map(|(name, _)| Arc::clone(name))
            .collect();
        self.world.with(client, |client, book| {
            if let Some(consumer) = client.consumer() {
                consumer.follow(book, topics, Start::Beginning);
            }
        });
        // It takes a while to find out the age of brokers that do not return their versions.
        let (mut read, mut idle) = (0, 0);
        // A planted defect may give the same records for ever.
        for _ in 0..LONGEST {
            if idle == IDLE {
                break;
            }
            self.pass(STEP);
            let seen = self.world.book.history.seen.get(number);
            let records = seen.into_iter().flatten();
            let seen = records.filter(|it| matches!(it, Seen::Record(..))).count();
            idle = if seen == read { idle + 1 } else { 0 };
            read = seen;
        }
        self.world.with(client, |client, book| {
            if let Some(consumer) = client.consumer() {
                consumer.close(book);
            }
        });
        let history = &mut self.world.book.history;
        // It does not belong to the consumers that the run is about.
        history.isolated.retain(|consumer| *consumer != number);
        history.seen.pop().unwrap_or_default()
    }

    fn judge(mut self) -> Report {
        let history = &mut self.world.book.history;
        history.nodes = self.plan.nodes;
        for call in &history.calls {
            if let Act::Create(name, _) = &call.act
                && let Some(topic) = self.world.brokers.topic(name)
            {
                let found = (topic.id, topic.partitions);
                history.topics.insert(Arc::clone(name), found);
            }
        }
        let (events, lied) = (self.world.events, self.world.lied());
        let at_doors = self.world.tally().clone();
        let mut book = self.world.book;
        book.tally.add(&at_doors);
        count_unknown(&mut book);
        count_compacted(&mut book);
        let anomalies = match self.options.hostile {
            true => check_hostile(&book.history),
            false => {
                for state in shared_states(&book.history) {
                    book.tally.meet(state);
                }
                check(&book.history)
            }
        };
        let read = book.history.seen.iter().flatten();
        let read = read.filter(|seen| matches!(seen, Seen::Record(..))).count();
        let shared = book.history.shared.iter();
        let read = read
            + shared
                .filter(|it| matches!(it.2, Shared::Given(..)))
                .count();
        Report {
            seed: self.seed,
            anomalies,
            time: book.at(),
            steps: self.steps,
            records: (book.history.sends.len(), read),
            events,
            lied,
            tally: book.tally,
            trace: book.trace.into_lines(),
        }
    }
}

fn note_record(log: &mut BTreeMap<Place, Vec<(i64, Value)>>, seen: Seen) {
    if let Seen::Record(place, offset, value) = seen {
        log.entry(place).or_default().push((offset, value));
    }
}

/// Counts which records with an unknown delivery result were written, and which written records are lost.
fn count_unknown(book: &mut Book) {
    let logged = book.history.log.values().flatten();
    let logged: BTreeSet<RecordId> = logged.map(|(_, value)| value.id).collect();
    for (id, sent) in book.history.sends.iter().enumerate() {
        let was_told = matches!(&sent.fates[..], [(_, Fate::Written(_))]);
        if was_told && book.history.may_be_cut(id) && !logged.contains(&id) {
            book.tally
                .meet("producer: a record that was acknowledged was cut off");
        }
        if matches!(&sent.fates[..], [(_, Fate::Unknown(_))]) {
            book.tally.meet(match logged.contains(&id) {
                true => "producer: a record with an unknown result was in the log",
                false => "producer: a record with an unknown result was not in the log",
            });
        }
    }
}

/// Counts logs in which records are missing that newer ones of their keys took the place of.
fn count_compacted(book: &mut Book) {
    for (place, records) in &book.history.log {
        let mut pairs = records.iter().zip(records.iter().skip(1));
        if is_compacted(&place.0) && pairs.any(|((one, _), (next, _))| one + 1 < *next) {
            book.tally.meet("cluster: a log was compacted");
        }
    }
}

/// One past the highest offset of each partition that was acknowledged for good.
fn ends(history: &History) -> BTreeMap<Place, i64> {
    let mut ends = BTreeMap::new();
    for (id, sent) in history.sends.iter().enumerate() {
        if !history.lasts(id) {
            continue;
        }
        if let (Some((partition, _)), [(_, Fate::Written(Some(offset)))]) =
            (sent.placed, &sent.fates[..])
        {
            let end: &mut i64 = ends
                .entry((Arc::clone(&sent.topic), partition))
                .or_default();
            *end = (*end).max(offset + 1);
        }
    }
    ends
}

fn config(book: &mut Book, role: Role, member: &Member) -> Option<Config> {
    let pairs = member
        .pairs
        .iter()
        .map(|(name, value)| (*name, value.as_str()));
    match Config::parse(role, pairs) {
        Ok(config) => Some(config),
        Err(error) => {
            book.history
                .complain("R15", "panic", format!("a plan's settings: {error}"));
            None
        }
    }
}

fn consumer(
    book: &mut Book,
    member: &Member,
    chance: &mut Chance,
    plant: Option<Plant>,
) -> Option<Consumer> {
    let config = config(book, Role::Consumer, member)?;
    Some(Consumer::new(
        book,
        config,
        chance,
        plant,
        member.rest,
        member.most,
    ))
}
