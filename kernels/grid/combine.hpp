// SPDX-License-Identifier: Apache-2.0
// What do the chosen experts add to each token, and a block to the residual stream? Scatter and sum, in rank order.
//
//   x[t][i] += sum over r, ascending, of weights[t][r] * rows[t * top_k + r][i], in fused steps, then one addition
// The order is the router's ranks, whichever expert was computed first. |error| <= gamma(top_k + 1) of the magnitudes.
#pragma once

#include <cstdint>

#include "coli/core/fixed_name.hpp"
#include "coli/kernels/grid/thread.hpp"

namespace coli::grid {

struct Combine {
  static constexpr FixedName name{"combine"};
  using Shared = NoShared;

  const float* rows;     // [n_tokens * top_k, dim]
  const float* weights;  // [n_tokens, top_k]
  float* x;              // [n_tokens, dim]
  std::uint32_t top_k, dim;

  static constexpr LaunchShape shape(std::uint32_t n_tokens, std::uint32_t dim) { return {(dim + 127) / 128, n_tokens, 128}; }

  template <Thread T>
  COLI_DEVICE void operator()(T& t, Shared&) const {
    const std::uint32_t i = t.block().x * t.n_threads() + t.thread();
    if (i >= dim) return;
    const std::size_t token = t.block().y;
    float sum = 0;
    for (std::uint32_t r = 0; r < top_k; ++r) sum = t.fma(t.load(weights + token * top_k + r), t.load(rows + (token * top_k + r) * dim + i), sum);
    t.store(x + token * dim + i, t.load(x + token * dim + i) + sum);
  }
};

/// x += y, n values.
struct Add {
  static constexpr FixedName name{"add"};
  using Shared = NoShared;

  const float* y;
  float* x;
  std::uint32_t n;

  static constexpr LaunchShape shape(std::uint32_t n) { return {(n + 127) / 128, 1, 128}; }

  template <Thread T>
  COLI_DEVICE void operator()(T& t, Shared&) const {
    const std::uint32_t i = t.block().x * t.n_threads() + t.thread();
    if (i < n) t.store(x + i, t.load(x + i) + t.load(y + i));
  }
};

}  // namespace coli::grid
