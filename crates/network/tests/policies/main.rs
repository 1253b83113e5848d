//! Policies over clusters in this process: no sockets, and time that passes when everybody waits.

mod entities;
mod harness;
mod leaving;
mod rules;
mod schedules;
