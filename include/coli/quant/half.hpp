// SPDX-License-Identifier: Apache-2.0
// What float does a 16-bit pattern mean, and which pattern is nearest to a float?
//
// Plain integer arithmetic, usable in constant expressions and on any target; the results equal those of the
// hardware instructions bit for bit (round to nearest even, subnormals kept, NaN made quiet with its payload's top
// bits). O(1), no state.
#pragma once

#include <bit>
#include <cstdint>

namespace coli {

/// IEEE binary16 to binary32: exact for every pattern; a NaN stays a (quiet) NaN of the same sign.
constexpr float f16_to_f32(std::uint16_t half) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 31u;
  const std::uint32_t mantissa = half & 0x3FFu;
  if (exponent == 31) {
    const std::uint32_t quiet = mantissa != 0 ? 0x0040'0000u : 0u;
    return std::bit_cast<float>(sign | 0x7F80'0000u | quiet | (mantissa << 13));
  }
  if (exponent == 0) {  // zero or subnormal: mantissa x 2^-24, a normal float
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

/// Binary32 to binary16, round to nearest, ties to even; 65520 and beyond become infinity.
constexpr std::uint16_t f32_to_f16(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7FFF'FFFFu;
  std::uint32_t half = 0;
  if (magnitude > 0x7F80'0000u) {
    half = 0x7E00u | ((magnitude >> 13) & 0x3FFu);
  } else if (magnitude >= 0x4780'0000u) {  // 2^16 and beyond
    half = 0x7C00u;
  } else if (magnitude >= 0x3880'0000u) {  // 2^-14 and beyond: normal; a carry out of the mantissa is right as it is
    half = (magnitude - (112u << 23) + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
  } else if (magnitude >= 0x3300'0000u) {  // 2^-25 and beyond: subnormal, in units of 2^-24
    const std::uint32_t significand = (magnitude & 0x007F'FFFFu) | 0x0080'0000u;
    const std::uint32_t shift = 126u - (magnitude >> 23);
    const std::uint32_t lost = significand & ((1u << shift) - 1u);
    const std::uint32_t tie = 1u << (shift - 1u);
    half = significand >> shift;
    if (lost > tie || (lost == tie && (half & 1u) != 0)) ++half;
  }
  return static_cast<std::uint16_t>(sign | half);
}

/// bfloat16 to binary32: the upper half of the float, exact (a signalling NaN is handed on as it is).
constexpr float bf16_to_f32(std::uint16_t upper) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(upper) << 16);
}

/// Binary32 to bfloat16, round to nearest, ties to even; a NaN stays a (quiet) NaN.
constexpr std::uint16_t f32_to_bf16(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFF'FFFFu) > 0x7F80'0000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace coli
