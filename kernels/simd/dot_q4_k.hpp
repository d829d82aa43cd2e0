// SPDX-License-Identifier: Apache-2.0
// What is a tile block of Q4_K or Q5_K times a few columns?
//
// Tile words: 0 (d, dmin) | 1-3 packed scales and minimums | Q5_K: 8 of fifth bits | 32 of nibbles.
// Groups of 32 in ascending order; after each its minimum. Weights are unsigned (15 or 31 at most): nothing to recentre.
// Exact: |dot| <= 31 * 127 * 32 < 2^17; d * scale and dmin * minimum are exact floats (11 + 6 bits).
#pragma once

#include "coli/kernels/simd/block_dot.hpp"

namespace coli::simd {

namespace detail {

/// Eight 6-bit scales and minimums of each row, byte g % 4 of word g / 4 (quant/k_scales.hpp: the packing).
template <class Arch>
struct PackedScales {
  U32x16<Arch> scale[2], minimum[2];
};
template <class Arch>
COLI_SIMD_INLINE PackedScales<Arch> unpack_scales(const std::byte* words) {
  const U32x16<Arch> s = load_words<Arch>(words), m = load_words<Arch>(words + 64), low = load_words<Arch>(words + 128);
  const U32x16<Arch> six = every_byte<Arch>(0x3F), four = every_byte<Arch>(0x0F), top = every_byte<Arch>(0x30);
  return {{s & six, (low & four) | (shift_right<2>(s) & top)},
          {m & six, (shift_right<4>(low) & four) | (shift_right<2>(m) & top)}};
}

template <class Q>
struct BlockDotK4 {
  static constexpr bool kFive = std::is_same_v<Q, Q5_K>;
  static constexpr std::size_t kHighWord = 4;                 // Q5_K: bit g of byte l is the fifth bit of value 32 g + l
  static constexpr std::size_t kQuantWord = kFive ? 12 : 4;

  template <class Arch, int kColumns>
  static COLI_SIMD_INLINE void accumulate(const TileBlock& tile, const Q8Block* const (&a)[kColumns], int /*first_group*/,
                                          F32x16<Arch> (&acc)[kColumns]) {
    const F32Pair<Arch> d = Leaf<Arch>::split_f16(load_words<Arch>(tile.words));  // d, dmin
    const PackedScales<Arch> packed = unpack_scales<Arch>(tile.words + 64);
    const F32x16<Arch> neg_dmin = zero<Arch>() - d.high;
    F32x16<Arch> scale[8], neg_minimum[8];
    unroll<8>([&]<int g>() COLI_SIMD_LAMBDA {
      scale[g] = d.low * unsigned_byte<g % 4>(packed.scale[g / 4]);
      neg_minimum[g] = neg_dmin * unsigned_byte<g % 4>(packed.minimum[g / 4]);
    });
    for (int pair = 0; pair < 4; ++pair) {  // groups 2 pair and 2 pair + 1 share bytes
      const std::byte* quants = tile.words + 64 * (kQuantWord + 8 * static_cast<std::size_t>(pair));
      const std::size_t first = 2 * Q8Block::kGroup * static_cast<std::size_t>(pair);
      prefetch_evenly<kColumns>(tile.words + static_cast<std::size_t>(pair) * (kTileBlockBytes<Q> / 4), kTileBlockBytes<Q> / 4);
      I32x16<Arch> sums[2][kColumns];
      dot_groups<Arch, typename Leaf<Arch>::template ByteDot<kFive ? 31 : 15, 8>, 2, 8, kColumns>(
          sums, []<int g, int c>() COLI_SIMD_LAMBDA { return splat<Arch>(std::int32_t{0}); },
          [&]<int i>(U32x16<Arch>(&w)[2]) COLI_SIMD_LAMBDA {
            const U32x16<Arch> nibbles = load_words<Arch>(quants + 64 * i);
            w[0] = nibbles & every_byte<Arch>(0x0F);
            w[1] = shift_right<4>(nibbles) & every_byte<Arch>(0x0F);
            if constexpr (kFive) {
              const U32x16<Arch> high = shift_right(load_words<Arch>(tile.words + 64 * (kHighWord + i)), 2 * pair);
              w[0] = w[0] | (shift_left<4>(high) & every_byte<Arch>(0x10));
              w[1] = w[1] | (shift_left<3>(high) & every_byte<Arch>(0x10));
            }
          },
          [&]<int g, int c>() COLI_SIMD_LAMBDA { return a[c]->quant + first + Q8Block::kGroup * g; });
      unroll<2>([&]<int g>() COLI_SIMD_LAMBDA {
        const int group = 2 * pair + g;
        add_scaled(acc, sums[g], scale[group], a, group);
        unroll<kColumns>([&]<int c>() COLI_SIMD_LAMBDA {
          acc[c] = fma(neg_minimum[group], splat<Arch>(a[c]->scaled_sum[group]), acc[c]);
        });
      });
    }
  }
};

}  // namespace detail

template <>
struct BlockDot<Q4_K> : detail::BlockDotK4<Q4_K> {};
template <>
struct BlockDot<Q5_K> : detail::BlockDotK4<Q5_K> {};

}  // namespace coli::simd
