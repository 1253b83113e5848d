#!/usr/bin/env bash
# The property tests and the random schedules with cases that no run before has drawn, until one fails. Each round
# says its seed: PROPTEST_RNG_SEED=SEED repeats its property tests, KOINON_SEEDS=SEED..SEED+10 its schedules.
#
#   hack/soak.sh [ROUNDS]   default 10
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# What a failure draws is shown; it belongs into a test of its own, not into a file of seeds.
export PROPTEST_DISABLE_FAILURE_PERSISTENCE=1
properties=(-p koinon-network --test planning -p koinon-workloads --test placing --test planner --test rollout)
schedules=(-p koinon-config -p koinon-fleet -p koinon-network -p koinon-sync -p koinon-workloads)

for ((round = 1; round <= ${1:-10}; round++)); do
  seed=$((RANDOM * 32768 + RANDOM))
  echo "round $round of ${1:-10}: seed $seed"
  export PROPTEST_RNG_SEED=$seed KOINON_SEEDS=$seed..$((seed + 10))
  cargo test --quiet --workspace --lib
  cargo test --quiet "${properties[@]}"
  cargo test --quiet "${schedules[@]}" --tests -- schedules storms
done
