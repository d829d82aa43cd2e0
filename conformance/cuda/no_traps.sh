#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Is there code in these device objects that nvcc gave up on? What it can't compile (a host's table, indexed) becomes a trap,
# without a word. Objects hold their PTX as text.   no_traps.sh OBJECT...
set -euo pipefail
bad=0
for object in "$@"; do
  n_entries="$(grep -ac '\.visible \.entry' "$object" || true)"
  n_traps="$(grep -aEc '^[[:space:]]*(trap;|.*__assertfail)' "$object" || true)"
  echo "$(basename "$object"): $n_entries kernels, $n_traps traps"
  if [[ $n_entries -eq 0 || $n_traps -ne 0 ]]; then bad=1; fi
done
exit $bad
