#!/usr/bin/env bash
# Kubernetes' own conformance specs, one by one, against any cluster or against one that this script starts.
#
#   hack/conformance.sh KUBECONFIG [LIST]     the cluster of a kubeconfig
#   hack/conformance.sh embedded [LIST]       a simulated cluster on the embedded server
#   hack/conformance.sh kubernetes [LIST]     a stock control plane with simulated nodes
#   hack/conformance.sh list                  all conformance specs of the release
#
# LIST has a spec's name in each line; default is hack/conformance/without-data-plane.txt, the specs that a stock control
# plane passes though no container runs. Prints a line for each spec, `pass` or `fail` with its seconds; fails if one does.
#
#   KOINON_JOBS=4                  how many specs run at a time; those marked [Serial] run alone, after the others
#   KOINON_WIRE=protobuf           the clients' wire format, json or protobuf
#   KOINON_SPEC_TIMEOUT=300        seconds that one spec may take
#   KOINON_RESULTS=DIR             where logs and results.txt stay; default is a new folder below /tmp
#   KOINON_E2E_PORT=7600           the first of ten ports of a cluster that is started here
#
# A cluster that is started here has a network namespace of its own, in which there is nothing but loopback: the addresses of
# simulated pods, which some specs and webhooks call, lead nowhere. Needs Go the first time: e2e.test is built from the Go
# module of Kubernetes, in some minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1:-} in '' | -h | --help) sed -n '2,22s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;; esac
subject=$1
specs=${2:-hack/conformance/without-data-plane.txt}
programs=$(hack/kubernetes/cluster.sh build-e2e)
e2e=$programs/e2e.test

# The names of all conformance specs: YAML that folds long ones over several lines.
list() {
  "$e2e" --list-conformance-tests | awk '
    /^  codename: / { name = substr($0, 13); folded = 1; next }
    folded && /^    / { sub(/^ +/, ""); name = name " " $0; next }
    folded {
      folded = 0
      if (name ~ /^\047.*\047$/) { name = substr(name, 2, length(name) - 2); gsub(/\047\047/, "\047", name) }
      if (name ~ /^".*"$/) { name = substr(name, 2, length(name) - 2); gsub(/\\"/, "\"", name) }
      print name
    }'
}
[ "$subject" != list ] || { list | sort; exit; }

case $subject in
  embedded | kubernetes)
    [ "$subject" = embedded ] || hack/kubernetes/cluster.sh build >/dev/null
    if [ -z "${KOINON_OWN_NETWORK:-}" ]; then
      export KOINON_OWN_NETWORK=yes
      exec unshare --map-root-user --net bash -c 'ip link set lo up && exec "$@"' _ hack/conformance.sh "$@"
    fi
    ;;
esac

results=${KOINON_RESULTS:-$(mktemp -d /tmp/koinon-conformance.XXXXXX)}
mkdir -p "$results"
results=$(cd "$results" && pwd)
koinon=${KOINON_BIN:-${CARGO_TARGET_DIR:-target}/debug/koinon}
port=${KOINON_E2E_PORT:-7600}
started=()
finish() {
  for pid in ${started[@]+"${started[@]}"}; do kill "$pid" 2>/dev/null || true; done
  for pid in ${started[@]+"${started[@]}"}; do wait "$pid" 2>/dev/null || true; done
  [ ! -d "$results/stock" ] || hack/kubernetes/cluster.sh stop "$results/stock"
}
trap finish EXIT

await_nodes() { # KUBECONFIG
  for _ in $(seq 600); do
    [ "$("$programs/kubectl" --kubeconfig "$1" get nodes --no-headers 2>/dev/null | grep -c ' Ready ')" -lt 4 ] || return 0
    kill -0 "${started[0]}" 2>/dev/null || break
    sleep 0.2
  done
  echo "conformance.sh: the nodes did not become ready: see $results" >&2
  exit 1
}

case $subject in
  embedded)
    kubeconfig=$results/kubeconfig
    "$koinon" cluster --name conformance --data "$results/data" --listen "127.0.0.1:$port" --kubeconfig "$kubeconfig" --nodes 4 \
      >"$results/cluster.log" 2>&1 &
    started+=($!)
    await_nodes "$kubeconfig"
    ;;
  kubernetes)
    KOINON_CONTROLLERS=all hack/kubernetes/cluster.sh start "$results/stock" "$port"
    kubeconfig=$results/stock/kubeconfig
    "$koinon" nodes --kubeconfig "$kubeconfig" --nodes 4 >"$results/nodes.log" 2>&1 &
    started+=($!)
    await_nodes "$kubeconfig"
    ;;
  *) kubeconfig=$subject ;;
esac

case ${KOINON_WIRE:-json} in
  json) wire=application/json ;;
  protobuf) wire=application/vnd.kubernetes.protobuf ;;
  *) echo "conformance.sh: KOINON_WIRE is json or protobuf" >&2; exit 2 ;;
esac

# One spec in a process of its own: what it leaves behind, or that it hangs, concerns no other.
one() { # NAME
  local name=$1 log began=$SECONDS verdict=fail
  log=$results/$(printf %s "$name" | sha256sum | cut -c1-12).log
  printf '%s\n\n' "$name" >"$log"
  if timeout -k 5 "${KOINON_SPEC_TIMEOUT:-300}" "$e2e" --provider=skeleton --kubeconfig "$kubeconfig" \
    --kube-api-content-type "$wire" --ginkgo.no-color --ginkgo.v \
    --ginkgo.focus "$(printf %s "$name" | sed 's/[][\\.*^$+?(){}|]/\\&/g')" >>"$log" 2>&1 &&
    grep -q '^Ran [1-9][0-9]* of ' "$log"; then
    verdict=pass
  fi
  printf '%s %ss %s\n' "$verdict" $((SECONDS - began)) "$name" | tee -a "$results/results.txt"
}
export -f one
export results e2e kubeconfig wire

: >"$results/results.txt"
grep -v '^#' "$specs" | grep -vF '[Serial]' | xargs -r -d '\n' -P "${KOINON_JOBS:-4}" -I{} bash -c 'one "$1"' _ {}
grep -v '^#' "$specs" | { grep -F '[Serial]' || true; } | xargs -r -d '\n' -P 1 -I{} bash -c 'one "$1"' _ {}
failed=$(grep -c '^fail' "$results/results.txt" || true)
echo "$(grep -c '^pass' "$results/results.txt" || true) passed, $failed failed, in $SECONDS s; logs in $results"
[ "$failed" = 0 ]
