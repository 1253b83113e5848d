//! Custom resources between a cloud and a robot.
//!
//! A syncer looks at every CRD beside its robot, and one at a time syncs there: these scenarios take turns.

mod crds;
mod doubts;
mod links;
mod missions;
mod objects;
mod pair;
mod proxy;
mod rights;
mod turns;

use super::{Scenario, api, kubectl};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        kubectl("missions_go_down_and_reports_come_up", missions::missions),
        api("specs_go_down_and_statuses_up", objects::specs_and_statuses),
        api("subtrees_and_generations", objects::subtrees_and_generations),
        api("filters_and_both_sources", objects::filters_and_sources),
        api("copies_end_with_their_originals", objects::ends),
        api("crds_come_change_and_go", crds::come_change_and_go),
        api("versions_scopes_and_subresources", crds::versions_and_scopes),
        api("the_clouds_status_changes", crds::the_clouds_status_changes),
        api("without_a_link", links::without_a_link),
        api("credentials_are_renewed", links::credentials),
        api("the_robots_own_credentials_are_renewed", turns::the_robots_own_credentials),
        api("a_replica_that_lost_its_turn_says_so", turns::a_turn_is_lost),
        api("one_name_for_two_clusters", turns::one_name_for_two),
        api("nothing_is_deleted_on_doubt", doubts::doubts),
        api("a_hostile_robot", rights::hostile_robot),
    ]
}
