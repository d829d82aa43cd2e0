// SPDX-License-Identifier: Apache-2.0
// The kernels of the instruction set that this program is compiled for: for hosts built with -march of their machine.
// A program for many machines compiles a table per instruction set instead, as driver/isa/ does.
#pragma once

#include <type_traits>

#include "coli/backend/simd.hpp"
#include "coli/kernels/simd/table.hpp"

namespace coli::simd {

/// Does not compile where the flags allow no instruction set that has kernels (AVX2, AVX-512 VNNI, NEON with dotprod).
template <class Arch = Native>
const KernelTable& native_table() {
  static_assert(!std::is_void_v<Arch>, "no SIMD kernels for these compiler flags: add -march=x86-64-v3 or better, or use the scalar backend");
  return table_for<Arch>();
}

}  // namespace coli::simd
