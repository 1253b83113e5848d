//! Jobs and CronJobs in a whole simulated cluster, in one process, under a paused clock.

mod crons;
mod harness;
mod jobs;
#[allow(dead_code, reason = "each of the tests that share it uses a part")]
#[path = "../site/mod.rs"]
mod site;
