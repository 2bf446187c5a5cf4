//! Stand-in until the protocol crate has these types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCode(pub i16);
impl ErrorCode {
    pub const NOT_LEADER_OR_FOLLOWER: ErrorCode = ErrorCode(6);
    pub fn name(self) -> &'static str {
        "NOT_LEADER_OR_FOLLOWER"
    }
    pub fn is_retriable(self) -> bool {
        true
    }
}
pub mod compression {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Compression {
        None,
        Gzip,
        Snappy,
        Lz4,
        Zstd,
    }
}
