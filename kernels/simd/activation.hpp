// SPDX-License-Identifier: Apache-2.0
// In which form do the kernels read their input vectors?
//
// Block formats read vectors quantised to 8 bits, once a vector, whatever the number of matrices and experts that use
// it; float formats (and formats without a kernel of their own) read f32. activation_of<Q> is the type, so that a
// vector of the wrong kind does not compile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "coli/contracts/quant_format.hpp"
#include "coli/quant/q4_0.hpp"
#include "coli/quant/q4_k.hpp"
#include "coli/quant/q5_k.hpp"
#include "coli/quant/q6_k.hpp"
#include "coli/quant/q8_0.hpp"

namespace coli::simd {

/// 256 values: value[i] = scale[i / 32] * quant[i], |quant| <= 127 (-128 never occurs: byte products rely on it).
/// Six cache lines; all fields of a block at constant distances, so that a kernel needs one pointer a column.
///   byte 0            256        288             320                384
///        [ quant i8   | scale f32 | scaled_sum f32 | neg32_sum16 i32 )
struct alignas(64) Q8Block {
  static constexpr std::size_t kValues = 256;
  static constexpr std::size_t kGroup = 32;  // values under one scale

  std::int8_t quant[kValues];
  float scale[kValues / kGroup];
  float scaled_sum[kValues / kGroup];      // scale * sum of the group's quants: what a format's minimums multiply
  std::int32_t neg32_sum16[kValues / 16];  // -32 * sum of 16 quants: where sums of weights stored as w + 32 start
};
static_assert(sizeof(Q8Block) == 384);

/// Blocks of a vector of n values (a multiple of 32); a last block that is not full holds zeros behind its values.
constexpr std::size_t q8_blocks(std::size_t n) noexcept { return (n + Q8Block::kValues - 1) / Q8Block::kValues; }
constexpr std::size_t q8_bytes(std::size_t n) noexcept { return q8_blocks(n) * sizeof(Q8Block); }

/// Has format Q a kernel on bytes?
template <class Q>
inline constexpr bool reads_q8 = std::is_same_v<Q, Q4_K> || std::is_same_v<Q, Q5_K> || std::is_same_v<Q, Q6_K> ||
                                 std::is_same_v<Q, Q8_0> || std::is_same_v<Q, Q4_0>;

template <QuantFormat Q>
using activation_of = std::conditional_t<reads_q8<Q>, Q8Block, float>;

}  // namespace coli::simd
