// SPDX-License-Identifier: Apache-2.0
// What is the root-mean-square norm of a vector?
//
//   y[i] = round_f32( x[i] / sqrt(mean(x^2) + epsilon) * weight[i] ), in f64, the squares summed in ascending order.
// Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019; epsilon inside the root, as the Qwen models do.
// x, weight and y are f32 [n]; y may be x. O(n), no allocation.
#pragma once

#include <cmath>
#include <cstddef>

namespace coli::ref {

inline void rmsnorm(const float* x, const float* weight, std::size_t n, double epsilon, float* y) noexcept {
  double squares = 0;
  for (std::size_t i = 0; i < n; ++i) squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(n) + epsilon);
  for (std::size_t i = 0; i < n; ++i)
    y[i] = static_cast<float>(static_cast<double>(x[i]) * inverse * static_cast<double>(weight[i]));
}

}  // namespace coli::ref
