//! Policies over clusters in this process: no sockets, and time that passes when everybody waits.

mod entities;
mod forging;
mod harness;
mod leaving;
mod returning;
mod rules;
mod schedules;
