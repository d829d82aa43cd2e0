// SPDX-License-Identifier: Apache-2.0
// How are many vectors reduced at once? Sixteen to the sixteen lanes of one, 15 operations and 30 shuffles in all.
#pragma once

#include "coli/kernels/simd/leaves.hpp"

namespace coli::simd {

/// Lane j is op over the lanes of v[j] by the tree of Leaf::reduce_add: lane i with lane i+8, then +4, +2, +1. `op` is
/// commutative. T is float or a 32-bit integer.
template <class Arch, class T, class Op>
COLI_SIMD_INLINE Lanes<Arch, T> reduce_16(const Lanes<Arch, T> (&v)[16], Op op) {
  const auto fold = [&]<int kDistance>(const Lanes<Arch, T>& a, const Lanes<Arch, T>& b) COLI_SIMD_LAMBDA {
    const F32Pair<Arch> lanes = Leaf<Arch>::template apart<kDistance>(bits_as<float>(a), bits_as<float>(b));
    return op(bits_as<T>(lanes.low), bits_as<T>(lanes.high));
  };
  const auto by_4 = [&]<int k>() COLI_SIMD_LAMBDA {  // four lanes each of v[k], v[k + 4], v[k + 8], v[k + 12]
    return fold.template operator()<4>(fold.template operator()<8>(v[k], v[k + 4]), fold.template operator()<8>(v[k + 8], v[k + 12]));
  };
  return fold.template operator()<1>(
      fold.template operator()<2>(by_4.template operator()<0>(), by_4.template operator()<1>()),
      fold.template operator()<2>(by_4.template operator()<2>(), by_4.template operator()<3>()));
}

/// Op over each two neighbours: that of lanes 2 i and 2 i + 1 lands in lane pair_lane(i).
template <class Arch, class T, class Op>
COLI_SIMD_INLINE Lanes<Arch, T> reduce_pairs(const Lanes<Arch, T>& v, Op op) {
  const F32Pair<Arch> lanes = Leaf<Arch>::template apart<1>(bits_as<float>(v), bits_as<float>(v));
  return op(bits_as<T>(lanes.low), bits_as<T>(lanes.high));
}
constexpr std::size_t pair_lane(std::size_t i) noexcept { return i / 2 * 4 + i % 2; }

}  // namespace coli::simd
