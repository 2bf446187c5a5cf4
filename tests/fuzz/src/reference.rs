//! Our verdict and bytes against those of another codec, `tests/conformance/reference.py`, in a child process.
//!
//! Where the verdicts differ, ours is the stricter one, and only for this: a length below -1, which the other takes for
//! null as Kafka does.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use bytes::Bytes;
use ottla_protocol::json::{self, Json, NAMES, Visitor};
use ottla_protocol::{DecodeError, DecodeErrorKind, Message, Reader};

use crate::corpus;
use crate::input::Input;
use crate::messages::round_trip;

/// Starts the other codec and waits until it answers: reading the schemas takes it longer than an input may.
pub fn ready() {
    compare("ApiVersionsRequest", 0, &[]);
}

/// As for [`crate::messages::message`]: which message, its version, then its bytes.
pub fn differential(data: &[u8]) {
    let mut input = Input(data);
    let (which, version) = (usize::from(input.u16()), input.u8());
    let Some(name) = NAMES.get(which % NAMES.len()) else {
        return;
    };
    let known = json::versions(name).expect("a message of the protocol");
    let span = known.max - known.min + 1;
    compare(name, known.min + i16::from(version) % span, input.0);
}

/// Compares what both make of the bytes.
pub fn compare(name: &str, version: i16, bytes: &[u8]) {
    let theirs = ask(name, version, bytes);
    let body = Reader::new(Bytes::copy_from_slice(bytes));
    let ours = match round_trip(name, version, body.clone()) {
        Some((written, left)) => format!("ok {left} {}", hex(&written)),
        None => {
            let error = json::visit(name, DecodeFailure(version, body)).flatten();
            let error = error.expect("refused twice");
            if matches!(error.kind(), DecodeErrorKind::NegativeLength { .. }) {
                return;
            }
            format!("no {error}")
        }
    };
    let agree = match (ours.split_once(' '), theirs.split_once(' ')) {
        (Some(("no", _)), Some((verdict, _))) => verdict == "no",
        _ => ours == theirs,
    };
    assert!(
        agree,
        "{name} {version} {}:\nours   {ours}\ntheirs {theirs}",
        hex(bytes)
    );
}

struct DecodeFailure(i16, Reader);

impl Visitor for DecodeFailure {
    type Output = Option<DecodeError>;

    fn visit<M: Message + Json>(mut self) -> Self::Output {
        M::decode(self.0, &mut self.1).err()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The other codec, a process for each thread; it ends when its input does.
struct Reference {
    _child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

thread_local! {
    static REFERENCE: RefCell<Option<Reference>> = const { RefCell::new(None) };
}

fn start() -> std::io::Result<Reference> {
    let python = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    let mut child = Command::new(python)
        .arg(corpus::tests().join("conformance/reference.py"))
        .arg("serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (questions, answers) = child
        .stdin
        .take()
        .zip(child.stdout.take())
        .ok_or(std::io::ErrorKind::BrokenPipe)?;
    Ok(Reference {
        _child: child,
        questions,
        answers: BufReader::new(answers),
    })
}

fn ask(name: &str, version: i16, bytes: &[u8]) -> String {
    REFERENCE.with_borrow_mut(|slot| {
        let reference = slot.get_or_insert_with(|| {
            start().expect("the reference codec needs python3, or another by PYTHON=")
        });
        let mut answer = String::new();
        writeln!(reference.questions, "{name} {version} {}", hex(bytes))
            .and_then(|()| reference.answers.read_line(&mut answer))
            .expect("the reference codec goes on");
        assert!(!answer.is_empty(), "the reference codec died");
        answer.trim_end_matches('\n').to_owned()
    })
}
