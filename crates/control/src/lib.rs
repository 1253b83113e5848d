//! What every controller needs of one API server, whichever cluster it looks after.
//!
//! ```text
//! API ─watch─► view ─change─► queue ─key─► (a controller decides) ─call─► API
//!                ▲                                                  │
//!                └───────────────── what it wrote ◄─────────────────┘
//! ```
//!
//! - [`watch`] lists, follows and starts again after every cut; [`view`] keeps what it saw, and what the
//!   controller itself wrote, so that nobody decides twice on the same stale look.
//! - [`queue`] holds keys, never events: one worker for a key, the shorter delay wins, failures come back later.
//! - [`call`] gives every request a deadline, [`clock`] tells the time, [`discovery`] what is served,
//!   [`events`] tells users on the object they look at, [`permission`] which one is missing.
//!
//! It knows neither the embedded engine nor federations.

pub mod call;
pub mod clock;
pub mod discovery;
pub mod events;
pub mod known;
pub mod permission;
pub mod queue;
pub mod view;
pub mod watch;

pub use clock::Clock;
pub use known::Key;
pub use view::View;
