//! Responses of a malicious broker: valid encodings with random fields, arrays that are longer than
//! anybody can use, and bytes that are no encoding at all (R15).

use bytes::{Bytes, BytesMut};
use ottla_protocol::form::frame::{decode_response, encode_response};
use ottla_protocol::form::{Each, FormError, FormValue, IntRange, Name, Sink, find};
use ottla_protocol::{ApiKey, Str, Uuid};

use crate::chance::Chance;

/// The most elements that an array is made of.
const MOST: usize = 3000;
/// The most bytes of a frame that is made longer.
const LARGEST: usize = 600_000;

/// A response to a request of this API in this version, falsified.
pub fn falsified(chance: &mut Chance, api: ApiKey, version: i16, answer: &Bytes) -> Bytes {
    match chance.below(20) {
        0 => damaged(chance, answer),
        1 => claiming(chance, answer),
        _ => restructured(chance, api, version, answer).unwrap_or_else(|| damaged(chance, answer)),
    }
}

/// The frame with some bytes changed, behind its length.
fn damaged(chance: &mut Chance, answer: &Bytes) -> Bytes {
    let mut bytes = BytesMut::from(&answer[..]);
    for _ in 0..=chance.below(4) {
        let at = 4 + chance.below(bytes.len().saturating_sub(4));
        if let Some(byte) = bytes.get_mut(at) {
            *byte = chance.pick(&[0, 1, 0x7f, 0x80, 0xff]).unwrap_or(0);
        }
    }
    bytes.freeze()
}

/// The frame under a length that is not its own.
fn claiming(chance: &mut Chance, answer: &Bytes) -> Bytes {
    let claims = [
        -1,
        i32::MIN,
        i32::MAX,
        0,
        1,
        3,
        5,
        100_000,
        900_000,
        1 << 24,
    ];
    let claim: i32 = chance.pick(&claims).unwrap_or(0);
    let mut bytes = BytesMut::from(&answer[..]);
    if let Some(length) = bytes.get_mut(..4) {
        length.copy_from_slice(&claim.to_be_bytes());
    }
    bytes.freeze()
}

fn restructured(chance: &mut Chance, api: ApiKey, version: i16, answer: &Bytes) -> Option<Bytes> {
    let framed = decode_response(api, version, answer.clone()).ok()?;
    let mut written = Writing::default();
    framed.body.show(framed.version, &mut written);
    let mut tree = written.done?;
    let leaves = tree.count();
    for _ in 0..=chance.below(4) {
        let mut at = chance.below(leaves);
        tree.change(chance, &mut at);
    }
    let kind = find(&format!("{api}Response")).ok()?;
    let body = kind.take(framed.version, &tree).ok()?;
    let id = framed.correlation_id;
    let segments = encode_response(api, framed.version, &*body, id).ok()?;
    let whole: BytesMut = segments
        .iter()
        .flat_map(|bytes| bytes.iter().copied())
        .collect();
    (whole.len() <= LARGEST).then(|| whole.freeze())
}

/// A message as a tree.
#[derive(Clone, Debug)]
enum Tree {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Str),
    Bytes(Bytes),
    Uuid(Uuid),
    Array(Vec<Tree>),
    Object(Vec<(Name, Tree)>),
}

impl Tree {
    /// How many places [`Tree::change`] may strike.
    fn count(&self) -> usize {
        let inner = match self {
            Tree::Array(elements) => elements.iter().map(Tree::count).sum(),
            Tree::Object(fields) => fields.iter().map(|(_, value)| value.count()).sum(),
            _ => 0,
        };
        inner + usize::from(!matches!(self, Tree::Object(_)))
    }

    /// Changes the place of this number; true if it was found.
    fn change(&mut self, chance: &mut Chance, at: &mut usize) -> bool {
        if !matches!(self, Tree::Object(_)) {
            if *at == 0 {
                self.lie(chance);
                return true;
            }
            *at -= 1;
        }
        match self {
            Tree::Array(elements) => elements.iter_mut().any(|it| it.change(chance, at)),
            Tree::Object(fields) => fields.iter_mut().any(|(_, it)| it.change(chance, at)),
            _ => false,
        }
    }

