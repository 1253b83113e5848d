//! One leader at a time, by a Lease that only its holder renews.
//!
//! [`lease`] decides, by locally observed time and never by comparing the clocks of two machines; [`campaign`]
//! asks and writes; [`members`] runs one campaign for each member of the fleet.

pub mod campaign;
pub mod lease;
pub mod members;

pub use campaign::{Campaign, Fence, Leadership, while_leading};
pub use lease::Timing;
pub use members::Elections;
