//! How much a server may send: a most for every answer, for every line of a watch, and for all that one server makes us hold
//! at a time. Nothing is unpacked, and no redirect is followed.

mod weight;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, LOCATION};
use http::{HeaderValue, Request, Response};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use kube::Client;
use kube::client::Body;

use self::weight::Scale;
use crate::words;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

const MIB: u64 = 1 << 20;

/// A text that would take more than so many times the bound once it is read is refused before: of a server that is one of many,
/// and of the one that a role works for, which may have hundreds of definitions.
const READ_OF_MANY: u64 = 4;
const READ: u64 = 16;

/// How much is taken of one server, in bytes on the wire. Once it is read it may take some times as much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The bytes of one answer, such as a page of a list.
    pub answer: u64,
    /// The bytes of one line of a watch: one object, which etcd limits to 1.5 MiB where nobody raised that.
    pub line: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { answer: 64 * MIB, line: 16 * MIB }
    }
}

/// Why an answer is not read, or not to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Excess {
    #[error("its answer is longer than {}, or would take too much memory", size(*.0))]
    Answer(u64),
    #[error("a line of its watch is longer than {}, or would take too much memory", size(*.0))]
    Line(u64),
    #[error("what it sends and what is kept of it come to more than {}", size(*.0))]
    Held(u64),
    #[error("it packed its answer ({0}), although nobody asked for that")]
    Packed(String),
    #[error("it redirects to {0}, which is never followed: name the API server's own address")]
    Redirect(String),
}

impl Excess {
    /// The reason that a client's error carries, if it is one of these.
    pub fn within<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Excess> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(excess) = error.downcast_ref() {
                return Some(excess);
            }
            next = error.source();
        }
        None
    }
}

fn size(bytes: u64) -> String {
    if bytes >= MIB { format!("{} MiB", bytes / MIB) } else { format!("{bytes} bytes") }
}

/// How many bytes are held because of one server, and how many may be.
#[derive(Debug)]
pub struct Held {
    bytes: AtomicU64,
    most: u64,
}

