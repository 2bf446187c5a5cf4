//! Where records go that name no partition.

use super::*;

/// A producer for a topic whose partitions have these leaders.
pub(super) fn spread(leaders: &[i32], pairs: &[(&'static str, &'static str)]) -> Sender {
    let mut script = Script::new(Engine::producer(config(Role::Producer, pairs), 7));
    script.topics = vec![("t", leaders.to_vec())];
    script.engine.want_topic(script.now, "t");
    script.run();
    script
}

/// The partition that a record of about 100 bytes goes to; `None` while the buffer is full.
fn put(script: &mut Sender, key: Option<&[u8]>) -> Option<i32> {
    let now = script.now;
    let value = [b'v'; 100];
    let row = Row::new(key, Some(&value));
    let make = |_: &Arc<str>, partition| partition;
    let appended = script.engine.append(|| now, "t", &row, 1, make);
    match appended {
        Ok(appended) => Some(*appended.batch),
        Err(NotAppended::Full) => None,
        Err(error) => panic!("{error:?}"),
    }
}

fn free(script: &mut Sender) -> i32 {
    put(script, None).unwrap()
}

fn is_to(script: &Sender, asked: &Asked, broker: &str) -> bool {
    script.address(asked.link) == broker
}

#[test]
fn keys_go_where_the_partitioner_of_that_name_puts_them() {
    // Published check values: CRC-32 of "123456789" is 0xcbf43926; FNV-1a of "a" is 0xe40c292c; Java's murmur2 of "21" is
    // -973932308. No bytes at all: 0, 0x811c9dc5 and 275646681.
    let made_positive = |hash: u32| (hash as i32).unsigned_abs();
    let rows: [(&str, &[u8], u32); 10] = [
        ("consistent", b"123456789", 0xcbf4_3926),
        ("consistent", b"", 0),
        ("consistent_random", b"123456789", 0xcbf4_3926),
        ("murmur2", b"21", -973_932_308_i32 as u32 & 0x7fff_ffff),
        (
            "murmur2_random",
            b"21",
            -973_932_308_i32 as u32 & 0x7fff_ffff,
        ),
        ("murmur2_random", b"", 275_646_681),
        ("sticky", b"", 275_646_681),
        ("round_robin", b"21", -973_932_308_i32 as u32 & 0x7fff_ffff),
        ("fnv1a", b"a", made_positive(0xe40c_292c)),
        ("fnv1a_random", b"", made_positive(0x811c_9dc5)),
    ];
    for (name, key, hash) in rows {
        let mut script = spread(&[1; 97], &[("partitioner", name)]);
        let wanted = i32::try_from(hash % 97).unwrap();
        for _ in 0..3 {
            let shown = key.escape_ascii();
            assert_eq!(put(&mut script, Some(key)), Some(wanted), "{name} {shown}");
        }
    }
}

