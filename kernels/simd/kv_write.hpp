// SPDX-License-Identifier: Apache-2.0
// How does a key or value enter the cache? As it is, or rounded to f16 (nearest, ties to even).
#pragma once

#include "coli/kernels/simd/leaves.hpp"

namespace coli::simd {

template <class Arch>
COLI_SIMD_ENTRY void write_f16(const float* x, std::size_t n, std::byte* out) {
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Leaf<Arch>::f32_to_f16(load<Arch>(x + i), out + 2 * i);
  if (i == n) return;
  alignas(64) std::byte padded[2 * kLanes];
  Leaf<Arch>::f32_to_f16(load_first<Arch>(x + i, n - i), padded);
  __builtin_memcpy(out + 2 * i, padded, 2 * (n - i));
}

}  // namespace coli::simd
