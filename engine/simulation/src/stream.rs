//! A watch on its way to whoever asked for it: it can break, stall, be late, or lose some of what it shows.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use axum::body::{Body, BodyDataStream, Bytes};
use futures::{StreamExt as _, stream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::fault::Fault;

pub(crate) type Faults = Arc<[Fault]>;

/// A watch's answer that meets the faults of its way.
pub(crate) fn expose(body: Body, faults: watch::Receiver<Faults>) -> Body {
    let watch = Exposed {
        data: body.into_data_stream(),
        faults,
        rest: Vec::new(),
        late: VecDeque::new(),
        shown: 0,
        lost: 0,
        state: State::Open,
    };
    Body::from_stream(stream::unfold(watch, async |mut watch| watch.next().await.map(|item| (item, watch))))
}

struct Exposed {
    data: BodyDataStream,
    faults: watch::Receiver<Faults>,
    /// The beginning of a line whose end is still to come.
    rest: Vec<u8>,
    /// Events that arrived, and when they may be shown.
    late: VecDeque<(Instant, Bytes)>,
    shown: u32,
    lost: u32,
    state: State,
}

#[derive(PartialEq)]
enum State {
    Open,
    /// The server ended it; what is late is still to come.
    Ending,
    Over,
}

impl Exposed {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if self.state == State::Over {
                return None;
            }
            let faults = self.faults.borrow_and_update().clone();
            if faults.contains(&Fault::Cut) {
                return self.broken();
            }
            // Its socket is dead from here on, whatever comes later.
            if faults.iter().any(|fault| matches!(fault, Fault::Hang | Fault::StallWatches)) {
                std::future::pending::<()>().await;
            }
            // No server loses anything in silence: whoever missed something is told so, also when the trouble is over before its time.
            if self.lost > 0 && !faults.iter().any(|fault| matches!(fault, Fault::MissEvents { .. })) {
                return self.too_old();
            }
            let due = self.late.front().map(|(due, _)| *due);
            if due.is_some_and(|due| due <= Instant::now())
                && let Some((_, event)) = self.late.pop_front()
            {
                if let Some(shown) = self.show(event, &faults) {
                    return Some(shown);
                }
                continue;
            }
            if due.is_none() && self.state == State::Ending {
                return None;
            }
            tokio::select! {
                biased;
                changed = self.faults.changed() => changed.ok()?,
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
                chunk = self.data.next(), if self.state == State::Open => match chunk {
                    Some(Ok(chunk)) => self.take(&chunk, &faults),
                    Some(Err(error)) => return Some(Err(io::Error::other(error))),
                    None => self.state = State::Ending,
                },
            }
        }
    }

    fn broken(&mut self) -> Option<io::Result<Bytes>> {
        self.state = State::Over;
        Some(Err(io::ErrorKind::ConnectionReset.into()))
    }

    fn too_old(&mut self) -> Option<io::Result<Bytes>> {
        self.state = State::Over;
        Some(Ok(Bytes::from_static(TOO_OLD)))
    }

    /// Cuts what arrived into events.
    fn take(&mut self, chunk: &[u8], faults: &[Fault]) {
        let lag = faults.iter().find_map(|fault| match fault {
            Fault::Stale(lag) => Some(*lag),
            _ => None,
        });
        let due = Instant::now() + lag.unwrap_or_default();
        // Nothing overtakes what is late.
        let due = self.late.back().map_or(due, |(before, _)| due.max(*before));
        self.rest.extend_from_slice(chunk);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let event: Vec<u8> = self.rest.drain(..=end).collect();
            self.late.push_back((due, event.into()));
        }
    }

    /// What of an event is to be seen.
    fn show(&mut self, event: Bytes, faults: &[Fault]) -> Option<io::Result<Bytes>> {
        for fault in faults {
            match fault {
                Fault::CutWatches { after } if self.shown >= *after => return self.broken(),
                Fault::MissEvents { after } if self.shown >= *after => {
                    self.lost += 1;
                    if self.lost < *after {
                        return None;
                    }
                    return self.too_old();
                }
                _ => {}
            }
        }
        self.shown += 1;
        Some(Ok(event))
    }
}

const TOO_OLD: &[u8] = br#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}
"#;
