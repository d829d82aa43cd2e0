// SPDX-License-Identifier: Apache-2.0
// What is e^x in sixteen lanes, with the same bits on every instruction set?
//
// x = n ln2 + r with n = round(x / ln2): two fused steps take n ln2 off exactly enough; e^r is its Taylor polynomial of
// degree 7 (remainder below 2^-27 for |r| <= ln2 / 2), by Horner's rule in fused steps; n goes into the exponent bits.
// Relative error below 2^-22. Below the smallest normal result: 0. Above the largest: infinity. NaN stays NaN.
#pragma once

#include "coli/kernels/simd/lanes.hpp"

namespace coli::simd {

template <class Arch>
COLI_SIMD_INLINE F32x16<Arch> exp(const F32x16<Arch>& x) {
  constexpr float kLog2E = 0x1.715476p+0f;
  constexpr float kNegLn2High = -0x1.62e4p-1f;         // 15 bits: n times it is exact
  constexpr float kNegLn2Low = -0x1.7f7d1cp-20f;       // ln2 minus the above
  constexpr float kLeast = -0x1.5d589ep+6f, kMost = 0x1.62e42ep+6f;  // ln of the smallest normal and of the largest float
  constexpr float kCoefficient[7] = {1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 1.0f / 2, 1.0f};

  const I32x16<Arch> n = round_to_i32(x * splat<Arch>(kLog2E));
  const F32x16<Arch> n_f32 = to_f32(n);
  const F32x16<Arch> r = fma(n_f32, splat<Arch>(kNegLn2Low), fma(n_f32, splat<Arch>(kNegLn2High), x));
  F32x16<Arch> p = splat<Arch>(kCoefficient[0]);
  unroll<6>([&]<int i>() COLI_SIMD_LAMBDA { p = fma(p, r, splat<Arch>(kCoefficient[i + 1])); });
  p = fma(p, r, splat<Arch>(1.0f));
  const F32x16<Arch> scaled = bits_as<float>(bits_as<std::int32_t>(p) + shift_left<23>(n));
  const F32x16<Arch> bounded = where_less(splat<Arch>(kMost), x, splat<Arch>(__builtin_inff()), scaled);
  return where_less(x, splat<Arch>(kLeast), zero<Arch>(), bounded);
}

/// The same for one value.
template <class Arch>
COLI_SIMD_INLINE float exp(float x) {
  alignas(64) float lane[kLanes];
  store(exp(splat<Arch>(x)), lane);
  return lane[0];
}

}  // namespace coli::simd
