#!/usr/bin/env bash
# Stock Kubernetes and etcd on loopback, built from their Go modules.
#
#   cluster.sh build              build what is missing; print the folder of the programs
#   cluster.sh build-older        the same for the kube-apiserver of the release before
#   cluster.sh build-e2e          the same for e2e.test, Kubernetes' own end-to-end tests
#   cluster.sh start DIR [PORT]   start etcd and kube-apiserver with their data in DIR;
#                                 DIR/kubeconfig appears once the server is ready.
#                                 etcd takes PORT+1 and PORT+2, the controllers PORT+3 and
#                                 PORT+4. Default port 7543.
#   cluster.sh stop DIR           stop what start started; the data stays
#
# With KOINON_CONTROLLERS=all, start also runs kube-controller-manager and kube-scheduler;
# with KOINON_CONTROLLERS=a,b,c only those controllers. With KOINON_OLDER=yes the kube-apiserver is of the release
# before; start DIR without it is then an upgrade. KOINON_APISERVER_FLAGS are more flags for kube-apiserver.
# Needs Go, openssl and curl.
set -euo pipefail

KUBERNETES=1.36.3
OLDER=1.35.4
ETCD=3.6.8
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
caches=${XDG_CACHE_HOME:-$HOME/.cache}/koinon
cache=$caches/kubernetes-$KUBERNETES-etcd-$ETCD

say() { echo "cluster.sh: $*" >&2; }
die() { say "$*"; exit 1; }

build() {
  build_into "$cache" "$here" "$KUBERNETES" etcd kube-apiserver kube-controller-manager kube-scheduler kubectl
}

build_older() {
  build_into "$caches/kubernetes-$OLDER" "$here/older" "$OLDER" kube-apiserver
}

# Its tests import modules that none of the programs does: `go mod tidy` drops their lines from go.sum.
build_e2e() {
  build_into "$cache" "$here" "$KUBERNETES" e2e.test
}

