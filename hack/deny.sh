#!/usr/bin/env bash
# Holds all dependencies against deny.toml: licences, bans and sources; known vulnerabilities too where their database can be had.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=0.20.2
home=${XDG_CACHE_HOME:-$HOME/.cache}/koinon/cargo-deny-$version
if ! [ -x "$home/bin/cargo-deny" ]; then
  made=$(mktemp -d)
  trap 'rm -rf "$made"' EXIT
  # Without optimisation it takes a minute of one processor to build instead of ten, and checks within seconds all the same.
  CARGO_PROFILE_DEV_DEBUG=0 cargo install cargo-deny --locked --version "$version" --debug --root "$home" --target-dir "$made"
fi

"$home/bin/cargo-deny" check --hide-inclusion-graph licenses bans sources
if "$home/bin/cargo-deny" fetch db >/dev/null 2>&1; then
  "$home/bin/cargo-deny" check --hide-inclusion-graph --disable-fetch advisories
else
  echo "the database of advisories cannot be had here: known vulnerabilities were not looked for"
fi
