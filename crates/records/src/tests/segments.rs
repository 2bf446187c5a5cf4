//! Segments: whole, damaged, cut and malformed.

use std::time::Instant;

use super::*;

fn message(offset: i64, magic: u8, value: &[u8]) -> Vec<u8> {
    let mut body = vec![magic, 0];
    if magic == 1 {
        body.extend(TIME.to_be_bytes());
    }
    body.extend((-1_i32).to_be_bytes());
    body.extend((value.len() as i32).to_be_bytes());
    body.extend(value);
    let mut crc = flate2::Crc::new();
    crc.update(&body);
    let mut message = offset.to_be_bytes().to_vec();
    message.extend((body.len() as i32 + 4).to_be_bytes());
    message.extend(crc.sum().to_be_bytes());
    message.extend(body);
    message
}

fn batch(offset: i64) -> Vec<u8> {
    let mut bytes = two(Compression::None);
    assign_offsets(&mut bytes, offset, 0).unwrap();
    bytes.to_vec()
}

/// A log of three ages.
fn log() -> Vec<Vec<u8>> {
    vec![
        message(0, 0, b"old"),
        message(1, 1, b"newer"),
        batch(2),
        message(4, 0, &[0; 40]),
        batch(5),
    ]
}

/// Positions of entries, and all damage.
fn walked(bytes: &[u8]) -> (Vec<usize>, Vec<Damage>) {
    let (mut entries, mut damages, mut end) = (Vec::new(), Vec::new(), 0);
    for found in segment(Bytes::copy_from_slice(bytes)) {
        match found {
            Found::Entry { position, entry } => {
                assert_eq!(position, end);
                end += entry.size();
                entries.push(position);
            }
            Found::Damage(damage) => {
                assert_eq!(damage.position, end);
                assert!(damage.size > 0);
                end += damage.size;
                damages.push(damage);
            }
        }
        assert!(end <= bytes.len());
    }
    assert!(bytes[end..].iter().all(|byte| *byte == 0));
    (entries, damages)
}

fn positions(log: &[Vec<u8>]) -> Vec<usize> {
    let ends = log.iter().scan(0, |end, entry| {
        let start = *end;
        *end += entry.len();
        Some(start)
    });
    ends.collect()
}

#[test]
fn entries_of_all_ages_have_their_positions() {
    let log = log();
    assert_eq!(walked(&log.concat()), (positions(&log), vec![]));
    assert_eq!(walked(&[]), (vec![], vec![]));
}

#[test]
fn a_tail_of_zeros_is_the_end() {
    let log = log();
    for zeros in [1, 11, 12, 17, 61, 5000] {
        let bytes = [log.concat(), vec![0; zeros]].concat();
        assert_eq!(walked(&bytes), (positions(&log), vec![]), "{zeros}");
        assert_eq!(walked(&vec![0; zeros]), (vec![], vec![]));
    }
    // An entry that ends with zeros is not a part of the tail.
    let last = message(9, 0, &[0; 40]);
    let bytes = [&last[..], &[0; 100]].concat();
    assert_eq!(walked(&bytes), (vec![0], vec![]));
}

#[test]
fn every_cut_of_the_last_entry_is_reported_as_such() {
    let log = log();
    let whole = log.concat();
    for last in [2, 3, 4] {
        let start: usize = log[..last].iter().map(Vec::len).sum();
        for left in 1..log[last].len() {
            let (entries, damages) = walked(&whole[..start + left]);
            if whole[start..start + left].iter().all(|byte| *byte == 0) {
                assert_eq!(damages, []);
                continue;
            }
            assert_eq!(entries, positions(&log[..last]));
            let needed = if left < 12 { 26 } else { log[last].len() };
            // Zeros at the end of what is left may be the tail of the file too.
            let size = damages[0].size;
            assert!(
                size <= left
                    && whole[start + size..start + left]
                        .iter()
                        .all(|byte| *byte == 0)
            );
            let damage = Damage {
                position: start,
                size,
                cause: RecordsError::Cut { needed, left },
            };
            assert_eq!(damages, [damage]);
        }
    }
}

#[test]
fn any_damaged_byte_costs_no_other_entry() {
    let log = log();
    let (whole, starts) = (log.concat(), positions(&log));
    for place in 0..whole.len() {
        let hit = starts.iter().rposition(|start| *start <= place).unwrap();
        for change in [0x01, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[place] ^= change;
            let (entries, damages) = walked(&bytes);
            let others: Vec<_> = (0..log.len())
                .filter(|entry| *entry != hit)
                .map(|entry| starts[entry])
                .collect();
            let in_entry = place - starts[hit];
            // No checksum covers the offset, nor in a batch the epoch of the leader.
            if in_entry < 8 || bytes[starts[hit] + 16] == 2 && (12..16).contains(&in_entry) {
                assert_eq!((entries, damages), (starts.clone(), vec![]));
                continue;
            }
            assert_eq!(entries, others, "byte {place}");
            assert_eq!(damages.len(), 1, "byte {place}");
            let Damage {
                position, mut size, ..
            } = damages[0];
            if position + size == whole.len() - 1 {
                // The last byte of all is a zero, as the tail of a file could be.
                size += 1;
            }
            assert_eq!(
                (position, size),
                (starts[hit], log[hit].len()),
                "byte {place}"
            );
        }
    }
}