# Builds what is missing of these programs; prints their folder. Each is linked under another name and then renamed, so
# a build that was cut short never leaves half a program behind.
build_into() { # FOLDER MODULE RELEASE PROGRAM…
  local folder=$1 module=$2 release=$3 missing=() name minor
  shift 3
  mkdir -p "$folder"
  for name; do
    [ -x "$folder/$name" ] || missing+=("$name")
  done
  if [ ${#missing[@]} -gt 0 ]; then
    command -v go >/dev/null || die "Go 1.26 or newer is needed to build Kubernetes $release; install it and run this again"
    say "building ${missing[*]} of $release: some minutes the first time"
  fi
  minor=${release#1.}
  minor=${minor%.*}
  local version=k8s.io/component-base/version
  local flags="-s -w -X $version.gitVersion=v$release -X $version.gitMajor=1 -X $version.gitMinor=$minor"
  for name in ${missing[@]+"${missing[@]}"}; do
    local package=k8s.io/kubernetes/cmd/$name verb=(build)
    case $name in
      etcd) package=go.etcd.io/etcd/server/v3 ;;
      e2e.test) package=k8s.io/kubernetes/test/e2e verb=(test -c) ;;
    esac
    (cd "$module" && CGO_ENABLED=0 go "${verb[@]}" -trimpath -ldflags "$flags" -o "$folder/.$name.$$" "$package")
    mv "$folder/.$name.$$" "$folder/$name"
    say "built $name"
  done
  echo "$folder"
}

# Runs a program in the background; its log and process id stay in the cluster's folder.
launch() {
  local name=$1
  shift
  "$@" >"$dir/$name.log" 2>&1 </dev/null &
  echo $! >"$dir/$name.pid"
}

# Waits until URL answers; gives up as soon as the program behind it has ended.
await() {
  local name=$1 url=$2
  for _ in $(seq 1200); do
    curl -skf -o /dev/null "$url" && return 0
    kill -0 "$(cat "$dir/$name.pid")" 2>/dev/null || die "$name ended: see $dir/$name.log"
    sleep 0.05
  done
  die "$name did not become ready: see $dir/$name.log"
}

start() {
  dir=$1
  local port=${2:-7543} bin servers token
  bin=$(build)
  servers=$bin
  [ -z "${KOINON_OLDER:-}" ] || servers=$(build_older)
  mkdir -p "$dir"
  chmod 700 "$dir"
  dir=$(cd "$dir" && pwd)
  for name in etcd kube-apiserver; do
    ! running "$name" || die "$name of $dir is running already: stop it first"
  done
  [ -f "$dir/sa.key" ] || (umask 077 && openssl genrsa -out "$dir/sa.key" 2048 2>/dev/null)
  [ -f "$dir/tokens" ] || (umask 077 && echo "$(openssl rand -hex 16),admin,admin,system:masters" >"$dir/tokens")
  token=$(cut -d, -f1 "$dir/tokens")
  local etcd=http://127.0.0.1:$((port + 1)) peer=http://127.0.0.1:$((port + 2)) server=https://127.0.0.1:$port
  launch etcd "$bin/etcd" --data-dir "$dir/etcd" --log-level warn \
    --listen-client-urls "$etcd" --advertise-client-urls "$etcd" \
    --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" --initial-cluster "default=$peer"
  await etcd "$etcd/readyz"
  # A loopback address may not stand in the Endpoints of the `kubernetes` Service: it is that of the host of simulated
  # nodes, which an embedded cluster on loopback says as well.
  launch kube-apiserver "$servers/kube-apiserver" --etcd-servers "$etcd" \
    --bind-address 127.0.0.1 --advertise-address 172.18.0.1 --secure-port "$port" --cert-dir "$dir/certs" \
    --service-cluster-ip-range 10.96.0.0/16 \
    --service-account-issuer https://kubernetes.default.svc.cluster.local \
    --service-account-key-file "$dir/sa.key" --service-account-signing-key-file "$dir/sa.key" \
    --token-auth-file "$dir/tokens" --authorization-mode RBAC --allow-privileged \
    ${KOINON_APISERVER_FLAGS:-}
  await kube-apiserver "$server/readyz"
  write_kubeconfig "$server" "$token"
  [ -n "${KOINON_CONTROLLERS:-}" ] && start_controllers "$bin" "$port"
  say "ready: kubectl --kubeconfig $dir/kubeconfig get namespaces"
}

write_kubeconfig() {
  (umask 077 && cat >"$dir/kubeconfig.new" <<END
apiVersion: v1
kind: Config
clusters:
- name: stock
  cluster: {server: "$1", certificate-authority-data: $(base64 -w0 <"$dir/certs/apiserver.crt")}
users:
- name: stock
  user: {token: $2}
contexts:
- name: stock
  context: {cluster: stock, user: stock}
current-context: stock
END
  )
  mv "$dir/kubeconfig.new" "$dir/kubeconfig"
}

start_controllers() {
  local bin=$1 port=$2 controllers=$KOINON_CONTROLLERS
  [ "$controllers" = all ] && controllers='*'
  launch kube-controller-manager "$bin/kube-controller-manager" --kubeconfig "$dir/kubeconfig" \
    --bind-address 127.0.0.1 --secure-port $((port + 3)) --leader-elect=false --controllers "$controllers" \
    --service-account-private-key-file "$dir/sa.key" --root-ca-file "$dir/certs/apiserver.crt" \
    --cert-dir "$dir/certs"
  await kube-controller-manager "https://127.0.0.1:$((port + 3))/healthz"
  [ "$controllers" = '*' ] || return 0
  launch kube-scheduler "$bin/kube-scheduler" --kubeconfig "$dir/kubeconfig" \
    --bind-address 127.0.0.1 --secure-port $((port + 4)) --leader-elect=false --cert-dir "$dir/certs"
  await kube-scheduler "https://127.0.0.1:$((port + 4))/healthz"
}

running() {
  [ -f "$dir/$1.pid" ] && kill -0 "$(cat "$dir/$1.pid")" 2>/dev/null
}

# etcd goes last: the others write to it until they end.
stop() {
  dir=$1
  for name in kube-scheduler kube-controller-manager kube-apiserver etcd; do
    running "$name" || continue
    local pid
    pid=$(cat "$dir/$name.pid")
    kill "$pid"
    for _ in $(seq 400); do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.05
    done
    ! kill -0 "$pid" 2>/dev/null || kill -9 "$pid"
    rm -f "$dir/$name.pid"
  done
}

case ${1:-} in
  build) build ;;
  build-older) build_older ;;
  build-e2e) build_e2e ;;
  start) start "${2:?where is the folder for its data?}" "${3:-}" ;;
  stop) stop "${2:?which folder is it in?}" ;;
  *) sed -n '2,16s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
