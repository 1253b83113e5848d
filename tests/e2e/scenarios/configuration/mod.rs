//! Configuration that survives its leader: AMKO's own suite with its exact words, what that suite leaves out, and disasters.

mod disaster;
mod further;
mod site;
mod suite;
mod troubles;

use super::{Scenario, kubectl};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        kubectl("a_lost_leader_is_replaced_comes_back_and_follows", disaster::disaster),
        kubectl("a_lost_cluster_comes_back_and_leads_again", disaster::cluster_failure),
        kubectl("further_kinds_are_federated_and_outlive_their_definition", further::further),
        kubectl("nine_cases_of_a_pair", suite::pair),
        kubectl("what_goes_wrong_is_named_and_costs_nobody_else", troubles::troubles),
    ]
}
