// SPDX-License-Identifier: Apache-2.0
// What does the gated unit let through (kernels/ref/swiglu.hpp: the definition), in floats or straight in 8 bits?
//
//   out[i] = gate[i] / (1 + exp(-gate[i])) * up[i]
// |out - exact| <= (gamma(3) + 2^-22) |exact|: exp's own error is damped by the sum. A thread a value.
#pragma once

#include <cstdint>

#include "coli/core/fixed_name.hpp"
#include "coli/kernels/grid/math.hpp"
#include "coli/kernels/grid/q8.hpp"
#include "coli/kernels/grid/thread.hpp"

namespace coli::grid {

struct Swiglu {
  static constexpr FixedName name{"swiglu"};
  using Shared = NoShared;

  const float* gate;  // [n_rows, dim]
  const float* up;    // [n_rows, dim]
  float* out;         // [n_rows, dim], may be gate; null: not wanted
  Q8Rows q8;          // its dim is a multiple of 32; null quants: not wanted
  std::uint32_t dim;

  static constexpr LaunchShape shape(std::uint32_t n_rows, std::uint32_t dim) {
    constexpr std::uint32_t kMost = 256;
    return {(dim + kMost - 1) / kMost, n_rows, dim < kMost ? (dim + kWarp - 1) / kWarp * kWarp : kMost};
  }

  template <Thread T>
  COLI_DEVICE void operator()(T& t, Shared&) const {
    const std::uint32_t i = t.block().x * t.n_threads() + t.thread();
    if (i >= dim) return;  // whole warps where q8 is wanted
    const std::size_t at = std::size_t{t.block().y} * dim + i;
    const float g = t.load(gate + at);
    const float value = g / (1.0f + exp(t, -g)) * t.load(up + at);
    if (out != nullptr) t.store(out + at, value);
    if (q8.quants != nullptr) quantise_lane(t, value, q8, t.block().y, i);
  }
};

}  // namespace coli::grid
