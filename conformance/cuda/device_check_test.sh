#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Does conformance/device_check say what it found? Over programs of straw, each told by a file how to end: no GPU is needed.
#   device_check_test.sh ROOT
set -euo pipefail
check="$1/conformance/device_check"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT

straw() { # name, script
  printf '#!/usr/bin/env bash\n%s\n' "$2" >"$folder/$1"
  chmod +x "$folder/$1"
}
all_well() {
  straw device_rates 'printf "%s\n" "{\"what\": \"device\", \"name\": \"Straw (sm_90)\"}" "{\"what\": \"copy\", \"text\": \"4000 GB/s\"}"'
  straw device_cases 'printf "%s\n" "aa verbs" "bb matmul" >"$2"; echo "2 checks, 0 failed, 2 outputs"'
  straw emulator_cases 'printf "%s\n" "aa verbs" "bb matmul" >"$2"; echo "2 checks, 0 failed, 2 outputs"'
  straw make_synthetic 'echo model >"${@: -1}"'
  # shellcheck disable=SC2016 # the straw expands it
  straw colidrv 'for ((i = 1; i <= $#; ++i)); do [[ ${!i} == --json ]] && { j=$((i + 1)); out="${!j}"; }; done
if [[ "$*" == *"--vram 536870912"* ]]; then echo "x: --vram: short; give at least 540000000" >&2; exit 4; fi
case "$1" in
  eval) echo "{\"same\": 10, \"near_ties\": 1, \"differ\": 0}" >"$out" ;;
  bench) echo "decode 64   450.0 tok/s" ;;
esac'
}
expect() { # exit status, words...
  local wanted="$1" got=0
  shift
  "$check" --prebuilt "$folder" >"$folder/out" 2>&1 || got=$?
  [[ $got -eq $wanted ]] || { cat "$folder/out"; echo "exit $got where $wanted was due"; exit 1; }
  for words in "$@"; do
    grep -qF -- "$words" "$folder/out" || { cat "$folder/out"; echo "it does not say: $words"; exit 1; }
  done
}

all_well
expect 0 "Straw (sm_90)" "10 decisions same" "2 outputs are the emulator's, bit for bit" "goldens with --vram 540000000" "decode 64   450.0 tok/s" "30B-A3B, 12 of 48 layers"
straw device_rates 'echo "device_rates: CUDA: no driver" >&2; exit 3'
expect 3 "SKIP: no GPU that can be used: device_rates: CUDA: no driver: nothing was checked"
all_well
straw device_cases 'printf "%s\n" "aa verbs" "cc matmul" >"$2"; echo "2 checks, 0 failed, 2 outputs"'
expect 1 "WRONG  bits of kernels" "1 outputs are not the emulator's; the first: matmul" "something is wrong"
straw device_cases 'echo "WRONG matmul: off by 3 bounds" >&2; exit 1'
expect 1 "WRONG  kernel cases" "off by 3 bounds"
all_well
straw colidrv '[[ $1 == eval ]] && { echo "it decided otherwise" >&2; exit 6; }; exit 0'
expect 1 "WRONG  goldens tiny_f32" "it decided otherwise"
rm "$folder/make_synthetic"
expect 2 "does not hold make_synthetic"
for arguments in "--frob" "--prebuilt" "--pack"; do
  got=0
  "$check" $arguments >/dev/null 2>&1 || got=$?
  [[ $got -eq 2 ]] || { echo "$arguments: exit $got where 2 was due"; exit 1; }
done
echo "device_check says what it finds"
