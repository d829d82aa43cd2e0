// SPDX-License-Identifier: Apache-2.0
// The format F16: one IEEE binary16 a value.
#pragma once

#include "coli/contracts/quant_format.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/quant/block_bytes.hpp"

namespace coli {

///   byte 0   1
///        [ f16 ]
struct F16 {
  static constexpr FixedName name{"F16"};
  static constexpr std::size_t kValuesPerBlock = 1;
  static constexpr std::size_t kBytesPerBlock = 2;

  static constexpr void decode(const std::byte* block, float* values) noexcept { values[0] = block::f16(block); }
  static constexpr void encode(const float* values, std::byte* block) noexcept { block::put_f16(block, values[0]); }
};

static_assert(QuantFormat<F16> && require_quant_format<F16>());

}  // namespace coli
