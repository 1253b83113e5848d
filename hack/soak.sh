#!/usr/bin/env bash
# The property tests and the random schedules with cases that no run before has drawn, until one fails. Each round
# says its seed: PROPTEST_RNG_SEED=SEED repeats its property tests, KOINON_SEEDS=SEED..SEED+10 its schedules.
#
#   hack/soak.sh [ROUNDS]        default 10
#   hack/soak.sh night [HOURS]   default 8: until then, and in each round also 2,000 sequences of the differential test
#                                beside stock Kubernetes (KOINON_SEED=SEED repeats them). A round that fails does not end
#                                the night; its seeds and its log are named at the end, and the exit code is 1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# What a failure draws is shown; it belongs into a test of its own, not into a file of seeds.
export PROPTEST_DISABLE_FAILURE_PERSISTENCE=1
properties=(-p koinon-network --test planning -p koinon-workloads --test placing --test planner --test rollout)
schedules=(-p koinon-config -p koinon-fleet -p koinon-network -p koinon-sync -p koinon-workloads)

fresh_seed() { echo $((RANDOM * 32768 + RANDOM)); }

round() { # SEED
  export PROPTEST_RNG_SEED=$1 KOINON_SEEDS=$1..$(($1 + 10))
  cargo test --quiet --workspace --lib &&
    cargo test --quiet "${properties[@]}" &&
    cargo test --quiet "${schedules[@]}" --tests -- schedules storms &&
    # Ten thousand Deployments that come and go leave nothing behind.
    KOINON_SOAK=10000 cargo test --quiet -p koinon-workloads --test federation -- soaking
}

beside_stock() { # SEED
  KOINON_SEED=$1 KOINON_SEQUENCES=2000 hack/test-stock.sh every_answer_is_the_same
}

night() { # HOURS
  local logs failed=() seed number=0 end=$((SECONDS + $1 * 3600))
  logs=$(mktemp -d /tmp/koinon-night.XXXXXX)
  while [ $SECONDS -lt $end ]; do
    seed=$(fresh_seed)
    number=$((number + 1))
    for part in round beside_stock; do
      echo "$(date -u +%H:%M) round $number, $part: seed $seed"
      "$part" "$seed" >"$logs/$part-$seed.log" 2>&1 || failed+=("$part, seed $seed: $logs/$part-$seed.log")
    done
  done
  [ ${#failed[@]} -gt 0 ] || { echo "$number rounds, none failed"; return 0; }
  printf 'failed: %s\n' "${failed[@]}"
  return 1
}

if [ "${1:-}" = night ]; then
  night "${2:-8}"
  exit
fi
for ((number = 1; number <= ${1:-10}; number++)); do
  seed=$(fresh_seed)
  echo "round $number of ${1:-10}: seed $seed"
  round "$seed"
done
