//! A connection's bytes: split into frames at any position, and given to the state machine that matches responses with requests.

use std::time::{Duration, Instant};

use bytes::BytesMut;
use ottla_engine::api::Request;
use ottla_engine::connection::{Connection, Heard};
use ottla_engine::dispatch::Outgoing;
use ottla_engine::frame::{next_frame, room};
use ottla_engine::messages::{
    ApiVersionsResponse, CreateTopicsRequest, FetchRequest, ListOffsetsRequest, MetadataRequest,
    ProduceRequest, api_versions_response::ApiVersion,
};
use ottla_engine::release::{Approach, Era};
use ottla_protocol::header;

use crate::input::Input;
use crate::memory;
use crate::messages::within_bounds;

/// What a read makes room for where nothing is known.
const ROOM: usize = 64 << 10;

/// A limit in one byte, how long the pieces are that arrive, then the stream.
pub fn split(data: &[u8]) {
    let mut input = Input(data);
    let (limit, piece) = (usize::from(input.u8()) * 16, usize::from(input.u8()) + 1);
    let stream = input.0;
    let mut buffer = BytesMut::new();
    let mut frames = Vec::new();
    let mut failed = false;
    'stream: for arrived in stream.chunks(piece) {
        // Room is made for what has arrived, not for what is claimed.
        assert!(room(&buffer, limit, 0) <= ROOM.max(buffer.len() * 3));
        buffer.extend_from_slice(arrived);
        loop {
            match next_frame(&mut buffer, limit) {
                Ok(Some(frame)) => frames.push(frame.to_vec()),
                Ok(None) => break,
                Err(error) => {
                    assert!(!error.message().is_empty());
                    failed = true;
                    break 'stream;
                }
            }
        }
    }
    assert_eq!((frames, failed), in_one_piece(stream, limit));
}

/// The frames of a whole stream, found in the simplest way; and whether it has an impossible length.
fn in_one_piece(mut stream: &[u8], limit: usize) -> (Vec<Vec<u8>>, bool) {
    let mut frames = Vec::new();
    while let Some((length, rest)) = stream.split_first_chunk() {
        let length = match usize::try_from(i32::from_be_bytes(*length)) {
            Ok(length) if length <= limit => length,
            _ => return (frames, true),
        };
        let Some((frame, rest)) = rest.split_at_checked(length) else {
            break;
        };
        frames.push(frame.to_vec());
        stream = rest;
    }
    (frames, false)
}

/// What a broker answers to five requests: for each its body with the length in two bytes in front, then bytes as they
/// are. Correlation ids and the lengths of frames are put right, since nothing else gets past them.
pub fn connection(data: &[u8]) {
    let now = Instant::now();
    let mut input = Input(data);
    let choice = input.u8();
    let mut connection = Connection::new(now, "fuzz", Duration::from_secs(1), 1 << 20)
        .expect("a client id that encodes");
    let (mut given, mut correlation) = (0, 0);
    if choice & 1 == 0 {
        let versions = header::encode_response(&versions(), 4, correlation).expect("versions");
        let mut bytes = BytesMut::from(&*versions.into_bytes());
        connection
            .handle_bytes(now, &mut bytes)
            .expect("a sound answer");
        correlation += 1;
        send(&mut connection, now, choice);
    }
    let ((), held) = memory::peak(|| {
        let mut buffer = BytesMut::new();
        while !input.0.is_empty() {
            let body = input.long_piece();
            buffer.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
            buffer.extend_from_slice(&i32::to_be_bytes(correlation));
            buffer.extend_from_slice(body);
            given += body.len() + 8;
            correlation += 1;
            if connection.handle_bytes(now, &mut buffer).is_err() {
                return;
            }
            while connection.poll_heard().is_some() {}
        }
        // What comes without being asked for.
        buffer.extend_from_slice(data);
        given += data.len();
        let _ = connection.handle_bytes(now, &mut buffer);
    });
    within_bounds(held, given);
}

