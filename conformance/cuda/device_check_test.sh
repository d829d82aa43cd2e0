#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Does conformance/device_check say what it found? Over programs of straw, each told by a file how to end: no GPU is needed.
# And does what --pack makes get refused where it would not run: a library, a stray file, no device code, too much of it?
#   device_check_test.sh ROOT C++-COMPILER
set -euo pipefail
root="$1" cxx="$2"
check="$root/conformance/device_check"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT

straw() { # name, script
  printf '#!/usr/bin/env bash\n%s\n' "$2" >"$folder/$1"
  chmod +x "$folder/$1"
}
all_well() {
  straw device_rates 'printf "%s\n" "{\"what\": \"device\", \"name\": \"Straw (sm_90)\"}" "{\"what\": \"copy\", \"gb\": 1.0, \"gbs\": 4000.0, \"of_copy\": 1.0, \"text\": \"4000 GB/s\"}" \
  "{\"what\": \"upload\", \"gbs\": 50.0, \"text\": \"50 GB/s\"}" "{\"what\": \"product Q4_K\", \"gbs\": 3400.0, \"of_copy\": 0.850, \"text\": \"3400 GB/s\"}" "{\"what\": \"product Q6_K\", \"gbs\": 2000.0, \"of_copy\": 0.500, \"text\": \"2000 GB/s\"}"'
  straw device_cases 'printf "%s\n" "aa verbs" "bb matmul" >"$2"; echo "2 checks, 0 failed, 2 outputs"'
  straw emulator_cases 'printf "%s\n" "aa verbs" "bb matmul" >"$2"; echo "2 checks, 0 failed, 2 outputs"'
  straw compute-sanitizer 'printf "%s\n" "========= COMPUTE-SANITIZER" "========= ERROR SUMMARY: 0 errors"'
  # A model is its number of layers. A token takes 100 us and 50 for each; it reads 0.1 GB and 0.01 for each.
  # shellcheck disable=SC2016 # the straws expand it
  straw make_synthetic 'layers=6; for ((i = 1; i <= $#; ++i)); do [[ ${!i} == --layers ]] && { j=$((i + 1)); layers="${!j}"; }; done; echo "$layers" >"${@: -1}"'
  # shellcheck disable=SC2016
  straw colidrv 'vram="" bodies="" out="" factor=1
for ((i = 1; i <= $#; ++i)); do
  j=$((i + 1))
  case "${!i}" in
    --json) out="${!j}" ;;
    --vram) vram="${!j}" ;;
    --bodies) bodies=yes factor=3 ;;
    --parked) factor=2 ;;
  esac
done
if [[ $vram == 536870912 ]]; then echo "x: --vram: short; give at least 540000000" >&2; exit 4; fi
if [[ $1 == plan && $vram -lt 1000000000 ]]; then echo "x: --vram: short; give at least 1000000000" >&2; exit 4; fi
if [[ $1 == eval ]]; then echo "{\"same\": 10, \"near_ties\": 1, \"differ\": 0}" >"$out"; fi
if [[ $1 == bench ]]; then
  layers="$(cat "$2")"
  tps="$(awk "BEGIN { print 1e6 / ($factor * (100 + 50 * $layers)) }")"
  echo "decode 64   $tps tok/s"
  { printf "{\n  \"prefill\": [],\n  \"decode\": [\n    {\n      \"tps_median\": %s,\n      \"device\": {\n" "$tps"
    printf "        \"launches_per_token\": 2.0,\n        \"replays_per_token\": 1.0,\n        \"nodes_per_token\": 118.0,\n"
    printf "        \"device_hit_rate\": 0.5,\n        \"uploaded_bytes_per_token\": %s,\n        \"bodies\": [\n" "$([[ -n $vram ]] && echo 1e7 || echo 0)"
    [[ -z $bodies ]] || for body in "attend_split 50" "matmul Q4_K 400" "rmsnorm 30" "matmul Q6_K 100"; do
      printf "          {\n            \"body\": \"%s\",\n            \"runs_per_token\": 24.0,\n            \"microseconds_per_token\": %s\n          },\n" "${body% *}" "${body##* }"
    done
    printf "        ]\n      }\n    }\n  ],\n  \"bytes_per_token\": %d,\n" $((100000000 + 10000000 * layers))
    printf "  \"device\": {\n    \"device_slots\": %d,\n    \"device_experts\": 1536,\n    \"device_slot_bytes\": 4000000000,\n    \"device_held_bytes\": 4600000000\n  }\n}\n" "$([[ -n $vram ]] && echo 384 || echo 1536)"
  } >"$out"
