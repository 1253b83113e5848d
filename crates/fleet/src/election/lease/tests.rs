use std::cmp::Reverse;
use std::collections::BinaryHeap;

use proptest::prelude::*;

use super::*;

fn second(seconds: u64) -> Moment {
    Duration::from_secs(seconds)
}

fn seen(version: u64, holder: &str) -> Seen {
    let holder = (!holder.is_empty()).then(|| holder.to_owned());
    Seen { version: version.to_string(), holder, duration: Some(second(30)) }
}

#[test]
fn a_lease_that_nobody_has_is_taken_and_renewed() {
    let mut me = Contender::new("me", Timing::default());
    assert_eq!(me.step(second(0), Event::Tick), LeaseAction::Look);
    assert_eq!(me.step(second(0), Event::Saw(None)), LeaseAction::Create);
    assert!(!me.leads(second(0)));
    let wrote = Event::Wrote { asked: second(1), seen: seen(1, "me") };
    assert_eq!(me.step(second(2), wrote), LeaseAction::Rest(second(5)));
    assert!(me.leads(second(20)) && !me.leads(second(21)), "counted from before it was asked");
    assert_eq!(me.step(second(7), Event::Tick), LeaseAction::Renew { over: "1".into() });
    assert_eq!(
        me.step(second(17), Event::Failed),
        LeaseAction::Rest(second(4)),
        "in time for a last attempt"
    );
    assert_eq!(me.step(second(21), Event::Tick), LeaseAction::Look, "it leads no more");
}

#[test]
fn a_rival_is_waited_for_by_our_own_clock() {
    let mut me = Contender::new("me", Timing::default());
    assert_eq!(me.step(second(100), Event::Saw(Some(seen(1, "rival")))), LeaseAction::Rest(second(5)));
    assert_eq!(me.step(second(129), Event::Saw(Some(seen(1, "rival")))), LeaseAction::Rest(second(1)));
    // It was renewed: all begins anew.
    assert_eq!(me.step(second(130), Event::Saw(Some(seen(2, "rival")))), LeaseAction::Rest(second(5)));
    assert_eq!(
        me.step(second(160), Event::Saw(Some(seen(2, "rival")))),
        LeaseAction::Take { over: "2".into() }
    );
    // Somebody was faster.
    assert_eq!(me.step(second(160), Event::Conflict), LeaseAction::Rest(second(5)));
}

#[test]
fn a_released_lease_is_taken_at_once() {
    let mut me = Contender::new("me", Timing::default());
    me.step(second(1), Event::Saw(Some(seen(1, "rival"))));
    assert_eq!(me.step(second(6), Event::Saw(Some(seen(2, "")))), LeaseAction::Take { over: "2".into() });
}

#[test]
fn a_lease_that_somebody_deleted_is_not_made_anew_while_its_holder_may_write() {
    let mut me = Contender::new("me", Timing::default());
    me.step(second(1), Event::Saw(Some(seen(1, "rival"))));
    assert_eq!(me.step(second(6), Event::Saw(None)), LeaseAction::Rest(second(5)));
    assert_eq!(me.step(second(28), Event::Saw(None)), LeaseAction::Rest(second(3)));
    assert_eq!(me.step(second(31), Event::Saw(None)), LeaseAction::Create);
}

#[test]
fn a_leader_that_sees_another_holder_stops() {
    let mut me = Contender::new("me", Timing::default());
    me.step(second(0), Event::Wrote { asked: second(0), seen: seen(1, "me") });
    assert_eq!(me.step(second(1), Event::Conflict), LeaseAction::Look);
    me.step(second(1), Event::Saw(Some(seen(2, "rival"))));
    assert!(!me.leads(second(1)));
    assert_eq!(me.holder(), Some("rival"));
}

#[test]
fn times_that_could_give_two_leaders_are_refused() {
    assert_eq!(Timing::default().check(), Ok(()));
    for (lease, renew, retry) in [(20, 20, 5), (30, 5, 5), (30, 20, 0)] {
        let timing = Timing {
            lease_duration: second(lease),
            renew_deadline: second(renew),
            retry_period: second(retry),
        };
        assert!(timing.check().is_err(), "{timing:?}");
    }
}

#[test]
fn others_never_wait_less_than_the_lease_lasts() {
    for (milliseconds, written) in [(100, 1), (1000, 1), (1001, 2), (1900, 2), (30_000, 30)] {
        let timing = Timing { lease_duration: Duration::from_millis(milliseconds), ..Timing::default() };
        assert_eq!(timing.written_seconds(), written, "{milliseconds} ms");
    }
}

// === A server, some contenders whose clocks differ, and a network that fails, in simulated time ===

/// One contender's circumstances.
#[derive(Clone, Debug)]
struct Circumstances {
    /// Its clock shows something else than others', and runs at another speed, in thousandths.
    offset: u64,
    speed: u64,
    /// Delays of requests and answers, one after the other and over again, in milliseconds; a large one means
    /// that the request or the answer is lost.
    delays: Vec<(u64, u64)>,
    /// It stands still from when for how long, in seconds.
    frozen: Option<(u64, u64)>,
    /// It ends at this second, and releases the lease.
    ends: Option<u64>,
}

