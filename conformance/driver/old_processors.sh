#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Does the binary run on processors older than this one, without an illegal instruction and with the same bits?
# On Haswell (AVX2) the cpu profile runs, and its logits are those of this machine; on Nehalem (no AVX) auto takes scalar
# and says so, and asking for cpu is exit 3.      old_processors.sh COLIDRV FIXTURES
set -euo pipefail
colidrv="$1"
model="$2/tiny_q4_k_m.gguf"
if [[ "$(uname -m)" != x86_64 ]] || ! command -v qemu-x86_64 >/dev/null; then
  echo "SKIP: old processors: no qemu-x86_64 here"
  exit 77
fi
hash_of() { grep -o '"logits_hash": "[0-9a-f]*"'; }
arguments=(run "$model" --tokens 1,2,3 -n 5 --temp 0 --threads 1 --json -)

here="$("$colidrv" "${arguments[@]}" --profile cpu --quiet 2>/dev/null | hash_of)"
haswell="$(qemu-x86_64 -cpu Haswell "$colidrv" "${arguments[@]}" --profile cpu --quiet 2>/dev/null | hash_of)"
[[ -n "$here" && "$here" == "$haswell" ]] || { echo "Haswell computes other bits: $haswell, here $here"; exit 1; }

said="$(qemu-x86_64 -cpu Nehalem "$colidrv" "${arguments[@]}" 2>&1 >/dev/null)"
[[ "$said" == *"profile scalar (auto)"* ]] || { echo "Nehalem: auto did not say that it takes scalar: $said"; exit 1; }
code=0
qemu-x86_64 -cpu Nehalem "$colidrv" "${arguments[@]}" --profile cpu >/dev/null 2>&1 || code=$?
[[ $code -eq 3 ]] || { echo "Nehalem: --profile cpu ended with $code, expected 3"; exit 1; }
code=0
COLI_ISA=sse9 "$colidrv" "${arguments[@]}" >/dev/null 2>&1 || code=$?
[[ $code -eq 3 ]] || { echo "an unknown COLI_ISA ended with $code, expected 3"; exit 1; }
echo "old processors: Haswell, Nehalem and an unknown instruction set behave"
