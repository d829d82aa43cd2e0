// SPDX-License-Identifier: Apache-2.0
// What is the root-mean-square norm of each row (kernels/ref/rmsnorm.hpp: the definition)?
//
// One block a row. A thread sums the squares of every n_threads-th value in fused steps, the block reduces; then
//   y[i] = (x[i] * inverse) * weight[i],  inverse = 1 / sqrt(squares / n + epsilon)
// and, where it is wanted, writes y in 8 bits too. The order depends on the row's length alone (it fixes the block), never on the number of rows.
// |y - exact| <= gamma(dim / n_threads + log2(n_threads) + 8) |exact|: every rounding is relative to a sum of squares.
#pragma once

#include <cstdint>

#include "coli/core/fixed_name.hpp"
#include "coli/kernels/grid/q8.hpp"
#include "coli/kernels/grid/thread.hpp"

namespace coli::grid {

/// kThreads: a warp for heads, more for rows of the residual stream. Which of them is a matter of `dim` alone: see rmsnorm.
template <std::uint32_t kThreadsOfRow>
struct RmsNorm {
  static constexpr FixedName name{"rmsnorm"};
  static constexpr std::uint32_t kThreads = kThreadsOfRow;
  using Shared = NoShared;

  const float* x;       // [n_rows, dim]
  const float* weight;  // [dim]
  float* out;           // [n_rows, dim]; may be x
  std::uint32_t dim;
  float epsilon;
  Q8Rows q8{};          // dim a multiple of 32; null quants: not wanted

  static constexpr LaunchShape shape(std::uint32_t n_rows) { return {n_rows, 1, kThreads}; }

  template <Thread T>
  COLI_DEVICE void operator()(T& t, Shared&) const {
    const std::size_t row = std::size_t{t.block().x} * dim;
    float squares = 0;
    for (std::uint32_t i = t.thread(); i < dim; i += kThreads) {
      const float v = t.load(x + row + i);
      squares = t.fma(v, v, squares);
    }
    squares = t.reduce_block(squares, Plus{});
    const float inverse = 1.0f / t.sqrt(squares / static_cast<float>(dim) + epsilon);
    for (std::uint32_t i = t.thread(); i < dim; i += kThreads) {
      const float value = t.load(x + row + i) * inverse * t.load(weight + i);
      t.store(out + row + i, value);
      if (q8.quants != nullptr) quantise_lane(t, value, q8, t.block().x, i);  // whole warps
    }
  }
};

/// fn(body) for rows of `dim` values: the one body, and so the one order, that such rows have.
template <class Fn>
decltype(auto) rmsnorm(const float* x, const float* weight, float* out, std::uint32_t dim, float epsilon, const Q8Rows& q8, Fn&& fn) {
  if (dim <= 256) return fn(RmsNorm<kWarp>{x, weight, out, dim, epsilon, q8});
  return fn(RmsNorm<256>{x, weight, out, dim, epsilon, q8});
}

}  // namespace coli::grid
