//! The wire between a member and those who call it: it can be slowed down, and cut for the federation.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::Stream;
use http::{Request, Response};
use parking_lot::Mutex;
use tokio::sync::watch;

/// The state of one member's wire.
#[derive(Default)]
pub(crate) struct Wire {
    delay: Mutex<Duration>,
    cut: watch::Sender<bool>,
}

/// The wire was cut while an answer was on its way.
#[derive(Debug, thiserror::Error)]
#[error("the connection was lost")]
struct Lost;

impl Wire {
    pub(crate) fn delay(&self) -> Duration {
        *self.delay.lock()
    }

    pub(crate) fn set_delay(&self, delay: Duration) {
        *self.delay.lock() = delay;
    }

    pub(crate) fn is_cut(&self) -> bool {
        *self.cut.borrow()
    }

    pub(crate) fn set_cut(&self, cut: bool) {
        self.cut.send_replace(cut);
    }

    /// Waits as long as a request takes over this wire.
    pub(crate) async fn pass(&self) {
        let delay = self.delay();
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
    }

    /// A call from the federation. While the wire is cut it gets no answer at all, as from a lost network:
    /// calls wait until they are given up, and watches fall silent. When the wire is whole again, what was
    /// on its way is lost.
    pub(crate) async fn carry<F>(
        self: &Arc<Self>,
        request: Request<Body>,
        call: impl FnOnce(Request<Body>) -> F,
    ) -> Response<Body>
    where
        F: Future<Output = Result<Response<Body>, Infallible>>,
    {
        let mut cut = self.cut.subscribe();
        // The sender is part of the wire, which outlives this call.
        let _ = cut.wait_for(|cut| !cut).await;
        self.pass().await;
        let Ok(answer) = call(request).await;
        let (parts, body) = answer.into_parts();
        let body = Carried {
            body: body.into_data_stream(),
            cut: Cut::Whole(Box::pin(until(cut, true))),
            wire: self.clone(),
        };
        Response::from_parts(parts, Body::from_stream(body))
    }
}

type Turn = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Done once the wire is, or is no longer, cut.
async fn until(mut wire: watch::Receiver<bool>, cut: bool) {
    let _ = wire.wait_for(|now| *now == cut).await;
}

/// An answer that stops when the wire is cut.
struct Carried {
    body: axum::body::BodyDataStream,
    cut: Cut,
    wire: Arc<Wire>,
}

enum Cut {
    Whole(Turn),
    Silent(Turn),
}

impl Stream for Carried {
    type Item = Result<Bytes, Box<dyn std::error::Error + Send + Sync>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            match &mut this.cut {
                Cut::Whole(cut) => match cut.as_mut().poll(cx) {
                    Poll::Ready(()) => {
                        this.cut = Cut::Silent(Box::pin(until(this.wire.cut.subscribe(), false)));
                    }
                    Poll::Pending => {
                        return Pin::new(&mut this.body).poll_next(cx).map_err(Into::into);
                    }
                },
                Cut::Silent(healed) => {
                    return healed.as_mut().poll(cx).map(|()| Some(Err(Lost.into())));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;

    use super::*;

    fn endless() -> Response<Body> {
        let stream = futures::stream::repeat(Bytes::from_static(b"x")).map(Ok::<_, Infallible>);
        Response::new(Body::from_stream(stream))
    }

    #[tokio::test(start_paused = true)]
    async fn a_cut_wire_falls_silent_and_what_was_on_its_way_is_lost() {
        let wire = Arc::new(Wire::default());
        let answer = wire.carry(Request::new(Body::empty()), async |_| Ok(endless())).await;
        let mut body = answer.into_body().into_data_stream();
        assert_eq!(body.next().await.unwrap().unwrap(), "x");
        wire.set_cut(true);
        let hour = Duration::from_secs(3600);
        assert!(tokio::time::timeout(hour, body.next()).await.is_err());
        let call = wire.carry(Request::new(Body::empty()), async |_| Ok(endless()));
        assert!(tokio::time::timeout(hour, call).await.is_err());
        wire.set_cut(false);
        assert!(body.next().await.unwrap().is_err());
        wire.carry(Request::new(Body::empty()), async |_| Ok(endless())).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_wire_takes_its_time() {
        let wire = Arc::new(Wire::default());
        wire.set_delay(Duration::from_millis(200));
        let start = tokio::time::Instant::now();
        wire.carry(Request::new(Body::empty()), async |_| Ok(endless())).await;
        assert_eq!(start.elapsed(), Duration::from_millis(200));
    }
}
