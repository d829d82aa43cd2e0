// SPDX-License-Identifier: Apache-2.0
// The format Q4_1: 32 nibbles under an f16 scale, on top of an f16 offset.
#pragma once

#include "coli/contracts/quant_format.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/quant/block_bytes.hpp"
#include "coli/quant/fit.hpp"

namespace coli {

///   byte 0      2       4                           20
///        [ d f16 | m f16 | 16 bytes of two nibbles )     byte i holds value i (low) and value i + 16 (high)
///   value[i] = nibble[i] * d + m
struct Q4_1 {
  static constexpr FixedName name{"Q4_1"};
  static constexpr std::size_t kValuesPerBlock = 32;
  static constexpr std::size_t kScaleOffset = 0;
  static constexpr std::size_t kMinOffset = 2;
  static constexpr std::size_t kQuantsOffset = 4;
  static constexpr std::size_t kBytesPerBlock = 20;
  static_assert(kQuantsOffset + kValuesPerBlock / 2 == kBytesPerBlock);

  /// The product is exact (4 + 11 bits), so a compiler that fuses it with the sum changes no bit.
  static constexpr void decode(const std::byte* block, float* values) noexcept {
    const float d = block::f16(block + kScaleOffset);
    const float m = block::f16(block + kMinOffset);
    for (std::size_t i = 0; i < 16; ++i) {
      const unsigned pair = block::u8(block + kQuantsOffset + i);
      values[i] = static_cast<float>(pair & 15u) * d + m;
      values[i + 16] = static_cast<float>(pair >> 4) * d + m;
    }
  }

  static void encode(const float* values, std::byte* block) noexcept {
    const fit::Affine found = fit::affine_fit(values, kValuesPerBlock, 15, true);
    const float d = fit::as_f16(found.scale);
    const float m = fit::as_f16(-found.minimum);
    const float inv = fit::inverse(d);
    block::put_f16(block + kScaleOffset, d);
    block::put_f16(block + kMinOffset, m);
    for (std::size_t i = 0; i < 16; ++i) {
      const int low = fit::nearest((values[i] - m) * inv, 0, 15);
      const int high = fit::nearest((values[i + 16] - m) * inv, 0, 15);
      block::put_u8(block + kQuantsOffset + i, static_cast<unsigned>(low | (high << 4)));
    }
  }
};

static_assert(QuantFormat<Q4_1> && require_quant_format<Q4_1>());

}  // namespace coli
