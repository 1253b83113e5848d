#!/usr/bin/env bash
# The tests that run Koinon beside stock Kubernetes: the same requests, the same kubectl, the same answers.
# Needs Go the first time, to build Kubernetes into the user's cache folder.
#
#   hack/test-stock.sh [what cargo test takes]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

hack/kubernetes/cluster.sh build >/dev/null
cargo build -p koinon
export KOINON_BIN=${CARGO_TARGET_DIR:-$PWD/target}/debug/koinon
cargo test -p koinon-conformance --features stock "$@"
