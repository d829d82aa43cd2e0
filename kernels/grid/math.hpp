// SPDX-License-Identifier: Apache-2.0
// Functions of real numbers with the same bits on a device and on the CPU: fixed polynomials in fused steps.
#pragma once

#include <bit>
#include <cstdint>

#include "coli/kernels/grid/thread.hpp"

namespace coli::grid {

inline constexpr float kInfinity = std::bit_cast<float>(0x7F80'0000u);

/// e^x: x = n ln2 + r, n the nearest whole number; e^r by its Taylor polynomial of degree 7 (remainder below 2^-27 for
/// |r| <= ln2 / 2), by Horner's rule; n goes into the exponent. Relative error below 2^-22 (kExpError in tests).
/// 0 below the smallest normal result, infinity above the largest float, NaN stays NaN.
template <Thread T>
COLI_DEVICE float exp(const T& t, float x) {
  constexpr float kLog2E = 0x1.715476p+0f;
  constexpr float kNegLn2High = -0x1.62e4p-1f;    // 15 bits: n times it is exact
  constexpr float kNegLn2Low = -0x1.7f7d1cp-20f;  // ln2 minus the above
  constexpr float kLeast = -0x1.5d589ep+6f, kMost = 0x1.62e42ep+6f;
  constexpr float kToInteger = 0x1.8p+23f;        // adding it leaves the nearest whole number in the low bits
  if (!(x >= kLeast)) return x != x ? x : 0.0f;
  if (x > kMost) return kInfinity;
  const float shifted = t.fma(x, kLog2E, kToInteger);
  const float n = shifted - kToInteger;
  const float r = t.fma(n, kNegLn2Low, t.fma(n, kNegLn2High, x));
  float p = 1.0f / 5040;
  p = t.fma(p, r, 1.0f / 720);
  p = t.fma(p, r, 1.0f / 120);
  p = t.fma(p, r, 1.0f / 24);
  p = t.fma(p, r, 1.0f / 6);
  p = t.fma(p, r, 0.5f);
  p = t.fma(p, r, 1.0f);
  p = t.fma(p, r, 1.0f);
  // The low bits of `shifted` are n in two's complement: shifted into the exponent, the rest falls off.
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) + (std::bit_cast<std::uint32_t>(shifted) << 23));
}

}  // namespace coli::grid
