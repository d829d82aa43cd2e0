// SPDX-License-Identifier: Apache-2.0
// What probabilities do these scores stand for?
//
//   y[i] = round_f32( exp(x[i] - max x) / sum over j, ascending, of exp(x[j] - max x) ), in f64.
// Subtracting the maximum changes nothing but keeps exp from overflowing. x, y are f32 [n], n > 0; y may be x.
// Scores must be finite (top_k says so first). O(n), no allocation.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace coli::ref {

inline void softmax(const float* x, std::size_t n, float* y) noexcept {
  const double largest = *std::max_element(x, x + n);
  double total = 0;
  for (std::size_t i = 0; i < n; ++i) total += std::exp(static_cast<double>(x[i]) - largest);
  for (std::size_t i = 0; i < n; ++i) y[i] = static_cast<float>(std::exp(static_cast<double>(x[i]) - largest) / total);
}

}  // namespace coli::ref
