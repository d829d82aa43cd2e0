// SPDX-License-Identifier: Apache-2.0
// The format Q2_K: 256 two-bit integers; 16 groups of 16, each with a 4-bit scale and a 4-bit minimum.
#pragma once

#include "coli/contracts/quant_format.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/quant/block_bytes.hpp"

namespace coli {

///   byte 0                           16                      80      82         84
///        [ 16 x (scale | min << 4)  | 64 bytes of four q's  | d f16 | dmin f16 )
///   Byte 16 + 32*h + l (h < 2, l < 32) holds, two bits each from the lowest up, values 128*h + l + {0, 32, 64, 96}.
///   value[i] = d * scale[i / 16] * q[i] - dmin * min[i / 16]
struct Q2_K {
  static constexpr FixedName name{"Q2_K"};
  static constexpr std::size_t kValuesPerBlock = 256;
  static constexpr std::size_t kValuesPerGroup = 16;
  static constexpr std::size_t kScalesOffset = 0;
  static constexpr std::size_t kQuantsOffset = 16;
  static constexpr std::size_t kScaleOffset = 80;
  static constexpr std::size_t kMinOffset = 82;
  static constexpr std::size_t kBytesPerBlock = 84;
  static_assert(kQuantsOffset + kValuesPerBlock / 4 == kScaleOffset && kMinOffset + 2 == kBytesPerBlock);

  /// Both products of each line are exact (11 + 4 + 2 bits), so fusing changes no bit.
  static constexpr void decode(const std::byte* block, float* values) noexcept {
    const float d = block::f16(block + kScaleOffset);
    const float dmin = block::f16(block + kMinOffset);
    for (std::size_t group = 0; group < 16; ++group) {
      const unsigned packed = block::u8(block + kScalesOffset + group);
      const float scale = d * static_cast<float>(packed & 15u);
      const float minimum = dmin * static_cast<float>(packed >> 4);
      const std::byte* quants = block + kQuantsOffset + 32 * (group / 8) + 16 * (group % 2);
      const unsigned shift = 2u * static_cast<unsigned>((group % 8) / 2);
      for (std::size_t i = 0; i < 16; ++i)
        values[16 * group + i] = scale * static_cast<float>((block::u8(quants + i) >> shift) & 3u) - minimum;
    }
  }
};

static_assert(QuantFormat<Q2_K> && require_quant_format<Q2_K>());

}  // namespace coli