    fn lie(&mut self, chance: &mut Chance) {
        match self {
            Tree::Null => {}
            Tree::Bool(value) => *value = !*value,
            Tree::Int(value) => *value = number(chance, *value),
            Tree::Float(value) => {
                let numbers = [f64::NAN, f64::INFINITY, -1.0, 0.0];
                *value = chance.pick(&numbers).unwrap_or(0.0);
            }
            Tree::Text(text) => *text = name(chance, text),
            Tree::Bytes(bytes) => *bytes = content(chance, bytes),
            Tree::Uuid(id) => {
                let number = chance.number();
                let mut other = [0; 16];
                for (place, byte) in other.iter_mut().zip(number.to_be_bytes()) {
                    *place = byte;
                }
                *id = if chance.percent(30) {
                    Uuid::ZERO
                } else {
                    Uuid(other)
                };
            }
            Tree::Array(elements) => rearrange(chance, elements),
            Tree::Object(_) => {}
        }
        if chance.percent(5) && matches!(self, Tree::Text(_) | Tree::Bytes(_) | Tree::Array(_)) {
            *self = Tree::Null;
        }
    }
}

fn number(chance: &mut Chance, truth: i64) -> i64 {
    let known = [
        -1,
        0,
        1,
        2,
        7,
        i64::from(i16::MAX),
        i64::from(i32::MAX),
        i64::from(i32::MIN),
        i64::MAX,
        i64::MIN,
        1 << 16,
        1 << 40,
    ];
    match chance.below(4) {
        // Any of the error codes.
        0 => i64::from(chance.from_to(-1, 133)),
        1 => truth.wrapping_add(i64::from(chance.from_to(-2, 2))),
        _ => chance.pick(&known).unwrap_or(0),
    }
}

fn name(chance: &mut Chance, truth: &Str) -> Str {
    match chance.below(6) {
        0 => Str::default(),
        1 => "x".repeat(30_000).into(),
        2 => "\0 \r\n".into(),
        3 => format!("{}x", &**truth).into(),
        4 => format!("t{}", chance.below(3)).into(),
        _ => format!("n{}", chance.number()).into(),
    }
}

fn content(chance: &mut Chance, truth: &Bytes) -> Bytes {
    match chance.below(5) {
        0 => Bytes::new(),
        1 => truth.slice(..chance.below(truth.len())),
        2 => {
            let again = (1..=1 + chance.below(50)).flat_map(|_| truth.iter().copied());
            again.take(LARGEST / 2).collect()
        }
        _ => {
            let mut bytes = BytesMut::from(&truth[..]);
            for _ in 0..=chance.below(6) {
                let at = chance.below(bytes.len());
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = chance.pick(&[0, 1, 2, 0x7f, 0x80, 0xff]).unwrap_or(0);
                }
            }
            bytes.freeze()
        }
    }
}

/// Elements that are missing, that come again, or that come in thousands, each another.
fn rearrange(chance: &mut Chance, elements: &mut Vec<Tree>) {
    let at = chance.below(elements.len());
    match chance.below(4) {
        0 => elements.clear(),
        1 if !elements.is_empty() => drop(elements.remove(at)),
        2 => elements.extend(elements.get(at).cloned()),
        _ => {
            let Some(model) = elements.get(at).cloned() else {
                return;
            };
            let most = MOST / model.count().max(1);
            for _ in 0..chance.below(most) {
                let mut copy = model.clone();
                for _ in 0..2 {
                    let mut place = chance.below(copy.count());
                    copy.change_leaf(chance, &mut place);
                }
                elements.push(copy);
            }
        }
    }
}

impl Tree {
    /// As [`Tree::change`], but an array stays as long as it is.
    fn change_leaf(&mut self, chance: &mut Chance, at: &mut usize) {
        match self {
            Tree::Array(elements) => elements
                .iter_mut()
                .for_each(|it| it.change_leaf(chance, at)),
            Tree::Object(fields) => fields
                .iter_mut()
                .for_each(|(_, it)| it.change_leaf(chance, at)),
            Tree::Text(text) if *at == 0 => *text = format!("n{}", chance.number()).into(),
            Tree::Int(value) if *at == 0 => *value = number(chance, *value),
            _ => {}
        }
        *at = at.wrapping_sub(1);
    }
}

/// A tree that grows.
#[derive(Debug, Default)]
struct Writing {
    open: Vec<(Tree, Option<Name>)>,
    name: Option<Name>,
    done: Option<Tree>,
}

