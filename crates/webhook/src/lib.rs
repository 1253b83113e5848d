//! A validating webhook that needs nobody's help.
//!
//! ```text
//! API server ─AdmissionReview─► router ─Request─► Reviewer (a role decides) ─Verdict─► API server
//!      ▲                          │ TLS
//!      └── ValidatingWebhookConfiguration ◄── registration ◄── certificates
//! ```
//!
//! - [`review`] reads what is asked and writes what is answered: plain values.
//! - [`certificates`] makes what TLS needs, and the next one before it ends; nothing of it is kept anywhere else.
//! - [`registration`] keeps the object by which the API server knows the webhook.
//! - [`router()`] answers; whoever runs it gives it a port.
//!
//! **It is a courtesy, never a gate.** The API server is told to go on without it when it does not answer (`failurePolicy:
//! Ignore`) and to wait for it for two seconds at most. With `Fail`, a cluster could not change its own objects while Koinon is
//! away, and a cluster has to work without us. So whatever is refused here is also dealt with by the controllers, which see what
//! was let in while the webhook was away. The webhook only says it sooner, to the one who can still correct it.

pub mod certificates;
pub mod metrics;
pub mod registration;
pub mod review;
pub mod router;

pub use certificates::Certificates;
pub use metrics::Metrics;
pub use registration::{Place, Registration};
pub use review::{Operation, Request, Verdict};
pub use router::{Reviewer, router};
