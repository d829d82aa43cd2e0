// SPDX-License-Identifier: Apache-2.0
// Which k entries are the largest?
//
// ids[0..k) by value, descending; equal values (-0 equals 0) in ascending id order: a total order, so there is one
// right answer. False, with ids unspecified, where any of the n values is not finite or k > n: the caller knows layer
// and step and makes the error. O(n * k) by repeated selection: the definition, not a fast way. No allocation.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace coli::ref {

[[nodiscard]] inline bool top_k(const float* values, std::size_t n, std::size_t k, std::uint32_t* ids) noexcept {
  if (k > n) return false;
  for (std::size_t i = 0; i < n; ++i)
    if (!std::isfinite(values[i])) return false;

  const auto before = [&](std::size_t a, std::size_t b) {  // is a ranked before b?
    return values[a] > values[b] || (values[a] == values[b] && a < b);
  };
  for (std::size_t rank = 0; rank < k; ++rank) {
    std::size_t best = n;  // the first of those ranked after the previous pick
    for (std::size_t i = 0; i < n; ++i)
      if ((rank == 0 || before(ids[rank - 1], i)) && (best == n || before(i, best))) best = i;
    ids[rank] = static_cast<std::uint32_t>(best);
  }
  return true;
}

}  // namespace coli::ref
