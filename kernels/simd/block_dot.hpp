// SPDX-License-Identifier: Apache-2.0
// What do all byte kernels share? One tile block times a few columns: integer sums per group, scaled into f32 lanes.
//
// BlockDot<Q>::accumulate<Arch, kColumns>(tile block, columns, first group, acc) adds to acc[c] (lane r = row r)
//   for each group g of 16 or 32 values, in the order that the format's header states:
//     acc = fma(f32(dot_g), weight_scale_g * activation_scale_g, acc)       dot_g: exact i32 sum of q_w * q_a
//     acc = fma(-minimum_g, activation_scaled_sum_g, acc)                   formats with minimums
// An output element meets the same operations in the same order for any number of columns, any layout and any
// instruction set. Its rounding error is at most gamma(n) * sum |terms|, n = the number of fma's plus two.
#pragma once

#include "coli/kernels/simd/activation.hpp"
#include "coli/kernels/simd/leaves.hpp"
#include "coli/kernels/simd/tile.hpp"

namespace coli::simd {

template <class Q>
struct BlockDot;

namespace detail {

/// sums[g][c] = start(g, c) + sum over quads i of weights(i)[g] . activations: kGroups groups unpacked together.
/// unpack<i>(w) fills w[0..kGroups) with quad i of each group; group g of column c starts at activation(g, c).
template <class Arch, class Dot, int kGroups, int kQuads, int kColumns, class Start, class Unpack, class ActivationAt>
COLI_SIMD_INLINE void dot_groups(I32x16<Arch> (&sums)[kGroups][kColumns], Start start, Unpack unpack, ActivationAt activation) {
  Dot dot[kGroups][kColumns];
  unroll<kGroups>([&]<int g>() COLI_SIMD_LAMBDA {
    unroll<kColumns>([&]<int c>() COLI_SIMD_LAMBDA { dot[g][c].start(start.template operator()<g, c>()); });
  });
  unroll<kQuads>([&]<int i>() COLI_SIMD_LAMBDA {
    U32x16<Arch> w[kGroups];
    unpack.template operator()<i>(w);
    unroll<kGroups>([&]<int g>() COLI_SIMD_LAMBDA {
      unroll<kColumns>([&]<int c>() COLI_SIMD_LAMBDA {
        dot[g][c].template add<i>(w[g], activation.template operator()<g, c>() + 4 * i);
      });
    });
  });
  unroll<kGroups>([&]<int g>() COLI_SIMD_LAMBDA {
    unroll<kColumns>([&]<int c>() COLI_SIMD_LAMBDA { sums[g][c] = dot[g][c].sum(); });
  });
}

/// acc[c] = fma(f32(sums[c]), weight_scale * activation scale of `group`, acc[c])
template <class Arch, int kColumns>
COLI_SIMD_INLINE void add_scaled(F32x16<Arch> (&acc)[kColumns], const I32x16<Arch> (&sums)[kColumns],
                                 const F32x16<Arch>& weight_scale, const Q8Block* const (&a)[kColumns], int group) {
  unroll<kColumns>([&]<int c>() COLI_SIMD_LAMBDA {
    acc[c] = fma(to_f32(sums[c]), weight_scale * splat<Arch>(a[c]->scale[group]), acc[c]);
  });
}

/// Asks for the n_bytes that are kPrefetchBytes behind those at `weights`. Formats that jump about inside a block defeat
/// the hardware's stream detection. Into L1, 4 KiB ahead: on Zen 4 that reads 1.3 times (Q4_K) and 1.25 times (Q6_K) as
/// much a second with one thread as into L2; 1, 2 and 8 KiB are no better.
COLI_SIMD_INLINE void prefetch_ahead(const std::byte* weights, std::size_t n_bytes) {
  constexpr std::size_t kPrefetchBytes = 4096;
  for (std::size_t i = 0; i < n_bytes; i += 64) __builtin_prefetch(weights + kPrefetchBytes + i, 0, 3);
}

/// Up to this many columns wait for memory: they ask for weights evenly, as they go. More columns wait for load slots,
/// and ask a block at a time, when weights come a first time only (ByteTile).
inline constexpr int kColumnsOnMemory = 4;
template <int kColumns>
COLI_SIMD_INLINE void prefetch_evenly(const std::byte* weights, std::size_t n_bytes) {
  if constexpr (kColumns <= kColumnsOnMemory) prefetch_ahead(weights, n_bytes);
}

/// The same byte in every byte of every lane.
template <class Arch>
COLI_SIMD_INLINE U32x16<Arch> every_byte(std::uint32_t byte) {
  return splat<Arch>(byte * 0x0101'0101u);
}
/// Byte kByte of every lane, as a float: unsigned or signed.
template <int kByte, class Arch>
COLI_SIMD_INLINE F32x16<Arch> unsigned_byte(const U32x16<Arch>& words) {
  return to_f32(bits_as<std::int32_t>(shift_right<8 * kByte>(words) & splat<Arch>(std::uint32_t{0xFF})));
}
template <int kByte, class Arch>
COLI_SIMD_INLINE F32x16<Arch> signed_byte(const U32x16<Arch>& words) {
  return to_f32(shift_right<24>(shift_left<24 - 8 * kByte>(bits_as<std::int32_t>(words))));
}

}  // namespace detail

}  // namespace coli::simd
