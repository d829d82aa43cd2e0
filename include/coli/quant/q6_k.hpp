// SPDX-License-Identifier: Apache-2.0
// The format Q6_K: 256 six-bit integers around 32; 16 groups of 16, each with a signed byte as its scale.
#pragma once

#include <array>

#include "coli/contracts/quant_format.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/quant/block_bytes.hpp"
#include "coli/quant/fit.hpp"

namespace coli {

///   byte 0                          128                       192                      208     210
///        [ 128 bytes of two nibbles | 64 bytes of 2-bit tops | 16 scales, signed bytes | d f16 )
///   With h < 2, r < 2, l < 32:
///   byte 64*h + 32*r + l holds the low nibbles of value 128*h + 32*r + l (low) and value 128*h + 64 + 32*r + l (high);
///   byte 128 + 32*h + l holds, two bits each from the lowest up, the tops of values 128*h + l + {0, 32, 64, 96}.
///   value[i] = d * scale[i / 16] * (q[i] - 32)
struct Q6_K {
  static constexpr FixedName name{"Q6_K"};
  static constexpr std::size_t kValuesPerBlock = 256;
  static constexpr std::size_t kValuesPerGroup = 16;
  static constexpr std::size_t kQuantsOffset = 0;
  static constexpr std::size_t kHighBitsOffset = 128;
  static constexpr std::size_t kScalesOffset = 192;
  static constexpr std::size_t kScaleOffset = 208;
  static constexpr std::size_t kBytesPerBlock = 210;
  static_assert(kHighBitsOffset + kValuesPerBlock / 4 == kScalesOffset && kScaleOffset + 2 == kBytesPerBlock);

  static constexpr void decode(const std::byte* block, float* values) noexcept {
    const float d = block::f16(block + kScaleOffset);
    for (std::size_t group = 0; group < 16; ++group) {
      const float scale = d * static_cast<float>(block::i8(block + kScalesOffset + group));
      const std::size_t half = group / 8, quarter = (group % 8) / 2, part = 16 * (group % 2);
      const std::byte* nibbles = block + kQuantsOffset + 64 * half + 32 * (quarter % 2) + part;
      const std::byte* tops = block + kHighBitsOffset + 32 * half + part;
      for (std::size_t i = 0; i < 16; ++i) {
        const unsigned low = (block::u8(nibbles + i) >> (4 * (quarter / 2))) & 15u;
        const unsigned high = (block::u8(tops + i) >> (2 * quarter)) & 3u;
        values[16 * group + i] = scale * static_cast<float>(static_cast<int>(low | (high << 4)) - 32);
      }
    }
  }

  static void encode(const float* values, std::byte* block) noexcept {
    std::array<float, 16> scales;
    float extreme = 0;
    for (std::size_t g = 0; g < 16; ++g) {
      scales[g] = fit::symmetric_scale(values + 16 * g, 16, -32, 31);
      if (std::abs(scales[g]) > std::abs(extreme)) extreme = scales[g];
    }
    const float d = fit::as_f16(extreme / -128.0f);  // the largest scale becomes -128
    std::array<unsigned, 256> q;
    for (std::size_t g = 0; g < 16; ++g) {
      const int scale = fit::nearest(scales[g] * fit::inverse(d), -128, 127);
      block::put_u8(block + kScalesOffset + g, static_cast<unsigned>(scale));
      const float inv = fit::inverse(d * static_cast<float>(scale));
      for (std::size_t i = 16 * g; i < 16 * g + 16; ++i)
        q[i] = static_cast<unsigned>(fit::nearest(values[i] * inv, -32, 31) + 32);
    }
    for (std::size_t half = 0; half < 2; ++half) {
      const unsigned* v = q.data() + 128 * half;
      for (std::size_t l = 0; l < 64; ++l)
        block::put_u8(block + kQuantsOffset + 64 * half + l, (v[l] & 15u) | ((v[l + 64] & 15u) << 4));
      for (std::size_t l = 0; l < 32; ++l)
        block::put_u8(block + kHighBitsOffset + 32 * half + l,
                      (v[l] >> 4) | ((v[l + 32] >> 4) << 2) | ((v[l + 64] >> 4) << 4) | ((v[l + 96] >> 4) << 6));
    }
    block::put_f16(block + kScaleOffset, d);
  }
};

static_assert(QuantFormat<Q6_K> && require_quant_format<Q6_K>());

}  // namespace coli
