#!/usr/bin/env bash
# The tests that need stock Kubernetes: the same requests, the same kubectl and the same answers beside Koinon, and the
# end-to-end scenarios on stock control planes.
# Needs Go the first time, to build Kubernetes into the user's cache folder.
#
#   hack/test-stock.sh [what cargo test takes]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

programs=$(hack/kubernetes/cluster.sh build)
export KUBECTL=$programs/kubectl
MCS_DEFINITIONS=$(hack/mcs/definitions.sh)
export MCS_DEFINITIONS
cargo build -p koinon
export KOINON_BIN=${CARGO_TARGET_DIR:-$PWD/target}/debug/koinon
# Both are run whatever the first says: a red run tells all that is wrong.
passed=true
cargo test -p koinon-conformance --features stock --no-fail-fast "$@" || passed=false
KOINON_E2E_ENGINE=kubernetes cargo test -p koinon --test e2e "$@" || passed=false
$passed
