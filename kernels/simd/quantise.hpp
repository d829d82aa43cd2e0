// SPDX-License-Identifier: Apache-2.0
// Which 8-bit vector stands for this f32 vector?
//
// Per 32 values: scale = max|x| / 127, quant = round(x * (127 / max|x|)), to nearest, ties to even; so
//   |x - scale * quant| <= max|x| / 254 * (1 + 2^-14).
// A group whose scale would be subnormal becomes zero (an error below 2^-119). A group that holds a NaN or an infinity
// gets scale NaN, so that every output that reads it is NaN: the caller's checks find it. O(n), no allocation.
#pragma once

#include "coli/kernels/simd/activation.hpp"
#include "coli/kernels/simd/reduce.hpp"

namespace coli::simd {

namespace detail {

/// One block; x [256].
template <class Arch>
COLI_SIMD_INLINE void quantise_block(const float* x, Q8Block& block) {
  constexpr int kHalves = 16;  // of 16 values; two are a group
  constexpr float kSmallestNormal = 0x1p-126f;
  constexpr std::int32_t kInfinity = 0x7F80'0000;
  F32x16<Arch> v[kHalves];
  I32x16<Arch> magnitude[kHalves];  // as integers they order like the floats, infinities and NaN above all finite ones
  unroll<kHalves>([&]<int i>() COLI_SIMD_LAMBDA {
    v[i] = load<Arch>(x + i * kLanes);
    magnitude[i] = bits_as<std::int32_t>(v[i]) & splat<Arch>(std::int32_t{0x7FFF'FFFF});
  });
  const auto larger = [](const auto& a, const auto& b) COLI_SIMD_LAMBDA { return max(a, b); };
  const I32x16<Arch> top = reduce_pairs(reduce_16(magnitude, larger), larger);
  const F32x16<Arch> amax = bits_as<float>(top), smallest = splat<Arch>(kSmallestNormal);
  const F32x16<Arch> scale = amax / splat<Arch>(127.0f);
  alignas(64) std::int32_t tops[kLanes];
  alignas(64) float scales[kLanes], inverses[kLanes];
  store(top, tops);
  store(where_less(scale, smallest, zero<Arch>(), scale), scales);
  store(where_less(scale, smallest, zero<Arch>(), splat<Arch>(127.0f) / amax), inverses);

  I32x16<Arch> quants[kHalves];
  unroll<kHalves / 2>([&]<int g>() COLI_SIMD_LAMBDA {
    constexpr std::size_t lane = pair_lane(g);
    if (tops[lane] >= kInfinity) {
      v[2 * g] = v[2 * g + 1] = zero<Arch>();
      scales[lane] = __builtin_nanf(""), inverses[lane] = 0;
    }
    unroll<2>([&]<int half>() COLI_SIMD_LAMBDA {
      constexpr int i = 2 * g + half;
      quants[i] = round_to_i32(v[i] * splat<Arch>(inverses[lane]));
      Leaf<Arch>::store_i8(quants[i], block.quant + i * kLanes);
    });
  });
  const I32x16<Arch> sum16 = reduce_16(quants, [](const auto& a, const auto& b) COLI_SIMD_LAMBDA { return a + b; });
  store(splat<Arch>(std::int32_t{0}) - shift_left<5>(sum16), block.neg32_sum16);
  alignas(64) std::int32_t sums[kLanes];
  store(sum16, sums);
  for (std::size_t g = 0; g < kHalves / 2; ++g) {
    block.scale[g] = scales[pair_lane(g)];
    block.scaled_sum[g] = block.scale[g] * static_cast<float>(sums[2 * g] + sums[2 * g + 1]);
  }
}

}  // namespace detail

/// Requires: n a multiple of 32; out [q8_blocks(n)].
template <class Arch>
COLI_SIMD_ENTRY void quantise(const float* x, std::size_t n, Q8Block* out) {
  for (; n >= Q8Block::kValues; n -= Q8Block::kValues) {
    detail::quantise_block<Arch>(x, *out++);
    x += Q8Block::kValues;
  }
  if (n == 0) return;
  alignas(64) float rest[Q8Block::kValues] = {};
  __builtin_memcpy(rest, x, n * sizeof(float));
  detail::quantise_block<Arch>(rest, *out);
}

}  // namespace coli::simd