impl Held {
    pub fn new(most: u64) -> Arc<Held> {
        Arc::new(Held { bytes: AtomicU64::new(0), most })
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// A part of it that is empty so far.
    pub fn portion(self: &Arc<Self>) -> Portion {
        Portion { held: self.clone(), bytes: 0 }
    }
}

/// Part of what is held because of one server, until it is dropped.
#[derive(Debug)]
pub struct Portion {
    held: Arc<Held>,
    bytes: u64,
}

impl Portion {
    /// Makes it so large. What would be too much stays as it was.
    pub fn set(&mut self, bytes: u64) -> Result<(), Excess> {
        if bytes <= self.bytes {
            self.held.bytes.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
            self.bytes = bytes;
            return Ok(());
        }
        let more = bytes - self.bytes;
        let before = self.held.bytes.fetch_add(more, Ordering::Relaxed);
        if before + more > self.held.most {
            self.held.bytes.fetch_sub(more, Ordering::Relaxed);
            return Err(Excess::Held(self.held.most));
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Portion {
    fn drop(&mut self) {
        self.held.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The same client, but it reads no more than the bounds allow of any answer.
pub fn limiting(client: Client, bounds: Bounds) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |mut request: Request<Body>| {
        let client = client.clone();
        async move {
            let watch = is_watch(&request);
            ask_plainly(&mut request);
            let response = client.send(request).await?;
            bounded(response, watch, bounds, None).map_err(|excess| kube::Error::Service(excess.into()))
        }
    });
    Client::new(service, namespace)
}

/// Whether a request is for a watch, whose answer has no end.
pub fn is_watch<B>(request: &Request<B>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"))
}

/// Asks for an answer that is not packed.
pub fn ask_plainly<B>(request: &mut Request<B>) {
    request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
}

/// Takes in an answer, as far as it may be read.
pub fn bounded(
    response: Response<Body>,
    watch: bool,
    bounds: Bounds,
    held: Option<&Arc<Held>>,
) -> Result<Response<Bounded>, Excess> {
    let (head, body) = response.into_parts();
    let said = |name| {
        let value = head.headers.get(name).map(|value: &HeaderValue| value.as_bytes());
        value.map(|value| words::clean(&String::from_utf8_lossy(value), 200))
    };
    if head.status.is_redirection() {
        return Err(Excess::Redirect(said(LOCATION).unwrap_or_else(|| "nowhere".into())));
    }
    if let Some(packed) = said(CONTENT_ENCODING).filter(|packed| packed != "identity") {
        return Err(Excess::Packed(packed));
    }
    let most =
        if watch && head.status.is_success() { Most::Line(bounds.line) } else { Most::Answer(bounds.answer) };
    let portion = held.map(Held::portion);
    Ok(Response::from_parts(
        head,
        Bounded { body, most: Some(most), since: 0, scale: Scale::default(), portion },
    ))
}

#[derive(Clone, Copy)]
enum Most {
    Answer(u64),
    Line(u64),
}

/// The body of an answer, which fails where it becomes too long.
pub struct Bounded {
    body: Body,
    /// Nothing, where it is all there already.
    most: Option<Most>,
    /// The bytes so far: of the answer, or of the line that has not ended yet.
    since: u64,
    scale: Scale,
    portion: Option<Portion>,
}

impl Bounded {
    /// An answer that was read already.
    pub fn whole(bytes: Bytes) -> Bounded {
        Bounded { body: Body::from(bytes), most: None, since: 0, scale: Scale::default(), portion: None }
    }

    /// Takes in more of an answer or of a line; says whether that is too much by now.
    fn add(&mut self, data: &[u8], most: u64) -> bool {
        self.since += data.len() as u64;
        self.scale.add(data);
        let times = if self.portion.is_some() { READ_OF_MANY } else { READ };
        self.since > most || self.scale.weight() > most.saturating_mul(times)
    }

    fn take(&mut self, data: &[u8]) -> Result<(), Excess> {
        let Some(most) = self.most else { return Ok(()) };
        let excess = match most {
            Most::Answer(most) => self.add(data, most).then_some(Excess::Answer(most)),
            Most::Line(most) => {
                let mut is_long = false;
                for (index, line) in data.split(|byte| *byte == b'\n').enumerate() {
                    if index > 0 {
                        (self.since, self.scale) = (0, Scale::default());
                    }
                    is_long |= self.add(line, most);
                }
                is_long.then_some(Excess::Line(most))
            }
        };
        match (excess, &mut self.portion) {
            (Some(excess), _) => Err(excess),
            (None, Some(portion)) => portion.set(self.since),
            (None, None) => Ok(()),
        }
    }
}

impl HttpBody for Bounded {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        Poll::Ready(match frame {
            Some(Ok(frame)) => match frame.data_ref().map_or(Ok(()), |data| self.take(data)) {
                Ok(()) => Some(Ok(frame)),
                Err(excess) => {
                    // The rest is not read: with it goes the connection.
                    self.body = Body::empty();
                    self.portion = None;
                    Some(Err(excess.into()))
                }
            },
            Some(Err(error)) => Some(Err(error.into())),
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use http_body_util::{BodyExt as _, StreamBody};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::api::{ListParams, WatchEvent, WatchParams};

    use super::*;

    const SMALL: Bounds = Bounds { answer: 1000, line: 600 };

    /// A client whose server answers everything with these chunks, again and again where `endless`.
    fn server(head: &'static [(&'static str, &'static str)], chunk: String, endless: bool) -> Client {
        let service = tower::service_fn(move |request: Request<Body>| {
            assert_eq!(request.headers()[ACCEPT_ENCODING], "identity");
            let chunks = futures::stream::repeat(Bytes::from(chunk.clone()));
            let chunks = chunks.take(if endless { usize::MAX } else { 1 });
            let body = StreamBody::new(chunks.map(|chunk| Ok::<_, BoxError>(Frame::data(chunk))));
            let mut response = Response::builder();
            for (name, value) in head {
                response = match *name {
                    "status" => response.status(*value),
                    name => response.header(name, *value),
                };
            }
            async move { Ok::<_, BoxError>(response.body(body).unwrap()) }
        });
        limiting(Client::new(service, "default"), SMALL)
    }

    fn maps(client: Client) -> Api<ConfigMap> {
        Api::namespaced(client, "default")
    }

    async fn list(client: Client) -> Result<usize, Option<Excess>> {
        let listed = maps(client).list(&ListParams::default()).await;
        listed.map(|list| list.items.len()).map_err(|error| Excess::within(&error).cloned())
    }

    fn event(name: &str) -> String {
        let object = serde_json::json!({"metadata": {"name": name, "resourceVersion": "1"}});
        serde_json::json!({"type": "ADDED", "object": object}).to_string()
    }

    #[tokio::test]
    async fn an_answer_without_an_end_is_read_up_to_its_bound() {
        let good = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":[]}"#;
        assert_eq!(list(server(&[], good.into(), false)).await, Ok(0));
        assert_eq!(list(server(&[], "x".repeat(90), true)).await, Err(Some(Excess::Answer(1000))));
        // Neither is an error without an end.
        let refusing = server(&[("status", "500")], "x".repeat(90), true);
        assert_eq!(list(refusing).await, Err(Some(Excess::Answer(1000))));
    }

    /// Short on the wire, and a hundred times as much once it is read.
    #[tokio::test]
    async fn an_answer_of_very_many_things_is_not_read() {
        let items = |item: &str, count: usize| {
            let items = vec![item; count].join(",");
            format!(r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{}},"items":[{items}]}}"#)
        };
        assert_eq!(list(server(&[], items("{}", 2), false)).await, Ok(2));
        assert_eq!(list(server(&[], items("{}", 300), false)).await, Err(Some(Excess::Answer(1000))));
        let line = r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"1"},"data":["#;
        let client = server(&[], format!("{line}{}\n", "{},".repeat(50)), false);
        let mut watched = Box::pin(maps(client).watch(&WatchParams::default(), "0").await.unwrap());
        let error = watched.next().await.unwrap().unwrap_err();
        assert_eq!(Excess::within(&error), Some(&Excess::Line(600)));
    }

    #[tokio::test]
    async fn what_is_packed_or_leads_elsewhere_is_not_read() {
        let packed = server(&[("content-encoding", "gzip")], "x".into(), false);
        assert_eq!(list(packed).await, Err(Some(Excess::Packed("gzip".into()))));
        let elsewhere = server(&[("status", "307"), ("location", "https://evil/")], String::new(), false);
        assert_eq!(list(elsewhere).await, Err(Some(Excess::Redirect("https://evil/".into()))));
    }

    #[tokio::test]
    async fn a_watch_goes_on_for_ever_but_none_of_its_lines_does() {
        let lines = format!("{}\n{}\n", event("a"), event("b"));
        let watched = maps(server(&[], lines, true)).watch(&WatchParams::default(), "0").await.unwrap();
        let some: Vec<_> = Box::pin(watched).take(100).collect().await;
        assert!(some.iter().all(|event| matches!(event, Ok(WatchEvent::Added(_)))));
        let begun = format!("{}\n{{\"type\":", event("a"));
        let client = server(&[], begun.replace('\n', ""), true);
        let mut watched = Box::pin(maps(client).watch(&WatchParams::default(), "0").await.unwrap());
        let error = watched.next().await.unwrap().unwrap_err();
        assert_eq!(Excess::within(&error), Some(&Excess::Line(600)));
        assert!(watched.next().await.is_none(), "it ends there");
    }

    #[tokio::test]
    async fn what_is_held_is_counted_bounded_and_let_go() {
        let held = Held::new(1000);
        let mut kept = held.portion();
        kept.set(900).unwrap();
        let response = || Response::new(Body::from("x".repeat(90).into_bytes()));
        let read = |response| bounded(response, false, SMALL, Some(&held)).unwrap().into_body();
        assert_eq!(read(response()).collect().await.unwrap().to_bytes().len(), 90);
        kept.set(950).unwrap();
        let error = read(response()).collect().await.unwrap_err();
        assert_eq!(error.downcast_ref(), Some(&Excess::Held(1000)));
        assert_eq!(held.bytes(), 950);
        assert_eq!(kept.set(1001), Err(Excess::Held(1000)));
        drop(kept);
        assert_eq!(held.bytes(), 0);
    }
}
