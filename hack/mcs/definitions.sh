#!/usr/bin/env bash
# Prints the folder with the Multi-Cluster Services API's own definitions of ServiceExport and ServiceImport, from its Go
# module. Needs Go.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

command -v go >/dev/null || { echo "definitions.sh: Go is needed to fetch sigs.k8s.io/mcs-api; install it and run this again" >&2; exit 1; }
go mod download sigs.k8s.io/mcs-api >&2
echo "$(go list -m -f '{{.Dir}}' sigs.k8s.io/mcs-api)/config/crd"
