// SPDX-License-Identifier: Apache-2.0
// Which entry is the largest (kernels/ref/argmax.hpp: the definition)?
//
// The lowest id among equals (-0 equals 0); kNoEntry where n is 0 or any value is not finite. O(n), no allocation.
#pragma once

#include "coli/kernels/simd/leaves.hpp"

namespace coli::simd {

inline constexpr std::size_t kNoEntry = ~std::size_t{0};

namespace detail {

/// Are all n values finite? As integers, magnitudes from 0x7F800000 on are infinities and NaN.
template <class Arch>
COLI_SIMD_INLINE bool all_finite(const float* values, std::size_t n) {
  I32x16<Arch> top = splat<Arch>(std::int32_t{0});
  for_lanes<Arch>(n, [&](std::size_t at, auto load_at, auto) COLI_SIMD_LAMBDA {
    top = max(top, bits_as<std::int32_t>(load_at(values + at)) & splat<Arch>(std::int32_t{0x7FFF'FFFF}));
  });
  return largest_lane(top) < 0x7F80'0000;
}

}  // namespace detail

template <class Arch>
COLI_SIMD_ENTRY std::size_t argmax(const float* values, std::size_t n) {
  if (n == 0 || !detail::all_finite<Arch>(values, n)) return kNoEntry;
  F32x16<Arch> top = splat<Arch>(values[0]);
  for_lanes<Arch>(n, [&](std::size_t at, auto load_at, auto) COLI_SIMD_LAMBDA { top = max(top, load_at(values + at, values[0])); });
  const float largest = largest_lane(top);
  std::size_t best = 0;
  while (values[best] != largest) ++best;
  return best;
}

}  // namespace coli::simd
