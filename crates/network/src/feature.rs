//! A feature: one set of controllers that the leader of a member runs.

use std::convert::Infallible;
use std::sync::Arc;

use futures::future::BoxFuture;
use kube::Client;

use crate::leader_context::LeaderContext;

/// One thing that leaders do. There is one of it for all members that a process leads, so that each cluster is watched once
/// however many members are led.
///
/// All futures are boxed: then each is compiled once, with this crate.
pub trait Feature: Send + Sync + 'static {
    /// Follows what has to be known of all members, for as long as it is polled.
    fn follow(self: Arc<Self>) -> BoxFuture<'static, Infallible>;

    /// Looks after one member for as long as it is polled. It is dropped, and awaited, when the lead is lost, and
    /// begins anew when it is won again.
    fn lead(self: Arc<Self>, leader: LeaderContext) -> BoxFuture<'static, Infallible>;

    /// Removes what was generated in a cluster that certainly takes part no more. Whoever comes first does it, so
    /// that every deletion must hold only for the very object that was looked at. Says whether all is gone.
    fn withdraw(self: Arc<Self>, cluster: Client) -> BoxFuture<'static, bool>;
}
