//! The broker, and how its connections misbehave.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use ottla_protocol::{ApiKey, Reader, header};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::answers::{self, Chance};
use crate::login::Login;

/// A broker that ends with the test.
pub(crate) struct Hostile {
    pub(crate) address: String,
    task: JoinHandle<()>,
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Hostile {
    pub(crate) async fn start(seed: u64) -> Hostile {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let task = tokio::spawn(async move {
            // They end with the listener.
            let mut connections = JoinSet::new();
            let mut number = 0;
            while let Ok((stream, _)) = listener.accept().await {
                number += 1;
                connections.spawn(serve(stream, Chance::new(seed, number), port));
                while connections.try_join_next().is_some() {}
            }
        });
        Hostile {
            address: format!("127.0.0.1:{port}"),
            task,
        }
    }
}

/// A request as it came.
pub(crate) struct Asked {
    pub(crate) api: ApiKey,
    pub(crate) version: i16,
    pub(crate) correlation: i32,
    pub(crate) body: Reader,
}

async fn read(stream: &mut TcpStream) -> io::Result<Option<Asked>> {
    let length = stream.read_i32().await?;
    let mut bytes = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut bytes).await?;
    // A client that got SaslHandshake 0 sends the mechanism's bytes without a header.
    let (header, body) =
        header::decode_request_header(Bytes::from(bytes)).map_err(io::Error::other)?;
    Ok(ApiKey::from_i16(header.api_key).map(|api| Asked {
        api,
        version: header.api_version,
        correlation: header.correlation_id,
        body,
    }))
}

/// Bytes where others fell: counts and lengths at their limits, what compact ones look like, magic bytes, other protocols.
const WORDS: &[&[u8]] = &[
    &[0],
    &[1],
    &[0x7f],
    &[0x80, 1],
    &[0xff, 0xff],
    &[0x7f, 0xff],
    &[0xff, 0xff, 0xff, 0xff],
    &[0x7f, 0xff, 0xff, 0xff],
    &[0x80, 0, 0, 0],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff, 0x07],
    &[0x80, 0x80, 0x80, 0x80, 0x10],
    &[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    &[2],
    &[3],
];

/// Replaces, inserts or takes out a few bytes; the length before the frame is put right again.
fn damage(chance: &mut Chance, frame: &mut Vec<u8>) {
    for _ in 0..=chance.below(3) {
        // The correlation id is left alone: a wrong one ends all at once, and has its own turn.
        let at = 8 + chance.below(frame.len().saturating_sub(8).max(1));
        let word = WORDS[chance.below(WORDS.len())];
        let end = (at + word.len()).min(frame.len());
        match chance.below(5) {
            0 => drop(frame.splice(at.min(end)..at.min(end), word.iter().copied())),
            1 => frame.truncate(at.max(8)),
            2 => drop(frame.drain(at.min(end)..end)),
            3 if at < frame.len() => frame[at] ^= 1 << chance.below(8),
            _ => drop(frame.splice(at.min(end)..end, word.iter().copied())),
        }
    }
    let length = i32::try_from(frame.len() - 4).unwrap();
    frame[..4].copy_from_slice(&length.to_be_bytes());
}

async fn serve(mut stream: TcpStream, mut chance: Chance, port: u16) -> io::Result<()> {
    // Some connections are honest for a while, so that others than the first responses have their
    // turn.
    let mut honest = chance.below(12);
    let mut login = Login::default();
    loop {
        let Some(mut asked) = read(&mut stream).await? else {
            return Ok(());
        };
        let is_honest = honest > 0 || chance.below(3) == 0;
        honest = honest.saturating_sub(1);
        let fault = if is_honest { 0 } else { 1 + chance.below(20) };
        let falsified = matches!(fault, 1..=6);
        let Some(mut frame) = answers::answer(&mut chance, &mut login, &mut asked, port, falsified)
        else {
            // A Produce without a response.
            continue;
        };
        match fault {
            7..=9 => damage(&mut chance, &mut frame),
            10 => match answers::at_another_version(&mut chance, &mut login, &mut asked, port) {
                Some(other) => frame = other,
                None => continue,
            },
            11 => {
                let at = chance.below(frame.len());
                stream.write_all(&frame[..at]).await?;
                return Ok(());
            }
            12 => {
                for byte in &frame {
                    stream.write_all(&[*byte]).await?;
                    tokio::task::yield_now().await;
                }
                continue;
            }
            13 => {
                let twice = frame.clone();
                frame.extend(twice);
            }
            14 => {
                let wrong = asked.correlation.wrapping_add(1 + chance.below(9) as i32);
                frame[4..8].copy_from_slice(&wrong.to_be_bytes());
            }
            // Never, on a connection that stays open.
            15 => {
                tokio::time::sleep(Duration::from_secs(60)).await;
                return Ok(());
            }
            16 => tokio::time::sleep(Duration::from_millis(chance.below(450) as u64)).await,
            // Closed before the response, or after it.
            17 => return Ok(()),
            18 => return stream.write_all(&frame).await,
            19 => {
                let starts: [&[u8]; 6] = [
                    b"\x15\x03\x03\0\x02\x02\x46",
                    b"HTTP/1.1 400 Bad Request\r\n\r\n",
                    b"\xff\xff\xff\xff",
                    b"\x7f\xff\xff\xff",
                    b"\0\0\0\0",
                    b"\0\x10\0\0only claimed",
                ];
                stream.write_all(starts[chance.below(starts.len())]).await?;
                continue;
            }
            // More than was requested follows the response, in its frame.
            20 => {
                frame.extend_from_slice(&[7; 9]);
                let length = i32::try_from(frame.len() - 4).unwrap();
                frame[..4].copy_from_slice(&length.to_be_bytes());
            }
            _ => {}
        }
        stream.write_all(&frame).await?;
    }
}
