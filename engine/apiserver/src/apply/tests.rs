//! Server-side apply against what a real server answered, and the laws that sets obey.

mod laws;
mod recorded;
mod stories;
mod versions;
