// SPDX-License-Identifier: Apache-2.0
// How are vectors added up: the residual, and the experts of a token by their weights?
#pragma once

#include "coli/kernels/simd/leaves.hpp"

namespace coli::simd {

/// out += x
template <class Arch>
COLI_SIMD_ENTRY void add(const float* x, std::size_t n, float* out) {
  for_lanes<Arch>(n, [&](std::size_t at, auto load_at, auto store_at) COLI_SIMD_LAMBDA {
    store_at(load_at(out + at) + load_at(x + at), out + at);
  });
}

/// out += sum over i, ascending from zero in fused steps, of weights[i] * rows[i][n]. |error| <= gamma(n_rows + 1) sum |w r|.
template <class Arch>
COLI_SIMD_ENTRY void add_weighted(const float* rows, const float* weights, std::size_t n_rows, std::size_t n, float* out) {
  for_lanes<Arch>(n, [&](std::size_t at, auto load_at, auto store_at) COLI_SIMD_LAMBDA {
    F32x16<Arch> sum = zero<Arch>();
    for (std::size_t i = 0; i < n_rows; ++i) sum = fma(splat<Arch>(weights[i]), load_at(rows + i * n + at), sum);
    store_at(load_at(out + at) + sum, out + at);
  });
}

}  // namespace coli::simd
