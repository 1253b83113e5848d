//! Whatever users do and however leaders hear of it, in the end all agree.

use proptest::prelude::*;

use super::world::{Until, World};

#[derive(Clone, Copy, Debug)]
enum Step {
    Hear(usize, usize),
    Act(usize, u8),
    Say(usize),
    Remove(usize),
    Leave(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let member = || 0..3usize;
    prop_oneof![
        5 => (member(), 1..3usize).prop_map(|(me, step)| Step::Hear(me, (me + step) % 3)),
        6 => (member(), 0..6u8).prop_map(|(me, until)| Step::Act(me, until)),
        3 => member().prop_map(Step::Say),
        1 => member().prop_map(Step::Remove),
        1 => member().prop_map(Step::Leave),
    ]
}

proptest! {
    #[test]
    fn all_agree_in_the_end(steps in proptest::collection::vec(step(), 0..80)) {
        let mut world = World::new();
        let mut removed = false;
        let mut said = false;
        for (number, step) in steps.into_iter().enumerate() {
            let federated = |world: &World, me: usize| world.sites[me].policy.as_ref().map(|policy| policy.federated);
            let says = u8::try_from(number).unwrap();
            match step {
                Step::Hear(me, other) => drop(world.hear(me, other)),
                Step::Act(me, 0) => drop(world.act(me, Until::Intent)),
                Step::Act(me, 1) => drop(world.act(me, Until::Object)),
                Step::Act(me, _) => drop(world.act(me, Until::End)),
                Step::Say(me) => match federated(&world, me) {
                    Some(_) => world.edit(me, says),
                    None => {
                        world.create(me, says);
                        said = true;
                    }
                },
                Step::Remove(me) if federated(&world, me) == Some(true) => {
                    world.remove(me);
                    removed = true;
                }
                Step::Leave(me) if federated(&world, me) == Some(true) => {
                    world.leave(me);
                    removed = true;
                }
                Step::Remove(_) | Step::Leave(_) => {}
            }
        }
        world.settle();
        let all: Vec<_> = world.sites.iter().filter_map(|site| site.policy.as_ref()).collect();
        let federated: Vec<_> = all.iter().filter(|policy| policy.federated).map(|policy| policy.says).collect();
        prop_assert!(federated.windows(2).all(|pair| pair[0] == pair[1]), "{}", world.shows());
        let everywhere = federated.len() + all.iter().filter(|policy| !policy.federated).count() == 3;
        prop_assert!(federated.is_empty() || everywhere, "{}", world.shows());
        prop_assert!(removed || !said || !federated.is_empty(), "lost: {}", world.shows());
        for site in &world.sites {
            // Where a policy of somebody's own keeps a newer one away, the removal before it is remembered.
            let plain = site.policy.as_ref().is_some_and(|policy| !policy.federated);
            let is_over = site.entry.as_ref().is_none_or(|entry| entry.version.is_live());
            prop_assert!(plain || is_over, "{:?}", site.entry);
        }
    }
}
