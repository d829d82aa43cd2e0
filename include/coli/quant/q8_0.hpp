// SPDX-License-Identifier: Apache-2.0
// The format Q8_0: 32 signed bytes under one f16 scale.
#pragma once

#include "coli/contracts/quant_format.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/quant/block_bytes.hpp"
#include "coli/quant/fit.hpp"

namespace coli {

///   byte 0      2                                34
///        [ d f16 | q[0] q[1] ... q[31], signed  )
///   value[i] = q[i] * d
struct Q8_0 {
  static constexpr FixedName name{"Q8_0"};
  static constexpr std::size_t kValuesPerBlock = 32;
  static constexpr std::size_t kScaleOffset = 0;
  static constexpr std::size_t kQuantsOffset = 2;
  static constexpr std::size_t kBytesPerBlock = 34;
  static_assert(kQuantsOffset + kValuesPerBlock == kBytesPerBlock);

  static constexpr void decode(const std::byte* block, float* values) noexcept {
    const float d = block::f16(block + kScaleOffset);
    for (std::size_t i = 0; i < kValuesPerBlock; ++i)
      values[i] = static_cast<float>(block::i8(block + kQuantsOffset + i)) * d;
  }

  /// The largest magnitude becomes 127; -128 is never written (kernels that fold signs rely on it).
  static void encode(const float* values, std::byte* block) noexcept {
    float largest = 0;
    for (std::size_t i = 0; i < kValuesPerBlock; ++i) largest = std::max(largest, std::abs(values[i]));
    const float d = fit::as_f16(largest / 127.0f);
    const float inv = fit::inverse(d);
    block::put_f16(block + kScaleOffset, d);
    for (std::size_t i = 0; i < kValuesPerBlock; ++i)
      block::put_u8(block + kQuantsOffset + i, static_cast<unsigned>(fit::nearest(values[i] * inv, -127, 127)));
  }
};

static_assert(QuantFormat<Q8_0> && require_quant_format<Q8_0>());

}  // namespace coli