/// What a broker that may be too old to tell its versions answers, and how it ends: in the first byte how the client begins, then
/// bodies as for [`connection`]. Once it is ready, requests of the oldest versions are under way.
pub fn old_broker(data: &[u8]) {
    let now = Instant::now();
    let mut input = Input(data);
    let choice = input.u8();
    let approach = match choice % 5 {
        0 => Approach::Ask,
        1 => Approach::AskBriefly,
        2 => Approach::Probe,
        3 => Approach::Assume(Era::V0_8),
        _ => Approach::Assume(Era::V0_9),
    };
    let setup = Duration::from_secs(10);
    let mut connection = Connection::new(now, "fuzz", setup, 1 << 20)
        .and_then(|connection| connection.approaching(now, approach, setup))
        .expect("a client id that encodes");
    let (mut given, mut correlation) = (0, 0);
    let ((), held) = memory::peak(|| {
        let mut buffer = BytesMut::new();
        while !input.0.is_empty() {
            let body = input.long_piece();
            buffer.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
            buffer.extend_from_slice(&i32::to_be_bytes(correlation));
            buffer.extend_from_slice(body);
            given += body.len() + 8;
            correlation += 1;
            if connection.handle_bytes(now, &mut buffer).is_err() {
                return;
            }
            while let Some(heard) = connection.poll_heard() {
                if let Heard::Ready(versions) = heard {
                    if let Approach::Assume(era) = approach {
                        assert_eq!(versions.release(), era.name());
                    }
                    send_oldest(&mut connection, now, choice);
                }
            }
        }
        assert!(!connection.closed(false).message().is_empty());
        let end = now + Duration::from_secs(60);
        if connection.next_timeout().is_some() {
            assert!(connection.handle_timeout(end).is_err());
        }
    });
    within_bounds(held, given);
}

/// Requests of versions that only brokers before 1.0 are sent.
fn send_oldest(connection: &mut Connection, now: Instant, choice: u8) {
    let requests = [
        Request::Metadata(MetadataRequest::default()),
        Request::Fetch(FetchRequest::default()),
        Request::Produce(ProduceRequest::default()),
        Request::ListOffsets(ListOffsetsRequest::default()),
    ];
    for (token, request) in requests.into_iter().enumerate() {
        let version = match &request {
            Request::ListOffsets(_) => 0,
            _ => i16::from(choice / 5 % 3),
        };
        let outgoing = Outgoing {
            token: token as u64,
            request,
            version,
            timeout: Duration::from_secs(1),
            answered: true,
            expected_bytes: 0,
        };
        let sent = connection.send(now, outgoing);
        sent.expect("a request that its version can say");
    }
}

fn send(connection: &mut Connection, now: Instant, choice: u8) {
    let requests = [
        Request::Metadata(MetadataRequest::default()),
        Request::Fetch(FetchRequest::default()),
        Request::Produce(ProduceRequest::default()),
        Request::ListOffsets(ListOffsetsRequest::default()),
        Request::CreateTopics(CreateTopicsRequest::default()),
    ];
    for (token, request) in requests.into_iter().enumerate() {
        let version = match (&request, choice >> 1) {
            (Request::Fetch(_), choice) => 4 + i16::from(choice % 14),
            (Request::Produce(_), choice) => 3 + i16::from(choice % 11),
            (Request::CreateTopics(_), choice) => 2 + i16::from(choice % 6),
            (_, choice) => 1 + i16::from(choice % 10),
        };
        let outgoing = Outgoing {
            token: token as u64,
            request,
            version,
            timeout: Duration::from_secs(1),
            answered: true,
            expected_bytes: 0,
        };
        // A request that this version cannot say leaves the others.
        let _ = connection.send(now, outgoing);
    }
}

fn versions() -> ApiVersionsResponse {
    let row = |api_key| ApiVersion {
        api_key,
        max_version: 99,
        ..Default::default()
    };
    ApiVersionsResponse {
        api_keys: (0..20).map(row).collect(),
        ..Default::default()
    }
}