fi'
}
expect() { # exit status, words...
  local wanted="$1" got=0
  shift
  PATH="$folder:$PATH" "$check" --prebuilt "$folder" >"$folder/out" 2>&1 || got=$?
  [[ $got -eq $wanted ]] || { cat "$folder/out"; echo "exit $got where $wanted was due"; exit 1; }
  for words in "$@"; do
    grep -qF -- "$words" "$folder/out" || { cat "$folder/out"; echo "it does not say: $words"; exit 1; }
  done
}

all_well
expect 0 "Straw (sm_90)" " not looked at" "10 decisions same" "2 outputs are the emulator's, bit for bit" "goldens with --vram 540000000" "decode 64   1428.57 tok/s" "qwen3-30b-a3b, 12 of 48 layers" \
  "3400 GB/s: the aim of 0.80 is reached" "2000 GB/s: the aim of 0.80 is missed" \
  "bodies a token                   118.0 in 1.00 recorded passes and 2.0 launched one by one: 10.0 a layer" \
  "microseconds a layer             50.0; outside of layers 100.0; so 400.0 tok/s with 48 layers" \
  "share of the copy rate           0.079 at 0.220 GB a token" \
  "... of 48 layers, reckoned       0.058 at 0.580 GB a token; the aim of 0.20, 1379.3 tok/s, is missed" \
  "... of the recorded rate         0.50, with 2.0 launches a token" \
  "matmul Q4_K                    400.0 microseconds a token in 24.0 runs, 0.57 of a token" \
  "a token takes 700.0 microseconds, 50 % of the copy rate would be 110.0: 590.0 too many" \
  "products                       500.0, of which reading at the copy rate is 55.0" \
  "attention; other bodies        50.0; 30.0 microseconds a token" \
  "between bodies, and the host   120.0 microseconds a token" \
  "experts on the device            384 of 1536, 0.500 of a token's are there, 10.0 MB a token uploaded" \
  "against the bound by upload rate 0.29 of 5000.0 tok/s, at 50.0 GB/s"
if grep -q '^made-up' "$folder/out"; then echo "a rate of a device was called made-up"; exit 1; fi
grep -q '^same *compute-sanitizer synccheck, kernel cases *clean' "$folder/out" || { echo "a clean sanitizer is not right"; exit 1; }
COLI_DEVICE_CHECK_SECONDS=1 expect 0 "SKIP    goldens tiny_f32" "no time was left"
all_well
sed -i s/device_hit_rate/other/ "$folder/colidrv"
expect 1 "WRONG     experts on the device" "a number of it is missing"
all_well
sed -i '/copy/d' "$folder/device_rates"
expect 0 "SKIP      share of the copy rate" "SKIP      what stands between it and 50 %" "SKIP      against the bound by upload rate"
all_well
sed -i s/bodies=yes/bodies=/ "$folder/colidrv"
expect 1 "WRONG     with marks around each body" "none was timed"
all_well
sed -i s/device_held_bytes/other/ "$folder/colidrv"
expect 1 "WRONG   --vram for a quarter of the experts what the device holds is not said"
all_well
straw make_synthetic 'echo "no room" >&2; exit 8'
expect 1 "WRONG   make_synthetic --preset qwen3-30b-a3b --layers 12" "no room"
all_well
straw device_rates 'echo "device_rates: CUDA: no driver" >&2; exit 3'
expect 3 "SKIP: no GPU that can be used: device_rates: CUDA: no driver: nothing was checked"
all_well
straw device_cases 'printf "%s\n" "aa verbs" "cc matmul" >"$2"; echo "2 checks, 0 failed, 2 outputs"'
expect 1 "WRONG   bits of kernels" "1 outputs are not the emulator's; the first: matmul" "something is wrong"
all_well
straw device_rates 'printf "%s\n" "{\"what\": \"device\", \"name\": \"Straw (sm_90)\"}"; echo "device_rates: CUDA: a launch failed" >&2; exit 1'
expect 1 "WRONG   rates of the device                Straw (sm_90): exit 1: device_rates: CUDA: a launch failed"
if grep -q '^same *device ' "$folder/out"; then echo "a device whose rates failed was called right"; exit 1; fi
# A sanitizer that found something says so, whatever other words are in its log; one that was kept from looking found nothing.
all_well
straw compute-sanitizer 'printf "%s\n" "========= COMPUTE-SANITIZER" "========= Invalid __global__ read of size 4 bytes" "=========     Unable to show the source: permission denied" "========= ERROR SUMMARY: 1 error"; exit 9'
expect 1 "WRONG   compute-sanitizer memcheck, engine exit 9: ========= Invalid __global__ read of size 4 bytes" "WRONG   compute-sanitizer synccheck, kernel cases"
sed -i 's/exit 9/exit 1/' "$folder/compute-sanitizer" # its summary alone says it
expect 1 "WRONG   compute-sanitizer memcheck, engine exit 1: ========= Invalid __global__ read"
straw compute-sanitizer 'echo "========= ERROR: permission denied"; exit 9'
expect 1 "WRONG   compute-sanitizer racecheck, engine exit 9"
straw compute-sanitizer 'printf "%s\n" "========= COMPUTE-SANITIZER" "========= Error: Device not supported" "========= ERROR SUMMARY: 0 errors"; exit 1'
expect 0 "SKIP    compute-sanitizer memcheck, engine refused here: ========= Error: Device not supported"
straw compute-sanitizer 'echo "========= Internal Sanitizer Error"; exit 1'
expect 1 "WRONG   compute-sanitizer memcheck, engine exit 1: ========= Internal Sanitizer Error"
all_well
straw device_cases 'echo "WRONG matmul: off by 3 bounds" >&2; exit 1'
expect 1 "WRONG   kernel cases" "off by 3 bounds"
all_well
straw colidrv '[[ $1 == eval ]] && { echo "it decided otherwise" >&2; exit 6; }; exit 0'
expect 1 "WRONG   goldens tiny_f32" "it decided otherwise"
rm "$folder/make_synthetic"
expect 2 "does not hold make_synthetic"
for arguments in "--frob" "--prebuilt" "--pack"; do
  got=0
  "$check" $arguments >/dev/null 2>&1 || got=$?
  [[ $got -eq 2 ]] || { echo "$arguments: exit $got where 2 was due"; exit 1; }
