// SPDX-License-Identifier: Apache-2.0
// The format Q3_K: 256 three-bit integers around 4; 16 groups of 16, each with a 6-bit scale around 32.
#pragma once

#include "coli/contracts/quant_format.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/quant/block_bytes.hpp"

namespace coli {

///   byte 0                   32                          96                   108     110
///        [ 32 x third bits  | 64 bytes of four low q's  | 12 bytes of scales | d f16 )
///   Byte 32 + 32*h + l (h < 2, l < 32) holds, two bits each from the lowest up, values 128*h + l + {0, 32, 64, 96};
///   the third bit of value 32*b + l is bit b of byte l.
///   Scale g: its low 4 bits are nibble g / 8 of scale byte g % 8, the high 2 are bits 2*(g / 4) of byte 8 + g % 4.
///   value[i] = d * (scale[i / 16] - 32) * (q[i] - 4)
struct Q3_K {
  static constexpr FixedName name{"Q3_K"};
  static constexpr std::size_t kValuesPerBlock = 256;
  static constexpr std::size_t kValuesPerGroup = 16;
  static constexpr std::size_t kHighBitsOffset = 0;
  static constexpr std::size_t kQuantsOffset = 32;
  static constexpr std::size_t kScalesOffset = 96;
  static constexpr std::size_t kScaleOffset = 108;
  static constexpr std::size_t kBytesPerBlock = 110;
  static_assert(kQuantsOffset + kValuesPerBlock / 4 == kScalesOffset && kScaleOffset + 2 == kBytesPerBlock);

  /// The scale of one group, -32 to 31.
  static constexpr int group_scale(const std::byte* block, std::size_t group) noexcept {
    const std::byte* scales = block + kScalesOffset;
    const unsigned low = (block::u8(scales + group % 8) >> (4 * (group / 8))) & 15u;
    const unsigned high = (block::u8(scales + 8 + group % 4) >> (2 * (group / 4))) & 3u;
    return static_cast<int>(low | (high << 4)) - 32;
  }

  static constexpr void decode(const std::byte* block, float* values) noexcept {
    const float d = block::f16(block + kScaleOffset);
    for (std::size_t group = 0; group < 16; ++group) {
      const float scale = d * static_cast<float>(group_scale(block, group));
      const std::byte* quants = block + kQuantsOffset + 32 * (group / 8) + 16 * (group % 2);
      const std::byte* high_bits = block + kHighBitsOffset + 16 * (group % 2);
      const unsigned shift = 2u * static_cast<unsigned>((group % 8) / 2);
      for (std::size_t i = 0; i < 16; ++i) {
        const unsigned low = (block::u8(quants + i) >> shift) & 3u;
        const unsigned high = (block::u8(high_bits + i) >> (group / 2)) & 1u;
        values[16 * group + i] = scale * static_cast<float>(static_cast<int>(low | (high << 2)) - 4);
      }
    }
  }
};

static_assert(QuantFormat<Q3_K> && require_quant_format<Q3_K>());

}  // namespace coli
