//! The ids of clients that have no `client.id`, in the form of Kafka's Java clients.

use std::sync::atomic::{AtomicU64, Ordering};

use ottla_engine::{Config, Role};

/// The longest id: what `client.id` may have, in bytes.
const LONGEST: usize = 249;

/// How many ids of each kind this process has used.
static PRODUCERS: AtomicU64 = AtomicU64::new(0);
static CONSUMERS: AtomicU64 = AtomicU64::new(0);
static ADMINS: AtomicU64 = AtomicU64::new(0);

/// An id that no other client of this process has, unless a transactional or instance id is in use twice:
///
/// | client | id |
/// |---|---|
/// | producer | `producer-1`, `producer-{transactional.id}` |
/// | consumer | `consumer-1`, in a group `consumer-{group.id}-1` or `consumer-{group.id}-{group.instance.id}` |
/// | share consumer | `consumer-{group.id}-1` |
/// | admin | `adminclient-1` |
pub(crate) fn default(config: &Config) -> String {
    match config.role {
        Role::Producer => match &config.transactional_id {
            Some(id) => shortened("producer-", id, ""),
            None => format!("producer-{}", next(&PRODUCERS)),
        },
        Role::Consumer | Role::ShareConsumer => {
            let number = || next(&CONSUMERS).to_string();
            match (&config.group_id, &config.group_instance_id) {
                (None, _) => format!("consumer-{}", number()),
                (Some(group), None) => shortened("consumer-", group, &format!("-{}", number())),
                (Some(group), Some(instance)) => {
                    shortened("consumer-", &format!("{group}-{instance}"), "")
                }
            }
        }
        Role::Admin => format!("adminclient-{}", next(&ADMINS)),
    }
}

fn next(counter: &AtomicU64) -> u64 {
    counter.fetch_add(1, Ordering::Relaxed) + 1
}

/// The three parts as one id; the end of `name` is left out where the id would be too long.
fn shortened(before: &str, name: &str, after: &str) -> String {
    let mut end = name.len().min(LONGEST - before.len() - after.len());
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let name = name.get(..end).unwrap_or_default();
    format!("{before}{name}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(role: Role, pairs: &[(&str, &str)]) -> String {
        let pairs = [("bootstrap.servers", "boot:1")]
            .into_iter()
            .chain(pairs.iter().copied());
        default(&Config::parse(role, pairs).unwrap())
    }

    /// A generated id without its number, which other tests of this process raise.
    fn form(role: Role, pairs: &[(&str, &str)]) -> String {
        let id = id(role, pairs);
        let end = id.rfind('-').unwrap();
        assert!(id[end + 1..].parse::<u64>().unwrap() > 0, "{id}");
        id[..end].to_owned()
    }

    #[test]
    fn each_kind_of_client_has_the_form_of_javas() {
        let group = [("group.id", "g")];
        assert_eq!(form(Role::Producer, &[]), "producer");
        assert_eq!(form(Role::Consumer, &[]), "consumer");
        assert_eq!(form(Role::Consumer, &group), "consumer-g");
        assert_eq!(form(Role::ShareConsumer, &group), "consumer-g");
        assert_eq!(form(Role::Admin, &[]), "adminclient");
        let transactional = [("transactional.id", "a")];
        assert_eq!(id(Role::Producer, &transactional), "producer-a");
        let fixed = [("group.id", "g"), ("group.instance.id", "i")];
        assert_eq!(id(Role::Consumer, &fixed), "consumer-g-i");
    }

    #[test]
    fn no_two_are_equal() {
        for (role, pairs) in [
            (Role::Producer, &[][..]),
            (Role::Consumer, &[("group.id", "g")]),
            (Role::Admin, &[]),
        ] {
            assert_ne!(id(role, pairs), id(role, pairs));
        }
    }

    #[test]
    fn a_long_name_is_cut_between_characters_and_keeps_the_number() {
        let group = "ü".repeat(200);
        let one = id(Role::Consumer, &[("group.id", &group)]);
        let other = id(Role::Consumer, &[("group.id", &group)]);
        assert!(one.len() <= LONGEST && one.starts_with("consumer-üü"));
        assert_ne!(one, other);
    }
}
