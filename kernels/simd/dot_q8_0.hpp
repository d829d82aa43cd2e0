// SPDX-License-Identifier: Apache-2.0
// What is a tile block of Q8_0 or Q4_0 times a few columns?
//
// Halves: d. Tile words: Q8_0 8 of signed bytes; Q4_0 4 of nibbles, value i low and value i + 16 high, stored as w + 8.
// One group of 32 a block. Where weights are unsigned, a sum starts at minus their offset times sum(a).
// Exact: |dot| <= 128 * 127 * 32 < 2^19, or 255 * 127 * 32 + 128 * 127 * 32 < 2^21 on the way.
#pragma once

#include "coli/kernels/simd/block_dot.hpp"

namespace coli::simd {

namespace detail {

/// -kOffset * the sum of the 32 quants of `group`, from the two sums of 16 that the block carries times -32.
template <int kOffset, class Arch>
COLI_SIMD_INLINE I32x16<Arch> recentred(const Q8Block& a, int group) {
  const std::int32_t neg32_sum = a.neg32_sum16[2 * group] + a.neg32_sum16[2 * group + 1];
  static_assert(kOffset == 0 || kOffset == 8 || kOffset == 128);
  return splat<Arch>(kOffset == 0 ? 0 : kOffset == 8 ? neg32_sum / 4 : neg32_sum * 4);
}

}  // namespace detail

template <>
struct BlockDot<Q8_0> {
  template <class Arch, int kColumns>
  static COLI_SIMD_INLINE void accumulate(const TileBlock& tile, const Q8Block* const (&a)[kColumns], int group,
                                          F32x16<Arch> (&acc)[kColumns]) {
    using namespace detail;
    prefetch_evenly<kColumns>(tile.words, kTileBlockBytes<Q8_0>);
    I32x16<Arch> sums[1][kColumns];
    dot_groups<Arch, typename Leaf<Arch>::template SignedByteDot<8>, 1, 8, kColumns>(
        sums, [&]<int g, int c>() COLI_SIMD_LAMBDA { return recentred<Leaf<Arch>::kSignedOffset, Arch>(*a[c], group); },
        [&]<int i>(U32x16<Arch>(&w)[1]) COLI_SIMD_LAMBDA { w[0] = load_words<Arch>(tile.words + 64 * i); },
        [&]<int g, int c>() COLI_SIMD_LAMBDA { return a[c]->quant + Q8Block::kGroup * static_cast<std::size_t>(group); });
    add_scaled(acc, sums[0], Leaf<Arch>::f16_to_f32(tile.halves), a, group);
  }
};

template <>
struct BlockDot<Q4_0> {
  template <class Arch, int kColumns>
  static COLI_SIMD_INLINE void accumulate(const TileBlock& tile, const Q8Block* const (&a)[kColumns], int group,
                                          F32x16<Arch> (&acc)[kColumns]) {
    using namespace detail;
    prefetch_evenly<kColumns>(tile.words, kTileBlockBytes<Q4_0>);
    I32x16<Arch> sums[1][kColumns];
    dot_groups<Arch, typename Leaf<Arch>::template ByteDot<15, 8>, 1, 8, kColumns>(
        sums, [&]<int g, int c>() COLI_SIMD_LAMBDA { return recentred<8, Arch>(*a[c], group); },
        [&]<int i>(U32x16<Arch>(&w)[1]) COLI_SIMD_LAMBDA {
          const U32x16<Arch> nibbles = load_words<Arch>(tile.words + 64 * (i % 4));
          w[0] = (i < 4 ? nibbles : shift_right<4>(nibbles)) & every_byte<Arch>(0x0F);
        },
        [&]<int g, int c>() COLI_SIMD_LAMBDA { return a[c]->quant + Q8Block::kGroup * static_cast<std::size_t>(group); });
    add_scaled(acc, sums[0], Leaf<Arch>::f16_to_f32(tile.halves), a, group);
  }
};

}  // namespace coli::simd
