#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Will this folder run where there is a driver and nothing else? Its programs, what they load, their device code, their size.
#   packed.sh DIR "ARCH..." "PROGRAM..." "PROGRAM..."    machine code for each ARCH (such as 90) and PTX for the last is in the
# first programs; the others have no device code; nothing else is in DIR.
# The system's C library alone may be dynamic: a program that has it inside can't load the driver (libcuda.so.1, by dlopen).
# So it must be as new there as the newest symbol asked for, which is printed. Exit 1: a line for each thing that is wrong.
set -uo pipefail
[[ $# -eq 4 ]] || { sed -n 's/^# *packed.sh/usage: packed.sh/p' "$0" >&2; exit 2; }
folder="$1"
read -ra archs <<<"$2"
read -ra on_device <<<"$3"
read -ra names <<<"$3 $4"
most=$((40 << 20))
bad=0
wrong() { echo "packed: $*" >&2; bad=1; }

command -v readelf >/dev/null || { echo "packed: readelf is missing: nothing was checked" >&2; exit 1; }
for name in "${names[@]}"; do [[ -x "$folder/$name" ]] || wrong "$name is missing"; done
newest=0
for file in "$folder"/*; do
  name="$(basename "$file")"
  [[ " ${names[*]} " == *" $name "* ]] || { wrong "$name is none of the programs"; continue; }
  dynamic="$(readelf -d "$file" 2>&1)"
  [[ $dynamic == *"(NEEDED)"* ]] || { wrong "$name: readelf -d shows nothing that it loads, and the C library can't be inside"; continue; }
  while read -r library; do
    [[ $library =~ ^(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so\.[0-9]+$ ]] || wrong "$name loads $library"
  done < <(sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p' <<<"$dynamic")
  if grep -qE '\((RPATH|RUNPATH)\)' <<<"$dynamic"; then wrong "$name looks for libraries in a folder of its own"; fi
  version="$(readelf -V "$file" | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -1)"
  newest="$(printf '%s\n' "$newest" "${version#GLIBC_}" | sort -V | tail -1)"
  [[ " ${on_device[*]} " == *" $name "* ]] || continue
  for arch in "${archs[@]}"; do grep -qae "-arch sm_$arch" "$file" || wrong "$name holds no machine code for sm_$arch"; done
  grep -qae "\.target sm_${archs[-1]}" "$file" || wrong "$name holds no PTX for cards after sm_${archs[-1]}"
done
bytes="$(cat "$folder"/* | wc -c)"
[[ $bytes -le $most ]] || wrong "$bytes bytes; $most are the most"
[[ $bad -eq 0 ]] && echo "packed: ${#names[@]} programs, $bytes bytes; they load glibc $newest or later, and the driver where there is one"
exit $bad
