// SPDX-License-Identifier: Apache-2.0
// The format F32: one IEEE binary32 a value.
#pragma once

#include <bit>

#include "coli/contracts/quant_format.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/quant/block_bytes.hpp"

namespace coli {

///   byte 0   1   2   3
///        [ f32, LE    ]
struct F32 {
  static constexpr FixedName name{"F32"};
  static constexpr std::size_t kValuesPerBlock = 1;
  static constexpr std::size_t kBytesPerBlock = 4;

  static constexpr void decode(const std::byte* block, float* values) noexcept {
    values[0] = std::bit_cast<float>(block::u32(block));
  }
  static constexpr void encode(const float* values, std::byte* block) noexcept {
    block::put_u32(block, std::bit_cast<std::uint32_t>(values[0]));
  }
};

static_assert(QuantFormat<F32> && require_quant_format<F32>());

}  // namespace coli
