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
# What a member is upgraded from.
hack/kubernetes/cluster.sh build-older >/dev/null
MCS_DEFINITIONS=$(hack/mcs/definitions.sh)
export MCS_DEFINITIONS
export KOINON_BIN=${CARGO_TARGET_DIR:-$PWD/target}/debug/koinon
# Of the whole workspace, so that what `cargo test --workspace` built serves here too; all of them run, whatever one says.
tests=(admission_policies bad_input crash differential kubectl matrix e2e)
KOINON_E2E_ENGINE=kubernetes cargo test --workspace --features koinon-conformance/stock --no-fail-fast "${tests[@]/#/--test=}" "$@"
