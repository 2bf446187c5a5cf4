//! All metrics of a client at one moment.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use super::meters::Meters;
use super::sensor::Reading;
use super::table::{
    ACQUIRED, ALL, APP, BUILD, CLIENT, CONSUMING, COORDINATING, COUNT, FETCHED, FETCHING,
    FOLLOWING, Groups, Kind, MEMBER, MEMBERSHIP, NETWORK, NODE, NODES, PARTITION, PARTITIONS,
    POLLING, PRODUCING, READ_TOPICS, Row, SENDING, SENT, SENT_TOPICS, SHARED, SHARER, SHARING,
    TOPIC, groups,
};
use crate::config::Config;
use crate::config::Role;

/// A tag: its name and its value.
pub type Tag = (Cow<'static, str>, Arc<str>);

/// A metric, named as Kafka's Java client names it.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Its name, such as `record-send-rate`.
    pub name: Cow<'static, str>,
    /// Its group, such as `producer-metrics`.
    pub group: Cow<'static, str>,
    /// In the order of their names. Metrics of one thing share them.
    pub tags: Arc<[Tag]>,
    /// What the value is.
    pub kind: Kind,
    /// The value; NaN for a statistic without values.
    pub value: f64,
}

struct Reader<'a> {
    at: Reading,
    client: &'a Arc<str>,
    read: Vec<Metric>,
}

impl Reader<'_> {
    fn read<M>(
        &mut self,
        group: &'static str,
        tags: impl IntoIterator<Item = (&'static str, Arc<str>)>,
        rows: &[Row<M>],
        meters: &M,
    ) {
        let client = (CLIENT, Arc::clone(self.client));
        let tags = tags.into_iter().chain([client]);
        let mut tags: Vec<Tag> = tags.map(|(name, value)| (name.into(), value)).collect();
        tags.sort_unstable();
        let tags: Arc<[Tag]> = tags.into();
        let at = self.at;
        self.read.extend(rows.iter().map(|row| Metric {
            name: row.name.into(),
            group: group.into(),
            tags: Arc::clone(&tags),
            kind: row.kind,
            value: (row.read)(meters, &at),
        }));
    }
}

impl Meters {
    /// All metrics now. The gauges are as the parts have set them.
    pub(crate) fn read(&mut self, now: Instant, config: &Config) -> Vec<Metric> {
        self.take_in();
        let client: Arc<str> = config.client_id.as_str().into();
        let mut reader = Reader {
            at: self.at(now),
            client: &client,
            read: Vec::new(),
        };
        let Groups {
            client: group,
            node: node_group,
        } = groups(config.role);
        reader.read(group, [], NETWORK, &self.network);
        match config.role {
            Role::Producer => {
                reader.read(group, [], PRODUCING, &self.network);
                reader.read(group, [], SENDING, &self.sending);
                for (topic, meters) in &self.sent_topics {
                    reader.read(SENT, [(TOPIC, Arc::clone(topic))], SENT_TOPICS, meters);
                }
            }
            Role::Consumer => {
                reader.read(group, [], POLLING, &self.polling);
                reader.read(FETCHED, [], CONSUMING, &self.network);
                reader.read(FETCHED, [], FETCHING, &self.fetching);
                reader.read(FETCHED, [], FOLLOWING, &self.fetching);
                for (topic, meters) in &self.read_topics {
                    reader.read(FETCHED, [(TOPIC, Arc::clone(topic))], READ_TOPICS, meters);
                }
                for ((topic, partition), meters) in &self.partitions {
                    let partition = partition.to_string().into();
                    let tags = [(TOPIC, Arc::clone(topic)), (PARTITION, partition)];
                    reader.read(FETCHED, tags, PARTITIONS, meters);
                }
                if config.group_id.is_some() {
                    reader.read(MEMBER, [], COORDINATING, &self.coordinating);
                    reader.read(MEMBER, [], MEMBERSHIP, &self.coordinating);
                }
            }
            Role::ShareConsumer => {
                reader.read(SHARED, [], POLLING, &self.polling);
                reader.read(ACQUIRED, [], CONSUMING, &self.network);
                reader.read(ACQUIRED, [], FETCHING, &self.fetching);
                reader.read(ACQUIRED, [], SHARING, &self.sharing);
                reader.read(SHARER, [], COORDINATING, &self.coordinating);
            }
            Role::Admin => {}
        }
        for (node, meters) in &self.nodes {
            let node = format!("node-{node}").into();
            reader.read(node_group, [(NODE, node)], NODES, meters);
        }
        reader.read(BUILD, [], APP, &self.app);
        self.network.metrics = reader.read.len() + COUNT.len();
        reader.read(ALL, [], COUNT, &self.network);
        reader.read
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Progress, describe};
    use crate::script::{config, start};

    const ROLES: [Role; 4] = [
        Role::Producer,
        Role::Consumer,
        Role::ShareConsumer,
        Role::Admin,
    ];

    #[test]
    fn a_snapshot_has_what_the_table_lists_in_its_order() {
        for role in ROLES {
            let group = matches!(role, Role::Consumer | Role::ShareConsumer);
            let group = group.then_some(("group.id", "g"));
            let pairs: Vec<_> = [("client.id", "me")].into_iter().chain(group).collect();
            let config = config(role, &pairs);
            let mut meters = Meters::new(&config);
            let topic: Arc<str> = "t".into();
            meters.asked(start(), 1);
            meters.of_sent(&topic, |_| ());
            meters.of_read(&topic, |_| ());
            let progress = Progress {
                next: 3,
                begin: 1,
                end: 10,
                replica: None,
            };
            meters.read_partitions([((topic, 0), progress)].into_iter());
            let read = meters.read(start(), &config);
            let named = |metric: &Metric| {
                let tags: Vec<_> = metric.tags.iter().map(|tag| tag.0.clone()).collect();
                (metric.group.clone(), metric.name.clone(), tags)
            };
            let listed = describe(role);
            let listed: Vec<_> = listed
                .iter()
                .map(|row| {
                    let tags = row.tags.iter().map(|tag| Cow::from(*tag)).collect();
                    (row.group.into(), row.name.into(), tags)
                })
                .collect();
            assert_eq!(read.iter().map(named).collect::<Vec<_>>(), listed);
            let mut once = listed.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len(), listed.len());
            let count = read.last().map(|metric| metric.value);
            assert_eq!(count, Some(listed.len() as f64));
            assert!(
                read.iter()
                    .all(|metric| metric.tags.contains(&(CLIENT.into(), "me".into())))
            );
        }
    }

    #[test]
    fn totals_and_rates_say_what_they_are_by_their_names() {
        for role in ROLES {
            for row in describe(role) {
                let is_total = row.name.ends_with("-total");
                assert_eq!(row.kind == Kind::Total, is_total, "{}", row.name);
                let is_rate = row.name.ends_with("-rate") && row.name != "compression-rate";
                assert_eq!(row.unit.contains("per second"), is_rate, "{}", row.name);
                let is_hourly = row.name.ends_with("-rate-per-hour");
                assert_eq!(row.unit == "per hour", is_hourly, "{}", row.name);
                assert!(row.doc.ends_with('.'), "{}", row.name);
            }
        }
    }
}
