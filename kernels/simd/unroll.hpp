// SPDX-License-Identifier: Apache-2.0
// How is a loop of known length written so that arrays of vectors stay in registers?
#pragma once

#include <utility>

#include "coli/kernels/simd/simd_config.hpp"

namespace coli::simd {

/// Calls f.template operator()<0>() to <N - 1>(), in that order, without a loop: indices are constants.
template <int N, class F>
COLI_SIMD_INLINE void unroll(F&& f) {
  [&]<int... I>(std::integer_sequence<int, I...>) COLI_SIMD_LAMBDA {
    (f.template operator()<I>(), ...);
  }(std::make_integer_sequence<int, N>{});
}

}  // namespace coli::simd
