//! The runtime of every controller, whichever cluster it looks after.
//!
//! ```text
//! API ─source─► watch ─sink─► store ─change─► queue ─key─► (a controller decides) ─call─► API
//!                               ▲                                                    │
//!                               └────────────────── what it wrote ◄──────────────────┘
//! ```
//!
//! - [`watch`] is the one loop that lists, follows and resumes after every cut; [`store`] is the cache of what it saw
//!   and of what the controller itself wrote, so that nobody decides twice on the same stale look. [`view`] is a store
//!   of whole objects.
//! - [`queue`] holds keys, never events: one worker for a key, the shorter delay wins, failures come back later.
//! - [`client`] reaches the server, over as few connections as it allows and always over live ones.
//! - [`call`] gives every request a deadline and every failure a class; [`attempts`] counts what is tried in a row,
//!   with backoff.
//! - [`bounds`] says how much a server may send, [`words`] takes the harm out of what it says.
//! - [`clock`] tells the time, [`discovery`] what is served, [`events`] tells users on the object they look at and in the log,
//!   [`repeats`] keeps that from telling the same again and again, [`permission`] tells which one is missing, [`writes`] has
//!   the small calls that every role makes.
//!
//! It knows neither the embedded engine nor federations.

pub mod attempts;
pub mod bounds;
pub mod call;
pub mod client;
pub mod clock;
pub mod discovery;
pub mod events;
pub mod permission;
pub mod proxy;
pub mod queue;
pub mod repeats;
pub mod store;
pub mod view;
pub mod watch;
pub mod words;
pub mod writes;

pub use clock::Clock;
pub use store::Key;
pub use view::View;
