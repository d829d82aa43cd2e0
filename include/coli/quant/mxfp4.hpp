// SPDX-License-Identifier: Apache-2.0
// The format MXFP4: 32 four-bit floats (E2M1) under one power of two (E8M0).
#pragma once

#include <array>
#include <bit>

#include "coli/contracts/quant_format.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/quant/block_bytes.hpp"

namespace coli {

///   byte 0   1                           17
///        [ e | 16 bytes of two nibbles )     byte i holds value i (low) and value i + 16 (high)
///   value[i] = twice_e2m1[nibble[i]] * 2^(e - 128)
/// The published decoder keeps the table doubled and the power halved, so that the table is of integers; nibble 8
/// (minus zero in E2M1) is plus zero there, and e = 255 (NaN in E8M0) is 2^127.
struct MXFP4 {
  static constexpr FixedName name{"MXFP4"};
  static constexpr std::size_t kValuesPerBlock = 32;
  static constexpr std::size_t kExponentOffset = 0;
  static constexpr std::size_t kQuantsOffset = 1;
  static constexpr std::size_t kBytesPerBlock = 17;
  static_assert(kQuantsOffset + kValuesPerBlock / 2 == kBytesPerBlock);

  static constexpr std::array<std::int8_t, 16> kTwiceE2M1{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

  /// 2^(e - 128); the two smallest are subnormal floats.
  static constexpr float half_scale(unsigned e) noexcept {
    return std::bit_cast<float>(e < 2 ? std::uint32_t{0x0020'0000} << e : static_cast<std::uint32_t>(e - 1) << 23);
  }

  static constexpr void decode(const std::byte* block, float* values) noexcept {
    const float d = half_scale(block::u8(block + kExponentOffset));
    for (std::size_t i = 0; i < 16; ++i) {
      const unsigned pair = block::u8(block + kQuantsOffset + i);
      values[i] = static_cast<float>(kTwiceE2M1[pair & 15u]) * d;
      values[i + 16] = static_cast<float>(kTwiceE2M1[pair >> 4]) * d;
    }
  }
};

static_assert(QuantFormat<MXFP4> && require_quant_format<MXFP4>());

}  // namespace coli
