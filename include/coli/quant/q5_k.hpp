// SPDX-License-Identifier: Apache-2.0
// The format Q5_K: 256 five-bit integers; 8 groups of 32, each with a 6-bit scale and a 6-bit minimum.
#pragma once

#include "coli/contracts/quant_format.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/quant/block_bytes.hpp"
#include "coli/quant/k_scales.hpp"

namespace coli {

///   byte 0      2          4                             16                48                             176
///        [ d f16 | dmin f16 | 12 bytes of scales and mins | 32 x fifth bits | 128 bytes of two nibbles )
///   Byte 48 + 32*c + l (c < 4, l < 32) holds value 64*c + l (low nibble) and value 64*c + 32 + l (high nibble);
///   the fifth bit of value 32*g + l is bit g of byte 16 + l.
///   value[i] = d * scale[i / 32] * q[i] - dmin * min[i / 32]         (k_scales.hpp: the packing)
struct Q5_K {
  static constexpr FixedName name{"Q5_K"};
  static constexpr std::size_t kValuesPerBlock = 256;
  static constexpr std::size_t kValuesPerGroup = 32;
  static constexpr std::size_t kScaleOffset = 0;
  static constexpr std::size_t kMinOffset = 2;
  static constexpr std::size_t kScalesOffset = 4;
  static constexpr std::size_t kHighBitsOffset = 16;
  static constexpr std::size_t kQuantsOffset = 48;
  static constexpr std::size_t kBytesPerBlock = 176;
  static_assert(kHighBitsOffset + kValuesPerBlock / 8 == kQuantsOffset &&
                kQuantsOffset + kValuesPerBlock / 2 == kBytesPerBlock);

  /// Every product is exact (11 + 6 + 5 bits), so fusing it with the difference changes no bit.
  static constexpr void decode(const std::byte* block, float* values) noexcept {
    const float d = block::f16(block + kScaleOffset);
    const float dmin = block::f16(block + kMinOffset);
    for (std::size_t group = 0; group < 8; ++group) {
      const ScaleMin packed = unpack_scale_min(block + kScalesOffset, group);
      const float scale = d * static_cast<float>(packed.scale);
      const float minimum = dmin * static_cast<float>(packed.minimum);
      const std::byte* quants = block + kQuantsOffset + 32 * (group / 2);
      const unsigned shift = 4u * static_cast<unsigned>(group % 2);
      for (std::size_t i = 0; i < 32; ++i) {
        const unsigned low = (block::u8(quants + i) >> shift) & 15u;
        const unsigned high = (block::u8(block + kHighBitsOffset + i) >> group) & 1u;
        values[32 * group + i] = scale * static_cast<float>(low | (high << 4)) - minimum;
      }
    }
  }

  static void encode(const float* values, std::byte* block) noexcept {
    std::array<unsigned, 256> q;
    encode_affine_groups(values, 31, block + kScaleOffset, block + kMinOffset, block + kScalesOffset, q);
    for (std::size_t l = 0; l < 32; ++l) {
      unsigned high_bits = 0;
      for (std::size_t g = 0; g < 8; ++g) high_bits |= (q[32 * g + l] >> 4) << g;
      block::put_u8(block + kHighBitsOffset + l, high_bits);
      for (std::size_t c = 0; c < 4; ++c)
        block::put_u8(block + kQuantsOffset + 32 * c + l, (q[64 * c + l] & 15u) | ((q[64 * c + 32 + l] & 15u) << 4));
    }
  }
};

static_assert(QuantFormat<Q5_K> && require_quant_format<Q5_K>());

}  // namespace coli