#[test]
fn damage_says_where_how_much_and_why() {
    let mut bytes = [batch(0), batch(2), batch(4)].concat();
    let size = bytes.len() / 3;
    bytes[size + 70] ^= 1;
    let (_, damages) = walked(&bytes);
    assert!(matches!(
        damages[0].cause,
        RecordsError::Crc { base_offset: 2, .. }
    ));
    let text = damages[0].to_string();
    let expected = format!(
        "the {size} bytes at position {size} of the segment are damaged: the record batch at offset 2 is damaged: its CRC is"
    );
    assert!(text.starts_with(&expected), "{text}");

    let mut bytes = [batch(0), batch(2)].concat();
    bytes[8..12].copy_from_slice(&i32::MAX.to_be_bytes());
    let (entries, damages) = walked(&bytes);
    assert_eq!(entries, [size]);
    let cause = RecordsError::Length {
        base_offset: 0,
        length: i32::MAX,
    };
    assert_eq!(
        damages[0].cause, cause,
        "more follows, so it is not the last"
    );

    let bytes = [
        &b"not of a log"[..],
        &batch(0),
        &[7; 3],
        &message(9, 1, b"x"),
    ]
    .concat();
    let (entries, damages) = walked(&bytes);
    assert_eq!(entries, [12, 15 + size]);
    assert_eq!([damages[0].size, damages[1].size], [12, 3]);
}

#[test]
fn an_entry_in_the_value_of_a_damaged_one_is_not_taken_for_one() {
    let inner = batch(70);
    let mut outer = message(3, 1, &inner);
    outer[20] ^= 1;
    let size = outer.len();
    for after in [vec![], batch(4), vec![0; 30]] {
        let (entries, damages) = walked(&[outer.clone(), after.clone()].concat());
        assert_eq!((damages.len(), damages[0].size), (1, size));
        let whole = after.iter().any(|byte| *byte != 0);
        assert_eq!(entries, if whole { vec![size] } else { vec![] });
    }
}

#[test]
fn without_checksums_damaged_entries_are_given_out() {
    let mut bytes = [batch(0), message(2, 1, b"value")].concat();
    let size = bytes.len();
    for place in [70, size - 1] {
        bytes[place] ^= 1;
    }
    let walk = segment(Bytes::from(bytes)).without_crcs();
    let entries = walk
        .filter(|found| matches!(found, Found::Entry { entry, .. } if entry.verify_crc().is_err()));
    assert_eq!(entries.count(), 2);
}

/// Bytes that look like an entry at each step, of a size that reaches far; none has the right checksum.
fn hostile(step: &[u8], size: usize) -> Vec<u8> {
    step.iter().copied().cycle().take(size).collect()
}

#[test]
#[allow(clippy::disallowed_methods)] // the time is what is tested
fn hostile_bytes_take_a_time_in_proportion_to_their_number() {
    let far = |size: usize| {
        let mut header = batch(1);
        header.truncate(64);
        header[8..12].copy_from_slice(&(size as i32 / 2).to_be_bytes());
        header
    };
    // An entry that is whole, then one whose checksum covers half of the file, and again.
    let trap = |size| [message(0, 0, b""), far(size)].concat();
    let steps: [&dyn Fn(usize) -> Vec<u8>; 2] = [&far, &trap];
    for step in steps {
        // The least of three: what else the machine does only adds.
        let time = |size| {
            let bytes = hostile(&step(size), size);
            let times = std::iter::repeat_with(|| {
                let begun = Instant::now();
                let (_, damages) = walked(&bytes);
                assert!(!damages.is_empty());
                begun.elapsed().as_secs_f64()
            });
            times.take(3).fold(f64::INFINITY, f64::min)
        };
        let ratio = time(4 << 20) / time(256 << 10);
        // 16 times as many bytes: 16. If every entry were looked at as a whole, it would be 256.
        assert!(ratio < 64.0, "{ratio}");
    }
}

proptest! {
    #[test]
    fn what_is_whole_is_found_between_any_bytes(parts in prop::collection::vec(
        prop_oneof![
            (0_i64..1000).prop_map(|offset| (true, batch(offset))),
            (0_u8..2, prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(magic, value)| (true, message(7, magic, &value))),
            prop::collection::vec(any::<u8>(), 1..60).prop_map(|bytes| (false, bytes)),
        ],
        0..8,
    )) {
        let mut bytes = Vec::new();
        let mut whole = Vec::new();
        for (is_entry, part) in parts {
            if is_entry {
                whole.push(bytes.len());
            }
            bytes.extend(part);
        }
        let (entries, _) = walked(&bytes);
        prop_assert_eq!(entries, whole);
    }

    #[test]
    fn any_bytes_end(bytes in prop::collection::vec(prop_oneof![4 => Just(0_u8), 1 => 0_u8..4, 1 => any::<u8>()], 0..400)) {
        walked(&bytes);
    }
}
