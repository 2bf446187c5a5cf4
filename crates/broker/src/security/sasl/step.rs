//! What mechanisms say about a token.

/// Whom a mechanism let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Authenticated {
    pub(crate) name: String,
    /// When what proved it expires, in ms since 1970.
    pub(crate) expires_ms: Option<i64>,
    /// Whether it was a delegation token, whose holder may not make more of them.
    pub(crate) by_token: bool,
}

/// What follows from a client's token.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// More tokens are needed; this one goes to the client.
    Continue(Vec<u8>),
    /// It is through, and gets this last token.
    Done(Vec<u8>, Authenticated),
    /// The client could not prove its identity; it gets this text.
    Failed(String),
}
