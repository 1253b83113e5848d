//! What every controller needs: calls with a deadline, a clock, discovery, watches and a queue of work.

pub mod call;
pub mod clock;
pub mod discovery;
pub mod queue;
pub mod watch;

/// Who writes the fields that housekeeping changes, as clusters name it.
pub(crate) const MANAGER: &str = "kube-controller-manager";
