// SPDX-License-Identifier: Apache-2.0
// The format BF16: the upper half of a binary32 a value.
#pragma once

#include "coli/contracts/quant_format.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/quant/block_bytes.hpp"

namespace coli {

///   byte 0   1
///        [ bf16 ]
struct BF16 {
  static constexpr FixedName name{"BF16"};
  static constexpr std::size_t kValuesPerBlock = 1;
  static constexpr std::size_t kBytesPerBlock = 2;

  static constexpr void decode(const std::byte* block, float* values) noexcept {
    values[0] = bf16_to_f32(block::u16(block));
  }
  static constexpr void encode(const float* values, std::byte* block) noexcept {
    block::put_u16(block, f32_to_bf16(values[0]));
  }
};

static_assert(QuantFormat<BF16> && require_quant_format<BF16>());

}  // namespace coli
