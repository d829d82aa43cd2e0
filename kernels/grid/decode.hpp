// SPDX-License-Identifier: Apache-2.0
// What are the values of a block, where a thread decodes it whole? The format's own definition, but for tables.
//
// nvcc may make a trap of a host's table that device code indexes, without a word (conformance/cuda/no_traps.sh looks). So what
// has one is written out here; the cases compare it with kernels/ref, which uses the definition.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "coli/kernels/grid/thread.hpp"
#include "coli/quant/format.hpp"

namespace coli::grid {

/// MXFP4's value, doubled, as its header lists it: 0, 1, 2, 3, 4, 6, 8, 12, a digit each of one number, and negated.
COLI_DEVICE constexpr std::int32_t twice_e2m1(std::uint32_t nibble) {
  const auto magnitude = static_cast<std::int32_t>((0xC864'3210u >> (4 * (nibble & 7u))) & 15u);
  return (nibble & 8u) != 0 ? -magnitude : magnitude;
}

/// block [F::kBytesPerBlock] -> values [F::kValuesPerBlock], exactly.
template <class F>
COLI_DEVICE void decode(const std::byte* block, float* values) {
  if constexpr (std::is_same_v<F, MXFP4>) {
    const float d = MXFP4::half_scale(static_cast<unsigned>(block[MXFP4::kExponentOffset]));
    unroll<16>([&](auto i) {
      const auto pair = static_cast<std::uint32_t>(block[MXFP4::kQuantsOffset + i]);
      values[i] = static_cast<float>(twice_e2m1(pair & 15u)) * d;
      values[i + 16] = static_cast<float>(twice_e2m1(pair >> 4)) * d;
    });
  } else {
    F::decode(block, values);
  }
}

}  // namespace coli::grid
