//! What the log tells: each thing once, with the same fields.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use http::{Request, Response};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use koinon_control::Clock;
use koinon_control::events::{Weight, recorder};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use tracing_subscriber::fmt::MakeWriter;

/// Keeps lines, without their time.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }

    /// Everything that this thread logs comes here.
    fn capture(&self) -> tracing::subscriber::DefaultGuard {
        let lines = tracing_subscriber::fmt().with_writer(self.clone()).with_ansi(false).without_time();
        tracing::subscriber::set_default(lines.finish())
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Lines;

    fn make_writer(&'a self) -> Lines {
        self.clone()
    }
}

#[tokio::test]
async fn an_event_is_a_line_and_the_same_one_a_minute() {
    let lines = Lines::default();
    let _captured = lines.capture();
    let seconds = Arc::new(AtomicI64::new(0));
    let time = seconds.clone();
    let clock =
        Clock::new(move || Timestamp::UNIX_EPOCH + SignedDuration::from_secs(time.load(Ordering::Relaxed)));
    let nobody = tower::service_fn(|_: Request<Body>| async { Err::<Response<Body>, _>("nobody is there") });
    let (recorder, _writer) = recorder(Client::new(nobody, "default"), "test", clock);
    let about = || ObjectReference {
        kind: Some("Deployment".into()),
        namespace: Some("shop".into()),
        name: Some("web".into()),
        ..ObjectReference::default()
    };
    recorder.tell_about(about(), Weight::Normal, "Quiet", "it is told elsewhere".into());
    let of_member = recorder.clone().logged_of("b");
    let recorder = recorder.logged();
    recorder.unlogged().tell_about(about(), Weight::Normal, "Quiet", "it is told elsewhere".into());
    for second in [0, 1, 2, 61] {
        seconds.store(second, Ordering::Relaxed);
        recorder.tell_about(about(), Weight::Warning, "Refused", "cluster c: no".into());
    }
    of_member.tell_about(about(), Weight::Normal, "Placed", "a=1".into());
    let object = r#"kind="Deployment" namespace="shop" name="web""#;
    assert_eq!(
        lines.text(),
        format!(
            " WARN koinon_control::events: cluster c: no {object} reason=\"Refused\"\n \
             WARN koinon_control::events: cluster c: no {object} reason=\"Refused\" repeated=2\n \
             INFO koinon_control::events: a=1 member=\"b\" {object} reason=\"Placed\"\n"
        )
    );
}
