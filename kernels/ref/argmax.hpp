// SPDX-License-Identifier: Apache-2.0
// Which entry is the largest?
//
// The lowest id among the largest values (-0 equals 0). Nothing where n is 0 or any value is not finite: a logit that
// is NaN or infinite is an error whose step the caller knows. O(n), no allocation.
#pragma once

#include <cmath>
#include <cstddef>
#include <optional>

namespace coli::ref {

inline std::optional<std::size_t> argmax(const float* values, std::size_t n) noexcept {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < n; ++i) {
    if (!std::isfinite(values[i])) return std::nullopt;
    if (!best || values[i] > values[*best]) best = i;
  }
  return best;
}

}  // namespace coli::ref
