// SPDX-License-Identifier: Apache-2.0
// The format Q5_1: 32 five-bit integers under an f16 scale, on top of an f16 offset.
#pragma once

#include "coli/contracts/quant_format.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/quant/block_bytes.hpp"
#include "coli/quant/fit.hpp"

namespace coli {

///   byte 0      2       4                 8                           24
///        [ d f16 | m f16 | 32 fifth bits | 16 bytes of two nibbles )     bit i of the u32 belongs to value i;
///                                                                        byte i holds value i (low) and i + 16 (high)
///   value[i] = (nibble[i] + 16 * bit[i]) * d + m
struct Q5_1 {
  static constexpr FixedName name{"Q5_1"};
  static constexpr std::size_t kValuesPerBlock = 32;
  static constexpr std::size_t kScaleOffset = 0;
  static constexpr std::size_t kMinOffset = 2;
  static constexpr std::size_t kHighBitsOffset = 4;
  static constexpr std::size_t kQuantsOffset = 8;
  static constexpr std::size_t kBytesPerBlock = 24;
  static_assert(kQuantsOffset + kValuesPerBlock / 2 == kBytesPerBlock);

  /// The product is exact (5 + 11 bits), so a compiler that fuses it with the sum changes no bit.
  static constexpr void decode(const std::byte* block, float* values) noexcept {
    const float d = block::f16(block + kScaleOffset);
    const float m = block::f16(block + kMinOffset);
    const std::uint32_t high_bits = block::u32(block + kHighBitsOffset);
    for (std::size_t i = 0; i < 16; ++i) {
      const unsigned pair = block::u8(block + kQuantsOffset + i);
      const unsigned low = (pair & 15u) | (((high_bits >> i) & 1u) << 4);
      const unsigned high = (pair >> 4) | (((high_bits >> (i + 16)) & 1u) << 4);
      values[i] = static_cast<float>(low) * d + m;
      values[i + 16] = static_cast<float>(high) * d + m;
    }
  }

  static void encode(const float* values, std::byte* block) noexcept {
    const fit::Affine found = fit::affine_fit(values, kValuesPerBlock, 31, true);
    const float d = fit::as_f16(found.scale);
    const float m = fit::as_f16(-found.minimum);
    const float inv = fit::inverse(d);
    std::uint32_t high_bits = 0;
    for (std::size_t i = 0; i < 16; ++i) {
      const auto low = static_cast<unsigned>(fit::nearest((values[i] - m) * inv, 0, 31));
      const auto high = static_cast<unsigned>(fit::nearest((values[i + 16] - m) * inv, 0, 31));
      high_bits |= (low >> 4) << i | (high >> 4) << (i + 16);
      block::put_u8(block + kQuantsOffset + i, (low & 15u) | ((high & 15u) << 4));
    }
    block::put_f16(block + kScaleOffset, d);
    block::put_f16(block + kMinOffset, m);
    block::put_u32(block + kHighBitsOffset, high_bits);
  }
};

static_assert(QuantFormat<Q5_1> && require_quant_format<Q5_1>());

}  // namespace coli
