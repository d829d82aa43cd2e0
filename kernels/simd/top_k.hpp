// SPDX-License-Identifier: Apache-2.0
// Which k entries are the largest (kernels/ref/top_k.hpp: the definition)?
//
// ids[0..k) by value, descending, equal values in ascending id order (-0 equals 0). False, with ids unspecified, where any
// value is not finite or k > n. One pass; an entry that beats the last of the k so far moves up to its place. No allocation.
#pragma once

#include "coli/kernels/simd/argmax.hpp"

namespace coli::simd {

template <class Arch>
[[nodiscard]] COLI_SIMD_ENTRY bool top_k(const float* values, std::size_t n, std::size_t k, std::uint32_t* ids) {
  if (k > n || !detail::all_finite<Arch>(values, n)) return false;
  std::size_t held = 0;
  for (std::size_t i = 0; i < n && k != 0; ++i) {
    if (held == k && !(values[i] > values[ids[k - 1]])) continue;  // an equal one has a higher id
    std::size_t place = held < k ? held++ : k - 1;
    for (; place > 0 && values[i] > values[ids[place - 1]]; --place) ids[place] = ids[place - 1];
    ids[place] = static_cast<std::uint32_t>(i);
  }
  return true;
}

}  // namespace coli::simd
