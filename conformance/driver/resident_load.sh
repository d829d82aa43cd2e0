#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What does loading a model leave behind? A resident run holds one copy of the weights: its peak is at most the file, 5 %,
# the KV cache, and what doesn't grow with the file: staging buffers, and what the process held before. What it read for
# itself leaves the page cache again; what was there before, stays.        resident_load.sh COLIDRV MAKE_SYNTHETIC
set -euo pipefail
colidrv="$1"
make_synthetic="$2"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
model="$scratch/model.gguf"
command -v fincore >/dev/null || { echo "SKIP: resident load: no fincore here"; exit 77; }

"$make_synthetic" --preset mid --layers 1 --vocab 16384 "$model" >/dev/null
size="$(stat -c %s "$model")"
cached() { fincore -b -n -o RES "$model" | tr -d ' '; }
evict() { dd of="$model" oflag=nocache conv=notrunc,fdatasync count=0 status=none </dev/null; }
value() { grep -o "\"$2\": [0-9]*" "$1" | head -1 | grep -o '[0-9]*$'; }
hash_of() { grep -o '"logits_hash": "[0-9a-f]*"' "$1"; }
run() { "$colidrv" run "$model" --tokens 1,2,3 -n 2 --temp 0 --chunk 16 --threads 2 --quiet --json "$1" >/dev/null 2>&1; }

evict
before="$(cached)"
[[ "$before" -lt $((size / 100)) ]] || { echo "SKIP: resident load: the page cache keeps $before bytes of a file whatever one says (tmpfs?)"; exit 77; }
run "$scratch/cold.json"
left="$(cached)"
[[ "$left" -lt $((size / 20)) ]] || { echo "loading from disk left $left of $size bytes in the page cache"; exit 1; }

cat "$model" >/dev/null
run "$scratch/warm.json"
kept="$(cached)"
if [[ "$(uname -r | awk -F. '{ print ($1 * 1000 + $2 >= 6005) }')" == 1 ]]; then  # cachestat says what was there
  [[ "$kept" -ge $((size / 100 * 99)) ]] || { echo "loading pushed the file out of the page cache: $kept of $size bytes left"; exit 1; }
fi
[[ -n "$(hash_of "$scratch/cold.json")" && "$(hash_of "$scratch/cold.json")" == "$(hash_of "$scratch/warm.json")" ]] || { echo "cold and warm give other logits"; exit 1; }
for how in cold warm; do
  peak="$(value "$scratch/$how.json" peak_rss_bytes)"
  most=$((size + size / 20 + $(value "$scratch/$how.json" kv) + $(value "$scratch/$how.json" base) + $(value "$scratch/$how.json" io)))
  [[ "$peak" -le "$most" ]] || { echo "$how: peak $peak is over $most for a file of $size bytes"; exit 1; }
  echo "$how: peak $peak of at most $most for a file of $size bytes; $([[ $how == cold ]] && echo "$left" || echo "$kept") bytes of it in the page cache afterwards"
done
