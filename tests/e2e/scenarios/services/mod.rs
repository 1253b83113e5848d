//! Services that span clusters, by what is asked of them. Each scenario has the three clusters to itself, and in each of
//! them a supervisor's role or none, allowed what it needs and no more.

mod example;
mod imports;
mod joining;
mod machines;
mod stage;
mod trouble;
mod types;

use super::{Scenario, kubectl};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        kubectl("foo_is_found_in_every_cluster_and_outlives_a_leader", example::run),
        kubectl("exports_are_imported_as_the_conformance_suite_asks", imports::run),
        kubectl("who_joins_what_and_what_is_told_about_it", joining::run),
        kubectl("machines_are_services_and_found_from_outside", machines::run),
        kubectl("lost_leaders_and_members_and_those_that_lie_harm_nobody", trouble::run),
        kubectl("every_type_of_member_is_reached_as_it_can_be", types::run),
    ]
}
