// SPDX-License-Identifier: Apache-2.0
// How do the heads of each token turn with its position (kernels/ref/rope.hpp: the definition)?
//
// Pair i of a head is (x[i], x[i + half]); with the token's cosine and sine of the pair
//   x'[i] = fma(-x[i + half], sin, x[i] cos),  x'[i + half] = fma(x[i], sin, x[i + half] cos)
// Two roundings each: |x' - exact| <= gamma(2) (|x[i] cos| + |x[i + half] sin|). In place; a thread a pair, a block a token.
#pragma once

#include <cstdint>

#include "coli/core/fixed_name.hpp"
#include "coli/kernels/grid/thread.hpp"

namespace coli::grid {

struct Rope {
  static constexpr FixedName name{"rope"};
  using Shared = NoShared;

  float* heads;        // [n_tokens, n_heads, head_dim]
  const float* table;  // [n_tokens, head_dim]: cosines, then sines
  std::uint32_t n_heads, head_dim;

  static constexpr LaunchShape shape(std::uint32_t n_tokens) { return {n_tokens, 1, 128}; }

  template <Thread T>
  COLI_DEVICE void operator()(T& t, Shared&) const {
    const std::uint32_t half = head_dim / 2;
    const float* cosines = table + std::size_t{t.block().x} * head_dim;
    float* token = heads + std::size_t{t.block().x} * n_heads * head_dim;
    for (std::uint32_t i = t.thread(); i < n_heads * half; i += t.n_threads()) {
      const std::uint32_t pair = i % half;
      float* at = token + i / half * head_dim + pair;
      const float a = t.load(at), b = t.load(at + half), cosine = t.load(cosines + pair), sine = t.load(cosines + half + pair);
      t.store(at, t.fma(-b, sine, a * cosine));
      t.store(at + half, t.fma(a, sine, b * cosine));
    }
  }
};

}  // namespace coli::grid
