#!/usr/bin/env bash
# Stock Kubernetes and etcd on loopback, built from their Go modules.
#
#   cluster.sh build              build what is missing; print the folder of the programs
#   cluster.sh start DIR [PORT]   start etcd and kube-apiserver with their data in DIR;
#                                 DIR/kubeconfig appears once the server is ready.
#                                 etcd takes PORT+1 and PORT+2. Default port 7543.
#   cluster.sh stop DIR           stop what start started; the data stays
#
# With KOINON_CONTROLLERS=all, start also runs kube-controller-manager and kube-scheduler;
# with KOINON_CONTROLLERS=a,b,c only those controllers. Needs Go, openssl and curl.
set -euo pipefail

KUBERNETES=1.36.3
ETCD=3.6.8
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/koinon/kubernetes-$KUBERNETES-etcd-$ETCD

say() { echo "cluster.sh: $*" >&2; }
die() { say "$*"; exit 1; }

# Each program is linked under another name and then renamed, so a build that was
# cut short never leaves half a program behind.
build() {
  mkdir -p "$cache"
  local version=k8s.io/component-base/version missing=()
  local flags="-s -w -X $version.gitVersion=v$KUBERNETES -X $version.gitMajor=1 -X $version.gitMinor=36"
  for name in etcd kube-apiserver kube-controller-manager kube-scheduler kubectl; do
    [ -x "$cache/$name" ] || missing+=("$name")
  done
  if [ ${#missing[@]} -gt 0 ]; then
    command -v go >/dev/null || die "Go 1.26 or newer is needed to build Kubernetes $KUBERNETES; install it and run this again"
    say "building ${missing[*]}: some minutes the first time"
  fi
  for name in ${missing[@]+"${missing[@]}"}; do
    local package=k8s.io/kubernetes/cmd/$name
    [ "$name" = etcd ] && package=go.etcd.io/etcd/server/v3
    (cd "$here" && CGO_ENABLED=0 go build -trimpath -ldflags "$flags" -o "$cache/.$name.$$" "$package")
    mv "$cache/.$name.$$" "$cache/$name"
    say "built $name"
  done
  echo "$cache"
}

case ${1:-} in
  build) build ;;
  *) sed -n '2,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
