// SPDX-License-Identifier: Apache-2.0
// What is the root-mean-square norm of a vector (kernels/ref/rmsnorm.hpp: the definition)?
//
// Squares are summed in 16 lanes of 4 chains (vector i into chain i % 4), the chains as (0 + 1) + (2 + 3), the lanes by
// the fixed tree; y = (x * inverse) * weight. Relative error of the sum at most gamma(n / 64 + 8). y may be x.
#pragma once

#include "coli/kernels/simd/leaves.hpp"

namespace coli::simd {

template <class Arch>
COLI_SIMD_ENTRY void rmsnorm(const float* x, const float* weight, std::size_t n, float epsilon, float* y) {
  F32x16<Arch> chain[4] = {zero<Arch>(), zero<Arch>(), zero<Arch>(), zero<Arch>()};
  std::size_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
    unroll<4>([&]<int c>() COLI_SIMD_LAMBDA {
      const F32x16<Arch> v = load<Arch>(x + i + c * kLanes);
      chain[c] = fma(v, v, chain[c]);
    });
  unroll<4>([&]<int c>() COLI_SIMD_LAMBDA {
    const std::size_t at = i + c * kLanes;
    if (at < n) {
      const std::size_t left = n - at;
      const F32x16<Arch> v = left < kLanes ? load_first<Arch>(x + at, left) : load<Arch>(x + at);
      chain[c] = fma(v, v, chain[c]);
    }
  });
  const float squares = Leaf<Arch>::reduce_add((chain[0] + chain[1]) + (chain[2] + chain[3]));
  const float inverse = 1.0f / __builtin_sqrtf(squares / static_cast<float>(n) + epsilon);
  const F32x16<Arch> factor = splat<Arch>(inverse);
  for_lanes<Arch>(n, [&](std::size_t at, auto load_at, auto store_at) COLI_SIMD_LAMBDA {
    store_at(load_at(x + at) * factor * load_at(weight + at), y + at);
  });
}

}  // namespace coli::simd
