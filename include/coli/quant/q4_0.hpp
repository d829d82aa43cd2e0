// SPDX-License-Identifier: Apache-2.0
// The format Q4_0: 32 nibbles around 8 under one f16 scale.
#pragma once

#include "coli/contracts/quant_format.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/quant/block_bytes.hpp"
#include "coli/quant/fit.hpp"

namespace coli {

///   byte 0      2                           18
///        [ d f16 | 16 bytes of two nibbles )     byte i holds value i (low) and value i + 16 (high)
///   value[i] = (nibble[i] - 8) * d
struct Q4_0 {
  static constexpr FixedName name{"Q4_0"};
  static constexpr std::size_t kValuesPerBlock = 32;
  static constexpr std::size_t kScaleOffset = 0;
  static constexpr std::size_t kQuantsOffset = 2;
  static constexpr std::size_t kBytesPerBlock = 18;
  static_assert(kQuantsOffset + kValuesPerBlock / 2 == kBytesPerBlock);

  static constexpr void decode(const std::byte* block, float* values) noexcept {
    const float d = block::f16(block + kScaleOffset);
    for (std::size_t i = 0; i < 16; ++i) {
      const unsigned pair = block::u8(block + kQuantsOffset + i);
      values[i] = static_cast<float>(static_cast<int>(pair & 15u) - 8) * d;
      values[i + 16] = static_cast<float>(static_cast<int>(pair >> 4) - 8) * d;
    }
  }

  static void encode(const float* values, std::byte* block) noexcept {
    const float d = fit::as_f16(fit::symmetric_scale(values, kValuesPerBlock, -8, 7));
    const float inv = fit::inverse(d);
    block::put_f16(block + kScaleOffset, d);
    for (std::size_t i = 0; i < 16; ++i) {
      const int low = fit::nearest(values[i] * inv, -8, 7) + 8;
      const int high = fit::nearest(values[i + 16] * inv, -8, 7) + 8;
      block::put_u8(block + kQuantsOffset + i, static_cast<unsigned>(low | (high << 4)));
    }
  }
};

static_assert(QuantFormat<Q4_0> && require_quant_format<Q4_0>());

}  // namespace coli
