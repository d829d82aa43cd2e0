// SPDX-License-Identifier: Apache-2.0
// The format Q4_K: 256 nibbles; 8 groups of 32, each with a 6-bit scale and a 6-bit minimum.
#pragma once

#include "coli/contracts/quant_format.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/quant/block_bytes.hpp"
#include "coli/quant/k_scales.hpp"

namespace coli {

///   byte 0      2          4                             16                             144
///        [ d f16 | dmin f16 | 12 bytes of scales and mins | 128 bytes of two nibbles )
///   Byte 16 + 32*c + l (c < 4, l < 32) holds value 64*c + l (low nibble) and value 64*c + 32 + l (high nibble).
///   value[i] = d * scale[i / 32] * nibble[i] - dmin * min[i / 32]         (k_scales.hpp: the packing)
struct Q4_K {
  static constexpr FixedName name{"Q4_K"};
  static constexpr std::size_t kValuesPerBlock = 256;
  static constexpr std::size_t kValuesPerGroup = 32;
  static constexpr std::size_t kScaleOffset = 0;
  static constexpr std::size_t kMinOffset = 2;
  static constexpr std::size_t kScalesOffset = 4;
  static constexpr std::size_t kQuantsOffset = 16;
  static constexpr std::size_t kBytesPerBlock = 144;
  static_assert(kScalesOffset + 12 == kQuantsOffset && kQuantsOffset + kValuesPerBlock / 2 == kBytesPerBlock);

  /// Every product is exact (11 + 6 + 4 bits), so fusing it with the difference changes no bit.
  static constexpr void decode(const std::byte* block, float* values) noexcept {
    const float d = block::f16(block + kScaleOffset);
    const float dmin = block::f16(block + kMinOffset);
    for (std::size_t group = 0; group < 8; ++group) {
      const ScaleMin packed = unpack_scale_min(block + kScalesOffset, group);
      const float scale = d * static_cast<float>(packed.scale);
      const float minimum = dmin * static_cast<float>(packed.minimum);
      const std::byte* quants = block + kQuantsOffset + 32 * (group / 2);
      const unsigned shift = 4u * static_cast<unsigned>(group % 2);
      for (std::size_t i = 0; i < 32; ++i)
        values[32 * group + i] = scale * static_cast<float>((block::u8(quants + i) >> shift) & 15u) - minimum;
    }
  }

  static void encode(const float* values, std::byte* block) noexcept {
    std::array<unsigned, 256> q;
    encode_affine_groups(values, 15, block + kScaleOffset, block + kMinOffset, block + kScalesOffset, q);
    for (std::size_t c = 0; c < 4; ++c)
      for (std::size_t l = 0; l < 32; ++l)
        block::put_u8(block + kQuantsOffset + 32 * c + l, q[64 * c + l] | (q[64 * c + 32 + l] << 4));
  }
};

static_assert(QuantFormat<Q4_K> && require_quant_format<Q4_K>());

}  // namespace coli
