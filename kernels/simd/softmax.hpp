// SPDX-License-Identifier: Apache-2.0
// What probabilities do these scores stand for (kernels/ref/softmax.hpp: the definition)?
//
// exp(x - max), summed in 16 lanes and by the fixed tree, then divided. Relative error below 2^-20 (results below 2^-126
// may be 0). y may be x; n > 0. A NaN among the scores makes every result NaN.
#pragma once

#include "coli/kernels/simd/exp.hpp"
#include "coli/kernels/simd/leaves.hpp"

namespace coli::simd {

template <class Arch>
COLI_SIMD_ENTRY void softmax(const float* x, std::size_t n, float* y) {
  constexpr float kNone = -__builtin_inff();
  F32x16<Arch> top = splat<Arch>(kNone);
  for_lanes<Arch>(n, [&](std::size_t at, auto load_at, auto) COLI_SIMD_LAMBDA { top = max(top, load_at(x + at, kNone)); });
  const F32x16<Arch> largest = splat<Arch>(largest_lane(top));
  F32x16<Arch> sums = zero<Arch>();
  for_lanes<Arch>(n, [&](std::size_t at, auto load_at, auto store_at) COLI_SIMD_LAMBDA {
    const F32x16<Arch> e = exp(load_at(x + at, kNone) - largest);
    sums = sums + e;
    store_at(e, y + at);
  });
  const F32x16<Arch> total = splat<Arch>(Leaf<Arch>::reduce_add(sums));
  for_lanes<Arch>(n, [&](std::size_t at, auto load_at, auto store_at) COLI_SIMD_LAMBDA {
    store_at(load_at(y + at) / total, y + at);
  });
}

}  // namespace coli::simd