done

# ---- what --pack makes ---------------------------------------------------------------------------------------------
mkdir "$folder/packed"
# A program with the marks that nvcc leaves of its machine code and PTX, and as many bytes besides as told.
program() { # name, marks, bytes, options of the compiler...
  printf 'extern const char marks[] = "%s";\nextern const char fill[%s] = {1};\nint main(int n, char**) { return marks[n] + fill[n]; }\n' "$2" "$3" >"$folder/program.cpp"
  "$cxx" -o "$folder/packed/$1" "$folder/program.cpp" "${@:4}"
}
packed() { # exit status, words...: of "with", which has device code, and "without"
  local wanted="$1" got=0
  shift
  "$root/conformance/cuda/packed.sh" "$folder/packed" "80 90" with without >"$folder/out" 2>&1 || got=$?
  [[ $got -eq $wanted ]] || { cat "$folder/out"; echo "packed.sh: exit $got where $wanted was due"; exit 1; }
  for words in "$@"; do
    grep -qF -- "$words" "$folder/out" || { cat "$folder/out"; echo "packed.sh does not say: $words"; exit 1; }
  done
}
marks="-arch sm_80 -arch sm_90 .target sm_90" alone=(-static-libstdc++ -static-libgcc)
program with "$marks" 9 "${alone[@]}"
program without none 9 "${alone[@]}"
packed 0 "packed: 2 programs, " "they load glibc 2."
program without none 9 -static-libgcc -Wl,--no-as-needed
packed 1 "packed: without loads libstdc++.so.6"
program without none 9 "${alone[@]}" -Wl,-rpath,/opt/lib
packed 1 "packed: without looks for libraries in a folder of its own"
program without none 9 -static
packed 1 "packed: without: readelf -d shows nothing that it loads"
program without none $((40 << 20)) "${alone[@]}"
packed 1 " bytes; 41943040 are the most"
program without none 9 "${alone[@]}"
program with "-arch sm_90 .target sm_80" 9 "${alone[@]}"
packed 1 "packed: with holds no machine code for sm_80" "packed: with holds no PTX for cards after sm_90"
program with "$marks" 9 "${alone[@]}"
cp "$folder/packed/with" "$folder/packed/stray.so"
packed 1 "packed: stray.so is none of the programs"
rm "$folder/packed/stray.so" "$folder/packed/without"
packed 1 "packed: without is missing"
echo "device_check says what it finds; what would not run elsewhere is not packed"
