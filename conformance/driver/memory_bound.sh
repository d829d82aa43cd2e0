#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Is --memory a promise? In a cgroup of exactly that limit the run is not killed, its peak resident memory stays at or
# below it, and its logits are those of a resident run; without --memory the limit is found and kept all the same.
# Needs root and a memory cgroup (v1 or v2).      memory_bound.sh COLIDRV FIXTURES
set -euo pipefail
colidrv="$1"
model="$2/bard.gguf"
group=""
for root in /sys/fs/cgroup/memory /sys/fs/cgroup; do
  [[ -w "$root" && ( -e "$root/memory.limit_in_bytes" || -e "$root/cgroup.subtree_control" ) ]] || continue
  candidate="$root/coli-memory-bound-$$"
  mkdir "$candidate" 2>/dev/null || continue
  for file in memory.limit_in_bytes memory.max; do
    [[ -w "$candidate/$file" ]] && group="$candidate" && limit_file="$candidate/$file"
  done
  [[ -n "$group" ]] && break
  rmdir "$candidate"
done
if [[ -z "$group" ]]; then
  echo "SKIP: memory bound: no memory cgroup that may be made here"
  exit 77
fi
trap 'rmdir "$group"' EXIT
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"; rmdir "$group"' EXIT

run_limited() {  # output file, then arguments
  local out="$1"
  shift
  (echo "$BASHPID" >"$group/cgroup.procs"; exec "$colidrv" run "$model" -p "ROMEO:" -n 100 --temp 0 --ctx 512 --chunk 32 --threads 2 --quiet --json "$out" "$@" >/dev/null)
}
value() { grep -o "\"$2\": [0-9]*" "$1" | head -1 | grep -o '[0-9]*$'; }
hash_of() { grep -o '"logits_hash": "[0-9a-f]*"' "$1"; }

"$colidrv" run "$model" -p "ROMEO:" -n 100 --temp 0 --ctx 512 --chunk 32 --threads 2 --quiet --json "$scratch/resident.json" >/dev/null
for mib in 20 22 24; do
  limit=$((mib * 1024 * 1024))
  echo "$limit" >"$limit_file"
  for arguments in "--memory $limit" ""; do
    # shellcheck disable=SC2086 # words on purpose
    run_limited "$scratch/limited.json" $arguments || { echo "${mib} MiB '$arguments': ended with $?"; exit 1; }
    peak="$(value "$scratch/limited.json" peak_rss_bytes)"
    [[ "$peak" -le "$limit" ]] || { echo "${mib} MiB '$arguments': peak $peak is over $limit"; exit 1; }
    [[ "$(hash_of "$scratch/limited.json")" == "$(hash_of "$scratch/resident.json")" ]] || { echo "${mib} MiB '$arguments': other logits"; exit 1; }
    echo "limit $limit '$arguments': peak $peak, $(value "$scratch/limited.json" misses) misses, same logits"
  done
done
code=0
run_limited "$scratch/refused.json" --memory 4M 2>"$scratch/why" || code=$?
[[ $code -eq 4 ]] || { echo "4 MiB ended with $code, expected 4"; exit 1; }
grep -q "bytes short" "$scratch/why" || { echo "the refusal shows no arithmetic: $(cat "$scratch/why")"; exit 1; }
