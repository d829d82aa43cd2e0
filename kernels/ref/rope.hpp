// SPDX-License-Identifier: Apache-2.0
// How does a head's vector turn with its position (rotary embedding, NEOX pairing)?
//
// Pair i (i < head_dim/2) is (x[i], x[i + head_dim/2]); it turns by position * base^(-2i / head_dim) radians:
//   x'[i]     = x[i] cos - x[i + half] sin
//   x'[half+i] = x[i + half] cos + x[i] sin
// Su et al., "RoFormer", 2021, with the halves apart instead of neighbours interleaved. Angles and products in f64,
// rounded once to f32. In place; x is f32 [n_heads x head_dim], head_dim even. O(n_heads * head_dim), no allocation.
#pragma once

#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace coli::ref {

inline void rope(float* x, std::size_t n_heads, std::size_t head_dim, std::uint64_t position, double base) noexcept {
  assert(head_dim % 2 == 0);
  const std::size_t half = head_dim / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const double frequency = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    const double angle = static_cast<double>(position) * frequency;
    const double cosine = std::cos(angle), sine = std::sin(angle);
    for (std::size_t h = 0; h < n_heads; ++h) {
      float* head = x + h * head_dim;
      const double a = head[i], b = head[i + half];
      head[i] = static_cast<float>(a * cosine - b * sine);
      head[i + half] = static_cast<float>(b * cosine + a * sine);
    }
  }
}

/// The same turn of one head from a table of the position's cosines, then sines [head_dim / 2 each].
inline void rope_from_table(float* head, const float* cos_sin, std::size_t head_dim) noexcept {
  const std::size_t half = head_dim / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const double a = head[i], b = head[i + half], cosine = cos_sin[i], sine = cos_sin[half + i];
    head[i] = static_cast<float>(a * cosine - b * sine);
    head[i + half] = static_cast<float>(b * cosine + a * sine);
  }
}

}  // namespace coli::ref
