//! What can go wrong between a client and a server.

use std::time::Duration;

use http::Method;

/// What can go wrong on the way to a server, for as long as it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Connections break and none is made.
    Cut,
    /// Nothing comes back and nobody is told. What was open by then stays silent for good.
    Hang,
    /// Every request takes so much longer.
    Delay(Duration),
    /// One in so many requests is answered with this status instead of being carried out.
    Refuse { what: Requests, code: u16, one_in: u32 },
    /// One in so many writes is carried out, and its answer lost.
    Lose { one_in: u32 },
    /// One in so many writes is carried out so much later, and nobody is told: as from a process that was stopped in the middle of it.
    Late { by: Duration, one_in: u32 },
    /// Watches show nothing more, not even those that are opened meanwhile. The rest works.
    StallWatches,
    /// Every watch breaks after so many events.
    CutWatches { after: u32 },
    /// Every watch loses so many events after as many, and then says that it is too old (410): what happened in
    /// between is never seen, only what came of it.
    MissEvents { after: u32 },
    /// Watches tell everything so much later, and lists and reads that may be old (`resourceVersion=0`) are.
    Stale(Duration),
}

/// Which requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requests {
    Any,
    Reads,
    Writes,
    Watches,
    /// Lists in streams, which older servers do not know.
    Streams,
}

/// What matters of a request here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Watch,
    Stream,
}

impl Kind {
    pub(crate) fn of(method: &Method, query: &str) -> Kind {
        let says = |wanted: &str| query.split('&').any(|part| part == wanted);
        match method {
            _ if says("sendInitialEvents=true") => Kind::Stream,
            _ if says("watch=true") || says("watch=1") => Kind::Watch,
            &Method::GET | &Method::HEAD => Kind::Read,
            _ => Kind::Write,
        }
    }

    pub(crate) fn is_watch(self) -> bool {
        matches!(self, Kind::Watch | Kind::Stream)
    }
}

impl Requests {
    pub(crate) fn include(self, kind: Kind) -> bool {
        match self {
            Requests::Any => true,
            Requests::Reads => kind == Kind::Read,
            Requests::Writes => kind == Kind::Write,
            Requests::Watches => kind.is_watch(),
            Requests::Streams => kind == Kind::Stream,
        }
    }
}
