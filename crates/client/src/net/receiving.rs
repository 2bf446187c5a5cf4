//! What is on its way from a broker on one connection.

use std::io;
use std::io::ErrorKind::ConnectionReset;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use ottla_engine::Error;
use ottla_engine::connection::Heard;
use ottla_engine::engine::Event;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWrite};

use crate::net::buffers::{Buffers, Filling};
use crate::net::sending::{LinkEngine, Sending};
use crate::net::transport::{ReadHalf, broken, hold, now};

/// A read of a large response that returns less than this has caught up with the network.
const LITTLE: usize = 64 << 10;

/// How long bytes may then pile up in the socket before the next read, as network cards do with their interrupts: to be woken
/// for each segment costs more than what is done with it. Every other connection waits as long at most.
const PILING: Duration = Duration::from_micros(100);

/// A connection's responses and its socket.
pub(crate) struct Receiving {
    reader: ReadHalf,
    input: BytesMut,
    /// A large response, which goes into a buffer of its own.
    large: Option<Filling>,
    buffers: Arc<Buffers>,
}

impl Receiving {
    pub(crate) fn new(reader: ReadHalf, buffers: Arc<Buffers>) -> Receiving {
        Receiving {
            reader,
            input: BytesMut::new(),
            large: None,
            buffers,
        }
    }

    /// Reads as soon as there is something, and takes it in; true if there may be something new to send.
    pub(crate) fn poll_read<W: AsyncWrite + Unpin>(
        &mut self,
        context: &mut Context<'_>,
        engine: &impl LinkEngine,
        sending: &Mutex<Sending<W>>,
    ) -> Poll<Result<bool, Error>> {
        if self.large.is_none() {
            let room = sending.lock().connection.room(&self.input);
            self.input.reserve(room);
        }
        let read = ready!(pin!(self.read()).poll(context));
        Poll::Ready(self.take(engine, sending, read))
    }

    /// Reads into the response's own buffer if it has one, and never past its end.
    async fn read(&mut self) -> io::Result<usize> {
        match &mut self.large {
            Some(filling) => {
                let read = self.reader.read(filling.rest()).await?;
                filling.advance(read);
                if (1..LITTLE).contains(&read) && filling.rest().len() > LITTLE {
                    hold(PILING);
                }
                Ok(read)
            }
            None => self.reader.read_buf(&mut self.input).await,
        }
    }

    /// Takes in how a read went; true if there may be something new to send.
    fn take<W: AsyncWrite + Unpin>(
        &mut self,
        engine: &impl LinkEngine,
        sending: &Mutex<Sending<W>>,
        read: io::Result<usize>,
    ) -> Result<bool, Error> {
        match read {
            Ok(0) => Err(self.closed(sending)),
            Ok(_) => self.receive(engine, sending),
            // A peer that refuses what it received may reset instead of closing, as servers that want TLS do.
            Err(cause) if cause.kind() == ConnectionReset => Err(self.closed(sending)),
            Err(cause) => Err(broken(&cause)),
        }
    }

    /// Takes in what was read; false in the middle of a large response, where nothing has changed.
    fn receive<W: AsyncWrite + Unpin>(
        &mut self,
        engine: &impl LinkEngine,
        sending: &Mutex<Sending<W>>,
    ) -> Result<bool, Error> {
        let now = now();
        let was_large = self.large.is_some();
        let whole = self.large.take_if(|filling| filling.is_whole());
        if whole.is_none() && was_large {
            return Ok(false);
        }
        let outcome = {
            let mut sending = sending.lock();
            let outcome = match whole {
                Some(whole) => sending.connection.handle_frame(now, whole.freeze()),
                None => sending.connection.handle_bytes(now, &mut self.input),
            };
            if outcome.is_err() {
                sending.stop();
            }
            outcome
        };
        let answered = hear(engine, sending, now);
        self.make_room(sending, answered && !was_large)?;
        outcome.map(|()| true)
    }

    /// Gives a large response that has begun a buffer of its own.
    fn make_room<W: AsyncWrite + Unpin>(
        &mut self,
        sending: &Mutex<Sending<W>>,
        were_small: bool,
    ) -> Result<(), Error> {
        let large = sending.lock().connection.large(&self.input);
        if let Some(length) = large {
            let begun = self.input.split().split_off(4);
            let mut filling = self.buffers.take(length)?;
            if let Some(place) = filling.rest().get_mut(..begun.len()) {
                place.copy_from_slice(&begun);
                filling.advance(begun.len());
            }
            self.large = Some(filling);
        } else if were_small {
            // A connection with small responses has read all there was: others have a better use
            // for the memory.
            self.buffers.clear();
        }
        Ok(())
    }

    /// The error if the peer closed the connection now.
    fn closed<W: AsyncWrite + Unpin>(&self, sending: &Mutex<Sending<W>>) -> Error {
        let in_answer = !self.input.is_empty() || self.large.is_some();
        sending.lock().connection.closed(in_answer)
    }
}

/// Reports the connection's events to the engine; false if there were none.
pub(crate) fn hear<W: AsyncWrite + Unpin>(
    engine: &impl LinkEngine,
    sending: &Mutex<Sending<W>>,
    now: Instant,
) -> bool {
    let mut answered = false;
    loop {
        let heard = sending.lock().connection.poll_heard();
        let event = match heard {
            None => return answered,
            Some(Heard::Ready(versions)) => {
                sending.lock().set_ready();
                Event::Up(versions)
            }
            Some(Heard::Answer {
                token,
                response,
                sizes,
                ..
            }) => Event::Answer {
                token,
                response,
                sizes,
            },
            Some(Heard::Renewed(took)) => Event::Renewed(took),
        };
        answered = true;
        engine.handle(now, event);
    }
}
