// SPDX-License-Identifier: Apache-2.0
// Which 8-bit vector stands for this f32 vector?
//
// Per 32 values: scale = max|x| / 127, quant = round(x * (127 / max|x|)), to nearest, ties to even; so
//   |x - scale * quant| <= max|x| / 254 * (1 + 2^-14).
// A group whose scale would be subnormal becomes zero (an error below 2^-119). A group that holds a NaN or an infinity
// gets scale NaN, so that every output that reads it is NaN: the caller's checks find it. O(n), no allocation.
#pragma once

#include "coli/kernels/simd/activation.hpp"
#include "coli/kernels/simd/leaves.hpp"

namespace coli::simd {

namespace detail {

template <class Arch>
COLI_SIMD_INLINE std::int32_t sum(const I32x16<Arch>& v) {
  alignas(64) std::int32_t lane[kLanes];
  store(v, lane);
  std::int32_t total = 0;
  for (int i = 0; i < kLanes; ++i) total += lane[i];
  return total;
}

template <class Arch>
COLI_SIMD_INLINE void quantise_group(const float* x, Q8Block& block, std::size_t group) {
  const F32x16<Arch> v[2] = {load<Arch>(x), load<Arch>(x + kLanes)};
  // As integers, magnitudes of floats order like the floats, with infinities and NaN above all finite ones.
  const I32x16<Arch> magnitude = splat<Arch>(std::int32_t{0x7FFF'FFFF});
  const std::int32_t top = largest_lane(max(bits_as<std::int32_t>(v[0]) & magnitude, bits_as<std::int32_t>(v[1]) & magnitude));
  const float amax = __builtin_bit_cast(float, top);
  float scale = amax / 127.0f;
  float inverse = 127.0f / amax;
  constexpr float kSmallestNormal = 0x1p-126f;
  if (scale < kSmallestNormal) scale = inverse = 0;
  if (top >= 0x7F80'0000) scale = __builtin_nanf(""), inverse = 0;
  const F32x16<Arch> factor = splat<Arch>(inverse);
  std::int32_t group_sum = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    I32x16<Arch> q = round_to_i32(v[i] * factor);
    if (top >= 0x7F80'0000) q = splat<Arch>(std::int32_t{0});
    Leaf<Arch>::store_i8(q, block.quant + group * Q8Block::kGroup + i * kLanes);
    const std::int32_t sum16 = sum(q);
    block.neg32_sum16[2 * group + i] = -32 * sum16;
    group_sum += sum16;
  }
  block.scale[group] = scale;
  block.scaled_sum[group] = scale * static_cast<float>(group_sum);
}

}  // namespace detail

/// Requires: n a multiple of 32; out [q8_blocks(n)].
template <class Arch>
COLI_SIMD_ENTRY void quantise(const float* x, std::size_t n, Q8Block* out) {
  constexpr std::size_t kGroups = Q8Block::kValues / Q8Block::kGroup;
  const std::size_t n_groups = n / Q8Block::kGroup;
  if (n_groups % kGroups != 0) out[n_groups / kGroups] = Q8Block{};
  for (std::size_t g = 0; g < n_groups; ++g)
    detail::quantise_group<Arch>(x + g * Q8Block::kGroup, out[g / kGroups], g % kGroups);
}

}  // namespace coli::simd
