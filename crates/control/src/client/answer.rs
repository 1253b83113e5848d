//! The body of an answer, by whichever protocol it came; it fails where the server falls silent in the middle of it.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::time::{Instant, Sleep};
use tower::BoxError;

use super::{http1, http2};

/// Nothing came for so long, although the answer has not ended.
#[derive(Debug, thiserror::Error)]
#[error("nothing came for {} s", .0.as_secs())]
pub(super) struct Silent(pub(super) Duration);

/// What is read of an answer.
pub(super) struct Answer {
    body: Incoming,
    silence: Option<(Duration, Pin<Box<Sleep>>)>,
}

pub(super) enum Incoming {
    Http2(http2::Incoming),
    Http1(http1::Incoming),
}

impl Answer {
    pub(super) fn new(body: Incoming, silence: Option<Duration>) -> Answer {
        let silence = silence.map(|time| (time, Box::pin(tokio::time::sleep(time))));
        Answer { body, silence }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let data = match &mut self.body {
            Incoming::Http2(body) => body.poll_data(context),
            Incoming::Http1(body) => body.poll_data(context),
        };
        match (data, &mut self.silence) {
            (Poll::Ready(data), silence) => {
                if let Some((time, end)) = silence {
                    end.as_mut().reset(Instant::now() + *time);
                }
                Poll::Ready(data.map(|data| data.map(Frame::data)))
            }
            (Poll::Pending, Some((time, end))) => {
                let time = *time;
                end.as_mut().poll(context).map(|()| Some(Err(Silent(time).into())))
            }
            (Poll::Pending, None) => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.body {
            Incoming::Http2(body) => body.is_end_stream(),
            Incoming::Http1(body) => body.is_end_stream(),
        }
    }
}
