// SPDX-License-Identifier: Apache-2.0
// What is a tile block of Q6_K times a few columns?
//
// Tile words: 0-31 nibbles | 32-47 two-bit tops | 48-51 sixteen signed scales; halves: d.
// Per half of 128 values and quarter pair, groups of 16 that share bytes come together: with h < 2, part < 2, r < 2 in
// that nesting, groups 8h + 2r + part and 8h + 2r + part + 4.
// Stored weights are w + 32 (63 at most): a sum starts at -32 * sum(a), which the activation carries.
// Exact: |dot| <= 63 * 127 * 16 + 32 * 127 * 16 < 2^18; d * scale is an exact float (11 + 8 bits).
#pragma once

#include "coli/kernels/simd/block_dot.hpp"

namespace coli::simd {

template <>
struct BlockDot<Q6_K> {
  template <class Arch, int kColumns>
  static COLI_SIMD_INLINE void accumulate(const TileBlock& tile, const Q8Block* const (&a)[kColumns], int /*first_group*/,
                                          F32x16<Arch> (&acc)[kColumns]) {
    using namespace detail;
    const F32x16<Arch> d = Leaf<Arch>::f16_to_f32(tile.halves);
    F32x16<Arch> scale[16];
    unroll<16>([&]<int g>() COLI_SIMD_LAMBDA {
      scale[g] = d * signed_byte<g % 4>(load_words<Arch>(tile.words + 64 * (g / 4)));
    });
    for (int step = 0; step < 4; ++step) {
      const int h = step / 2, part = step % 2;
      const std::byte* words = tile.words + 64 * (4 + 12 * static_cast<std::size_t>(step));  // 4 of tops, 2 x 4 of nibbles
      prefetch_evenly<kColumns>(tile.words + static_cast<std::size_t>(step) * (kWordsBytes<Q6_K> / 4), kWordsBytes<Q6_K> / 4);
      unroll<2>([&]<int r>() COLI_SIMD_LAMBDA {
        const int first_group = 8 * h + 2 * r + part;
        I32x16<Arch> sums[2][kColumns];
        dot_groups<Arch, typename Leaf<Arch>::template ByteDot<63, 4>, 2, 4, kColumns>(
            sums, [&]<int g, int c>() COLI_SIMD_LAMBDA { return splat<Arch>(a[c]->neg32_sum16[first_group + 4 * g]); },
            [&]<int i>(U32x16<Arch>(&w)[2]) COLI_SIMD_LAMBDA {
              const U32x16<Arch> nibbles = load_words<Arch>(words + 64 * (4 + 4 * r + i));
              const U32x16<Arch> tops = load_words<Arch>(words + 64 * i);
              const U32x16<Arch> four = every_byte<Arch>(0x0F), top = every_byte<Arch>(0x30);
              w[0] = (nibbles & four) | (shift_left<4 - 2 * r>(tops) & top);
              w[1] = (shift_right<4>(nibbles) & four) | (shift_right<2 * r>(tops) & top);
            },
            [&]<int g, int c>() COLI_SIMD_LAMBDA { return a[c]->quant + 16 * (first_group + 4 * g); });
        unroll<2>([&]<int g>() COLI_SIMD_LAMBDA {
          const int group = first_group + 4 * g;
          add_scaled(acc, sums[g], scale[group], a, group / 2);
        });
      });
    }
  }
};

}  // namespace coli::simd