#[test]
fn without_a_key_the_random_ones_are_sticky_and_the_others_take_one_partition() {
    for (name, hash) in [
        ("consistent", 0),
        ("murmur2", 275_646_681),
        ("fnv1a", (0x811c_9dc5_u32 as i32).unsigned_abs()),
    ] {
        let mut script = spread(&[1; 97], &[("partitioner", name), ("batch.size", "200")]);
        let wanted = i32::try_from(hash % 97).unwrap();
        for _ in 0..9 {
            assert_eq!(free(&mut script), wanted, "{name}");
        }
    }
    for name in [
        "sticky",
        "consistent_random",
        "murmur2_random",
        "fnv1a_random",
    ] {
        let mut script = spread(&[1; 97], &[("partitioner", name), ("batch.size", "200")]);
        let key = (name == "consistent_random").then_some(&b""[..]);
        let mut went: Vec<_> = (0..97).map(|_| put(&mut script, key).unwrap()).collect();
        went.sort_unstable();
        assert_eq!(went, (0..97).collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn a_partition_has_its_turn_until_it_got_a_batch_whatever_is_sent_meanwhile() {
    for linger in ["0", "1000"] {
        let options = [("batch.size", "1000"), ("linger.ms", linger)];
        let mut script = spread(&[1, 2, 1, 2], &options);
        let mut turns: Vec<(i32, usize)> = Vec::new();
        for _ in 0..400 {
            let partition = free(&mut script);
            match turns.last_mut() {
                Some((last, count)) if *last == partition => *count += 1,
                _ => turns.push((partition, 1)),
            }
            for asked in script.run() {
                reply(&mut script, &asked, ErrorCode::NONE, 0);
            }
        }
        assert!(turns.len() >= 40, "{turns:?}");
        // As many records of 100 bytes as a batch of 1,000 bytes has, by their exact sizes or by their largest possible ones.
        let full = turns.get(..turns.len() - 1).unwrap();
        assert!(
            full.iter().all(|(_, count)| (7..=8).contains(count)),
            "{linger}: {turns:?}"
        );
        let round = turns
            .windows(2)
            .all(|pair| pair[1].0 == (pair[0].0 + 1) % 4);
        assert!(round, "{linger}: {turns:?}");
    }
}

#[test]
fn keys_that_fill_the_batch_do_not_end_the_turn() {
    let mut script = spread(&[1, 1], &[("batch.size", "1000"), ("linger.ms", "1000")]);
    let current = free(&mut script);
    // "21" and "22" go to different partitions; both get as much.
    for _ in 0..4 {
        put(&mut script, Some(b"21"));
        put(&mut script, Some(b"a"));
        put(&mut script, Some(b"foobar"));
    }
    assert_eq!(free(&mut script), current);
}

#[test]
fn every_record_goes_to_the_next_partition_if_so_wished() {
    let mut script = spread(&[1, -1, 2], &[("partitioner", "round_robin")]);
    let went: Vec<_> = (0..6).map(|_| free(&mut script)).collect();
    let first = went[0];
    // The second partition has no leader; only the first record may have gone there.
    assert!(
        went[1..]
            .windows(2)
            .all(|pair| pair[0] != pair[1] && pair[0] != 1)
    );
    assert!(first != went[1] && !went[1..].contains(&1), "{went:?}");
}

#[test]
fn keys_may_be_ignored() {
    let options = [("partitioner.ignore.keys", "true"), ("batch.size", "200")];
    let mut script = spread(&[1; 5], &options);
    let mut went: Vec<_> = (0..5)
        .map(|_| put(&mut script, Some(b"k")).unwrap())
        .collect();
    went.sort_unstable();
    assert_eq!(went, [0, 1, 2, 3, 4]);
}

#[test]
fn a_turn_ends_when_the_leader_is_lost() {
    let mut script = spread(&[1, 2], &[("linger.ms", "1000")]);
    let current = free(&mut script);
    let other = 1 - current;
    let leaders = if current == 0 { [-1, 2] } else { [1, -1] };
    script.topics = vec![("t", leaders.to_vec())];
    script.engine.core.cluster.refresh(script.now);
    script.pass(Duration::from_millis(200));
    assert_eq!(free(&mut script), other);
    script.topics = vec![("t", vec![-1, -1])];
    script.engine.core.cluster.refresh(script.now);
    script.pass(Duration::from_secs(2));
    assert_eq!(free(&mut script), other, "nobody has one: the turn goes on");
}

/// How many of `count` records without a key went to each of four partitions, while broker 1
/// responds at once and broker 2, which leads the last two, after `delay`.
fn against_a_slow_broker(
    delay: Duration,
    count: usize,
    pairs: &[(&'static str, &'static str)],
) -> [usize; 4] {
    let mut options = vec![("batch.size", "1000"), ("linger.ms", "0")];
    options.extend_from_slice(pairs);
    let mut script = spread(&[1, 1, 2, 2], &options);
    let mut went = [0; 4];
    let mut late: Vec<(std::time::Instant, Asked)> = Vec::new();
    for _ in 0..count {
        went[usize::try_from(free(&mut script)).unwrap()] += 1;
        for asked in script.pass(Duration::from_millis(1)) {
            if is_to(&script, &asked, "b1") {
                reply(&mut script, &asked, ErrorCode::NONE, 0);
            } else {
                late.push((script.now + delay, asked));
            }
        }
        while late.first().is_some_and(|(at, _)| *at <= script.now) {
            let (_, asked) = late.remove(0);
            reply(&mut script, &asked, ErrorCode::NONE, 0);
        }
    }
    went
}

#[test]
fn a_slow_broker_gets_less_the_more_batches_wait_for_it() {
    let slow = Duration::from_millis(400);
    let [a, b, c, d] = against_a_slow_broker(slow, 4000, &[]);
    assert!(3 * (c + d) < a + b, "{:?}", [a, b, c, d]);
    assert!(c + d > 100, "it still gets what it can take: {:?}", [c, d]);
    assert!(a.abs_diff(b) * 4 < a + b, "{a} {b}");

    let off = [("partitioner.adaptive.partitioning.enable", "false")];
    let went = against_a_slow_broker(slow, 4000, &off);
    assert!(went.iter().all(|n| n.abs_diff(1000) < 100), "{went:?}");

    let fast = against_a_slow_broker(Duration::from_millis(2), 4000, &[]);
    assert!(fast.iter().all(|n| n.abs_diff(1000) < 150), "{fast:?}");
}

#[test]
fn a_broker_that_takes_nothing_is_avoided_until_it_does() {
    let options = [
        ("batch.size", "1000"),
        ("linger.ms", "0"),
        ("partitioner.availability.timeout.ms", "300"),
    ];
    let mut script = spread(&[1, 1, 2, 2], &options);
    let mut held = Vec::new();
    let fill = |script: &mut Sender, count: usize, held: Option<&mut Vec<Asked>>| {
        let mut to_second = 0;
        let mut kept = Vec::new();
        for _ in 0..count {
            to_second += usize::from(free(script) >= 2);
            for asked in script.pass(Duration::from_millis(1)) {
                if held.is_some() && is_to(script, &asked, "b2") {
                    kept.push(asked);
                } else {
                    reply(script, &asked, ErrorCode::NONE, 0);
                }
            }
        }
        if let Some(held) = held {
            held.append(&mut kept);
        }
        to_second
    };
    fill(&mut script, 1000, Some(&mut held));
    assert!(!held.is_empty());
    assert_eq!(fill(&mut script, 1000, Some(&mut held)), 0, "avoided");
    // The broker responds again: its pending records are sent, and it gets its share again.
    for asked in held {
        reply(&mut script, &asked, ErrorCode::NONE, 0);
    }
    fill(&mut script, 100, None);
    let share = fill(&mut script, 2000, None);
    assert!(share.abs_diff(1000) < 200, "{share}");
}

#[test]
fn a_broker_whose_batches_were_given_up_is_tried_again() {
    let options = [
        ("batch.size", "1000"),
        ("linger.ms", "0"),
        ("enable.idempotence", "false"),
        ("partitioner.availability.timeout.ms", "300"),
        ("request.timeout.ms", "1000"),
        ("delivery.timeout.ms", "1000"),
    ];
    let mut script = spread(&[1, 2], &options);
    script.dead.push("b2".to_owned());
    let mut to_second = Vec::new();
    for _ in 0..6000 {
        to_second.push(free(&mut script) == 1);
        for asked in script.pass(Duration::from_millis(1)) {
            reply(&mut script, &asked, ErrorCode::NONE, 0);
        }
    }
    let count = |range: std::ops::Range<usize>| to_second[range].iter().filter(|it| **it).count();
    assert!(count(0..500) > 0);
    assert_eq!(count(500..900), 0, "avoided while its batches wait");
    assert!(count(1000..6000) > 0, "tried again when they were given up");
    assert!(count(1000..6000) < 1000);
}

#[test]
fn partitions_that_are_near_come_first() {
    let options = [
        ("batch.size", "200"),
        ("client.rack", "r2"),
        ("partitioner.rack.aware", "true"),
    ];
    // The first turn too, whichever partition chance would give it to.
    let first = free(&mut spread(&[2, 1, 2, 1], &options));
    assert_eq!(first % 2, 0);
    let mut script = spread(&[1, 2, 1, 2], &options);
    let went: Vec<_> = (0..20).map(|_| free(&mut script)).collect();
    assert!(went.iter().all(|it| it % 2 == 1), "{went:?}");
    assert!(went.contains(&1) && went.contains(&3));
    // No leader is near any more.
    script.topics = vec![("t", vec![1, -1, 1, -1])];
    script.engine.core.cluster.refresh(script.now);
    script.pass(Duration::from_secs(1));
    let went: Vec<_> = (0..20).map(|_| free(&mut script)).collect();
    assert!(went.iter().all(|it| it % 2 == 0), "{went:?}");

    let mut unaware = spread(&[1, 2, 1, 2], &options[..2]);
    let went: Vec<_> = (0..20).map(|_| free(&mut unaware)).collect();
    assert!(went.iter().any(|it| it % 2 == 0));
}