impl Writing {
    fn put(&mut self, value: Tree) {
        let name = self.name.take();
        match self.open.last_mut() {
            Some((Tree::Array(elements), _)) => elements.push(value),
            Some((Tree::Object(fields), _)) => fields.extend(name.map(|name| (name, value))),
            _ => self.done = Some(value),
        }
    }

    fn begin(&mut self, value: Tree) {
        let name = self.name.take();
        self.open.push((value, name));
    }

    fn end(&mut self) {
        if let Some((value, name)) = self.open.pop() {
            self.name = name;
            self.put(value);
        }
    }
}

impl Sink for Writing {
    fn null(&mut self) {
        self.put(Tree::Null);
    }

    fn bool(&mut self, value: bool) {
        self.put(Tree::Bool(value));
    }

    fn int(&mut self, value: i64) {
        self.put(Tree::Int(value));
    }

    fn float(&mut self, value: f64) {
        self.put(Tree::Float(value));
    }

    fn string(&mut self, value: &Str) {
        self.put(Tree::Text(value.clone()));
    }

    fn bytes(&mut self, value: &Bytes) {
        self.put(Tree::Bytes(value.clone()));
    }

    fn uuid(&mut self, value: Uuid) {
        self.put(Tree::Uuid(value));
    }

    fn begin_array(&mut self, _: usize) {
        self.begin(Tree::Array(Vec::new()));
    }

    fn end_array(&mut self) {
        self.end();
    }

    fn begin_object(&mut self) {
        self.begin(Tree::Object(Vec::new()));
    }

    fn name(&mut self, name: Name) {
        self.name = Some(name);
    }

    fn unknown(&mut self, _: &ottla_protocol::UnknownTags) {}

    fn end_object(&mut self) {
        self.end();
    }

    fn shows_defaults(&self) -> bool {
        true
    }
}

fn wrong(what: &str) -> FormError {
    FormError::value(format!("{what} is wanted here"))
}

impl FormValue for Tree {
    fn is_null(&self) -> bool {
        matches!(self, Tree::Null)
    }

    fn bool(&self) -> Result<bool, FormError> {
        match self {
            Tree::Bool(value) => Ok(*value),
            _ => Err(wrong("a boolean")),
        }
    }

    fn int(&self, range: IntRange) -> Result<i64, FormError> {
        match self {
            Tree::Int(value) => Ok((*value).clamp(range.min, range.max)),
            _ => Err(wrong("a number")),
        }
    }

    fn float(&self) -> Result<f64, FormError> {
        match self {
            Tree::Float(value) => Ok(*value),
            _ => Err(wrong("a number")),
        }
    }

    fn string(&self) -> Result<Str, FormError> {
        match self {
            Tree::Text(text) => Ok(text.clone()),
            _ => Err(wrong("a text")),
        }
    }

    fn bytes(&self) -> Result<Bytes, FormError> {
        match self {
            Tree::Bytes(bytes) => Ok(bytes.clone()),
            _ => Err(wrong("bytes")),
        }
    }

    fn uuid(&self) -> Result<Uuid, FormError> {
        match self {
            Tree::Uuid(id) => Ok(*id),
            _ => Err(wrong("an id")),
        }
    }

    fn elements(&self, each: Each<'_>) -> Result<(), FormError> {
        match self {
            Tree::Array(elements) => elements.iter().try_for_each(|it| each(it)),
            _ => Err(wrong("an array")),
        }
    }

    fn object(&self) -> Result<usize, FormError> {
        match self {
            Tree::Object(fields) => Ok(fields.len()),
            _ => Err(wrong("a struct")),
        }
    }

    fn field(&self, name: Name, one: Each<'_>) -> Result<bool, FormError> {
        let Tree::Object(fields) = self else {
            return Err(wrong("a struct"));
        };
        match fields.iter().find(|(known, _)| *known == name) {
            Some((_, value)) => one(value).map(|()| true),
            None => Ok(false),
        }
    }

    fn unknown(&self) -> Result<Option<Vec<ottla_protocol::UnknownTag>>, FormError> {
        Ok(None)
    }

    fn stranger(&self, _: &[Name]) -> Option<String> {
        None
    }

    fn is_complete(&self) -> bool {
        false
    }
}
