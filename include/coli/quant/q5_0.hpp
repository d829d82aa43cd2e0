// SPDX-License-Identifier: Apache-2.0
// The format Q5_0: 32 five-bit integers around 16 under one f16 scale.
#pragma once

#include "coli/contracts/quant_format.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/quant/block_bytes.hpp"
#include "coli/quant/fit.hpp"

namespace coli {

///   byte 0      2                 6                           22
///        [ d f16 | 32 fifth bits | 16 bytes of two nibbles )     bit i of the u32 belongs to value i;
///                                                                byte i holds value i (low) and i + 16 (high)
///   value[i] = (nibble[i] + 16 * bit[i] - 16) * d
struct Q5_0 {
  static constexpr FixedName name{"Q5_0"};
  static constexpr std::size_t kValuesPerBlock = 32;
  static constexpr std::size_t kScaleOffset = 0;
  static constexpr std::size_t kHighBitsOffset = 2;
  static constexpr std::size_t kQuantsOffset = 6;
  static constexpr std::size_t kBytesPerBlock = 22;
  static_assert(kQuantsOffset + kValuesPerBlock / 2 == kBytesPerBlock);

  static constexpr void decode(const std::byte* block, float* values) noexcept {
    const float d = block::f16(block + kScaleOffset);
    const std::uint32_t high_bits = block::u32(block + kHighBitsOffset);
    for (std::size_t i = 0; i < 16; ++i) {
      const unsigned pair = block::u8(block + kQuantsOffset + i);
      const unsigned low = (pair & 15u) | (((high_bits >> i) & 1u) << 4);
      const unsigned high = (pair >> 4) | (((high_bits >> (i + 16)) & 1u) << 4);
      values[i] = static_cast<float>(static_cast<int>(low) - 16) * d;
      values[i + 16] = static_cast<float>(static_cast<int>(high) - 16) * d;
    }
  }

  static void encode(const float* values, std::byte* block) noexcept {
    const float d = fit::as_f16(fit::symmetric_scale(values, kValuesPerBlock, -16, 15));
    const float inv = fit::inverse(d);
    std::uint32_t high_bits = 0;
    for (std::size_t i = 0; i < 16; ++i) {
      const auto low = static_cast<unsigned>(fit::nearest(values[i] * inv, -16, 15) + 16);
      const auto high = static_cast<unsigned>(fit::nearest(values[i + 16] * inv, -16, 15) + 16);
      high_bits |= (low >> 4) << i | (high >> 4) << (i + 16);
      block::put_u8(block + kQuantsOffset + i, (low & 15u) | ((high & 15u) << 4));
    }
    block::put_f16(block + kScaleOffset, d);
    block::put_u32(block + kHighBitsOffset, high_bits);
  }
};

static_assert(QuantFormat<Q5_0> && require_quant_format<Q5_0>());

}  // namespace coli
