// SPDX-License-Identifier: Apache-2.0
// What does the gated unit let through?
//
//   out[i] = round_f32( silu(gate[i]) * up[i] ), silu(g) = g / (1 + exp(-g)), in f64.
// Shazeer, "GLU Variants Improve Transformer", 2020. All f32 [n]; out may be gate or up. A gate far below zero gives
// zero, not NaN: exp overflows to infinity and g / infinity is -0. O(n), no allocation.
#pragma once

#include <cmath>
#include <cstddef>

namespace coli::ref {

inline void swiglu(const float* gate, const float* up, std::size_t n, float* out) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    const double g = gate[i];
    out[i] = static_cast<float>(g / (1.0 + std::exp(-g)) * static_cast<double>(up[i]));
  }
}

}  // namespace coli::ref