const LOST: u64 = 9_000;
const DEADLINE: u64 = 8_000;

#[derive(Default)]
struct Server {
    version: u64,
    lease: Option<Seen>,
}

impl Server {
    fn write(&mut self, over: Option<&str>, holder: &str) -> Event {
        if self.lease.as_ref().map(|lease| lease.version.as_str()) != over {
            return Event::Conflict;
        }
        self.version += 1;
        let lease = seen(self.version, holder);
        self.lease = Some(lease.clone());
        Event::Wrote { asked: Duration::ZERO, seen: lease }
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Wake,
    /// A request, with its number, gets to the server.
    Reach(u64, Request),
    /// To the request of the first number there is the answer of the second, or none in time.
    Answer(u64, Option<usize>),
    Check,
    End,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Request {
    Look,
    Write(Option<String>),
}

struct Simulated {
    contender: Contender,
    circumstances: Circumstances,
    /// The request that it waits for, and when it was made.
    waits: Option<(u64, Moment)>,
}

struct Simulation {
    server: Server,
    contenders: Vec<Simulated>,
    answers: Vec<Event>,
    agenda: BinaryHeap<Reverse<(u64, u64, usize, Step)>>,
    order: u64,
    /// Who led when, by the true time.
    leaders: Vec<(u64, Vec<usize>)>,
    done: Vec<bool>,
}

impl Simulation {
    fn new(all: Vec<Circumstances>) -> Simulation {
        let contenders = all
            .iter()
            .enumerate()
            .map(|(index, one)| Simulated {
                contender: Contender::new(format!("c{index}"), Timing::default()),
                circumstances: one.clone(),
                waits: None,
            })
            .collect();
        let mut simulation = Simulation {
            server: Server::default(),
            contenders,
            answers: Vec::new(),
            agenda: BinaryHeap::new(),
            order: 0,
            leaders: Vec::new(),
            done: vec![false; all.len()],
        };
        for (index, one) in all.iter().enumerate() {
            simulation.at(index as u64 * 300, index, Step::Wake);
            if let Some(end) = one.ends {
                simulation.at(end * 1000, index, Step::End);
            }
        }
        simulation
    }

    fn at(&mut self, time: u64, who: usize, step: Step) {
        self.order += 1;
        self.agenda.push(Reverse((time, self.order, who, step)));
    }

    fn local(&self, who: usize, time: u64) -> Moment {
        let circumstances = &self.contenders[who].circumstances;
        Duration::from_millis(circumstances.offset + time * circumstances.speed / 1000)
    }

    /// Runs for so many seconds, looking who leads after every step and every quarter second.
    fn run(&mut self, seconds: u64) {
        for quarter in 0..seconds * 4 {
            self.at(quarter * 250, 0, Step::Check);
        }
        while let Some(Reverse((time, _, who, step))) = self.agenda.pop() {
            if time > seconds * 1000 {
                break;
            }
            if step == Step::Check {
                self.check(time);
                continue;
            }
            // Who stands still goes on when it wakes; what was sent before arrives all the same.
            let thaws = self.contenders[who]
                .circumstances
                .frozen
                .map(|(from, lasts)| (from * 1000, (from + lasts) * 1000));
            if let Some((from, until)) = thaws
                && (from..until).contains(&time)
                && !matches!(step, Step::Reach(..))
            {
                self.at(until, who, step);
                continue;
            }
            self.take(time, who, step);
            self.check(time);
        }
    }

    fn take(&mut self, time: u64, who: usize, step: Step) {
        if self.done[who] && !matches!(step, Step::Reach(..)) {
            return;
        }
        match step {
            Step::Wake => self.feed(time, who, Event::Tick),
            Step::Reach(number, request) => {
                // Who is done sends only the word that it gives the lease back.
                let name = if self.done[who] { String::new() } else { format!("c{who}") };
                let event = match request {
                    Request::Look => Event::Saw(self.server.lease.clone()),
                    Request::Write(over) => self.server.write(over.as_deref(), &name),
                };
                self.answers.push(event);
                let (_, delay) = self.delay(who);
                if delay < LOST {
                    self.at(time + delay, who, Step::Answer(number, Some(self.answers.len() - 1)));
                }
            }
            Step::Answer(number, answer) => {
                let Some((_, asked)) = self.contenders[who].waits.take_if(|(waits, _)| *waits == number)
                else {
                    return;
                };
                let event = match answer.map(|answer| self.answers[answer].clone()) {
                    Some(Event::Wrote { seen, .. }) => Event::Wrote { asked, seen },
                    Some(event) => event,
                    None => Event::Failed,
                };
                self.feed(time, who, event);
            }
            Step::End => {
                self.done[who] = true;
                if let Some(over) = self.contenders[who].contender.release() {
                    self.at(time + 50, who, Step::Reach(0, Request::Write(Some(over))));
                }
            }
            Step::Check => {}
        }
    }

    fn delay(&self, who: usize) -> (u64, u64) {
        let circumstances = &self.contenders[who].circumstances;
        circumstances.delays[(self.order as usize) % circumstances.delays.len()]
    }

    fn feed(&mut self, time: u64, who: usize, event: Event) {
        let now = self.local(who, time);
        let action = self.contenders[who].contender.step(now, event);
        let speed = self.contenders[who].circumstances.speed;
        let request = match action {
            LeaseAction::Rest(pause) => {
                let pause = pause.as_millis() as u64 * 1000 / speed + 1;
                return self.at(time + pause, who, Step::Wake);
            }
            LeaseAction::Look => Request::Look,
            LeaseAction::Create => Request::Write(None),
            LeaseAction::Take { over } | LeaseAction::Renew { over } => Request::Write(Some(over)),
        };
        let number = self.order;
        self.contenders[who].waits = Some((number, now));
        let (delay, _) = self.delay(who);
        if delay < LOST {
            self.at(time + delay, who, Step::Reach(number, request));
        }
        self.at(time + DEADLINE, who, Step::Answer(number, None));
    }

    fn check(&mut self, time: u64) {
        let leaders: Vec<usize> = (0..self.contenders.len())
            .filter(|who| {
                let frozen = self.contenders[*who].circumstances.frozen;
                let stands_still =
                    frozen.is_some_and(|(from, lasts)| (from * 1000..(from + lasts) * 1000).contains(&time));
                !self.done[*who]
                    && !stands_still
                    && self.contenders[*who].contender.leads(self.local(*who, time))
            })
            .collect();
        assert!(leaders.len() <= 1, "{leaders:?} lead at {time} ms");
        self.leaders.push((time, leaders));
    }

    /// The longest time without a leader after the first second given, in milliseconds.
    fn longest_gap(&self, from: u64) -> u64 {
        let (mut gap, mut since) = (0, from * 1000);
        for (time, leaders) in self.leaders.iter().filter(|(time, _)| *time >= from * 1000) {
            if !leaders.is_empty() {
                since = *time;
            }
            gap = gap.max(time - since);
        }
        gap
    }
}

fn calm() -> Circumstances {
    Circumstances { offset: 0, speed: 1000, delays: vec![(20, 20)], frozen: None, ends: None }
}

#[test]
fn one_leads_and_stays_where_all_is_well() {
    let mut simulation = Simulation::new(vec![calm(), calm(), calm()]);
    simulation.run(600);
    assert_eq!(simulation.longest_gap(1), 0);
    assert!(simulation.leaders.iter().skip(10).all(|(_, leaders)| leaders == &[0]));
}

#[test]
fn who_freezes_is_followed_within_a_lease_and_a_retry() {
    let mut frozen = calm();
    frozen.frozen = Some((60, 120));
    let mut simulation = Simulation::new(vec![frozen, calm()]);
    simulation.run(400);
    let gap = simulation.longest_gap(1);
    assert!((20_000..=36_000).contains(&gap), "{gap}");
    assert_eq!(simulation.leaders.last().unwrap().1, [1], "and does not come back by thawing");
}

#[test]
fn who_releases_is_followed_within_a_retry() {
    let mut ending = calm();
    ending.ends = Some(60);
    let mut simulation = Simulation::new(vec![ending, calm()]);
    simulation.run(200);
    assert!(simulation.longest_gap(1) <= 5_500, "{}", simulation.longest_gap(1));
    assert_eq!(simulation.leaders.last().unwrap().1, [1]);
}

fn circumstances() -> impl Strategy<Value = Circumstances> {
    let delay = prop_oneof![4 => 5u64..200, 1 => 200u64..6_000, 1 => Just(LOST)];
    (
        0u64..10_000_000,
        900u64..1_100,
        prop::collection::vec((delay.clone(), delay), 1..12),
        prop::option::of((5u64..200, 1u64..100)),
        prop::option::of(50u64..300),
    )
        .prop_map(|(offset, speed, delays, frozen, ends)| Circumstances {
            offset,
            speed,
            delays,
            frozen,
            ends,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever the clocks show, however the network fails and whoever stands still: never two.
    #[test]
    fn never_two_at_once(all in prop::collection::vec(circumstances(), 2..5)) {
        Simulation::new(all).run(400);
    }

    /// However far clocks are apart, a calm contender takes over from one that is gone.
    #[test]
    fn somebody_leads_in_the_end(mut all in prop::collection::vec(circumstances(), 1..4)) {
        all.push(Circumstances { offset: 123_456, speed: 1_050, ..calm() });
        for one in &mut all[..] {
            one.frozen = one.frozen.filter(|(from, lasts)| from + lasts < 250);
        }
        let survivor = all.len() - 1;
        for one in &mut all[..survivor] {
            one.ends = Some(one.ends.unwrap_or(290).min(290));
        }
        let mut simulation = Simulation::new(all);
        simulation.run(400);
        prop_assert_eq!(&simulation.leaders.last().unwrap().1, &vec![survivor]);
    }
}
