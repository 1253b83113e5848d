//! Kubernetes' protobuf: what stock clients send for built-in kinds and prefer to get.
//!
//! ```text
//! body ─► envelope (kind, bytes) ─► table (fields of the kind) ─► JSON ─► the path of every other body
//! JSON ─► table ─► bytes ─► envelope ─► answer, or a frame of a watch
//! ```
//!
//! Inside is JSON alone: [`decode`] gives exactly what Go's JSON encoding of the same object would be
//! (absent fields that Go always writes included), and [`encode`] gives the bytes that Go would have
//! written. Custom resources and Tables have no protobuf: [`knows`] tells.

mod decode;
mod encode;
mod envelope;
mod special;
mod table;
mod wire;

#[cfg(test)]
mod tests;

pub use envelope::{Decoded, Error, ListWriter, decode, encode, knows, watch_frame};

/// The media type of bodies and answers.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// The media type of a watch.
pub const WATCH_MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// What is wrong with some bytes, in the words of the real server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Fault(String);

impl Fault {
    fn truncated() -> Fault {
        Fault("unexpected EOF".into())
    }

    fn negative_length() -> Fault {
        Fault("proto: negative length found during unmarshaling".into())
    }
}
