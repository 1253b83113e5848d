//! Network policies that hold in every cluster, with Antrea's own definitions, and with exactly the permissions that
//! `koinon install rbac` prints.

mod away;
mod leaving;
mod realm;
mod selecting;
mod spreading;

use super::{Scenario, kubectl};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        kubectl("a_policy_is_the_same_in_every_cluster", spreading::everywhere),
        kubectl("what_cannot_be_taken_is_told_where_the_user_looks", spreading::hindered),
        kubectl("a_rule_can_select_a_service_in_every_cluster_it_is_in", selecting::from_everywhere),
        kubectl("nothing_is_lost_while_nobody_looks_or_clusters_are_apart", away::apart),
        kubectl("a_cluster_that_returns_brings_nothing_back_from_the_dead", leaving::and_returning),
        kubectl(
            "what_a_cluster_deletes_while_it_is_no_member_is_nobodys_removal",
            leaving::and_deleting_meanwhile,
        ),
    ]
}
