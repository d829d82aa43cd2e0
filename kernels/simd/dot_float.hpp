// SPDX-License-Identifier: Apache-2.0
// What are sixteen rows of float weights times a few f32 columns?
//
// Weights come as panels: panel k is the 16 weights of column k, one a lane, as f32, f16 or bf16 (widened exactly).
// Four chains, chain k % 4 taking every fourth column: acc[k % 4] = fma(w[k], x[k], acc[k % 4]), k ascending;
// the sum is (acc0 + acc1) + (acc2 + acc3). The order is that of every float format, any number of columns, any layout
// and any instruction set; |error| <= gamma(n_cols / 4 + 3) * sum |w x|.
#pragma once

#include <type_traits>

#include "coli/kernels/simd/leaves.hpp"
#include "coli/quant/bf16.hpp"
#include "coli/quant/f16.hpp"
#include "coli/quant/f32.hpp"

namespace coli::simd {

inline constexpr int kChains = 4;

/// Sums of kColumns columns under way.
template <class Arch, int kColumns>
struct ChainSums {
  F32x16<Arch> acc[kColumns][kChains];

  COLI_SIMD_INLINE ChainSums() {
    unroll<kColumns>([&]<int c>() COLI_SIMD_LAMBDA {
      unroll<kChains>([&]<int chain>() COLI_SIMD_LAMBDA { acc[c][chain] = zero<Arch>(); });
    });
  }
  template <int c>
  COLI_SIMD_INLINE F32x16<Arch> total() const {
    return (acc[c][0] + acc[c][1]) + (acc[c][2] + acc[c][3]);
  }
};

namespace detail {

template <class Arch, class Q>
COLI_SIMD_INLINE F32x16<Arch> load_panel(const std::byte* panel) {
  if constexpr (std::is_same_v<Q, F32>) return bits_as<float>(load_words<Arch>(panel));
  else if constexpr (std::is_same_v<Q, F16>) return Leaf<Arch>::f16_to_f32(panel);
  else return Leaf<Arch>::bf16_to_f32(panel);
}

/// Adds panels [k, k + n) of format Q, which start at `panels`. k is a multiple of 4.
template <class Arch, class Q, int kColumns>
COLI_SIMD_INLINE void add_panels(const std::byte* panels, std::size_t k, std::size_t n, const float* const* columns,
                                 ChainSums<Arch, kColumns>& sums) {
  constexpr std::size_t kPanelBytes = 16 * Q::kBytesPerBlock;
  const auto add = [&]<int chain>(std::size_t at) COLI_SIMD_LAMBDA {
    const F32x16<Arch> w = load_panel<Arch, Q>(panels + at * kPanelBytes);
    unroll<kColumns>([&]<int c>() COLI_SIMD_LAMBDA {
      sums.acc[c][chain] = fma(w, splat<Arch>(columns[c][k + at]), sums.acc[c][chain]);
    });
  };
  std::size_t i = 0;
  for (; i + kChains <= n; i += kChains)
    unroll<kChains>([&]<int chain>() COLI_SIMD_LAMBDA { add.template operator()<chain>(i + chain); });
  unroll<kChains - 1>([&]<int chain>() COLI_SIMD_LAMBDA {
    if (i + chain < n) add.template operator()<chain>(i + chain);
  });
}

/// Turns n columns of 16 plain rows of F32, F16 or BF16 into panels.
template <class Arch, class Q>
COLI_SIMD_INLINE void make_panels(const std::byte* const (&row)[16], std::size_t n, std::byte* panels) {
  constexpr std::size_t kValue = Q::kBytesPerBlock, kRun = 16 / kValue;  // values that a 4-word transpose takes
  std::size_t k = 0;
  for (; k + kRun <= n; k += kRun) {
    alignas(64) std::byte words[4 * 64];
    std::byte* to = kValue == 4 ? panels + 64 * k : words;
    for (std::size_t r = 0; r < 16; r += 4)
      Leaf<Arch>::transpose_4x4({row[r] + kValue * k, row[r + 1] + kValue * k, row[r + 2] + kValue * k, row[r + 3] + kValue * k},
                                to + 4 * r, 64);
    if constexpr (kValue == 2)
      for (std::size_t w = 0; w < 4; ++w)
        Leaf<Arch>::store_halves(load_words<Arch>(words + 64 * w), panels + 32 * (k + 2 * w), panels + 32 * (k + 2 * w + 1));
  }
  for (; k < n; ++k)
    for (std::size_t r = 0; r < 16; ++r) __builtin_memcpy(panels + (16 * k + r) * kValue, row[r] + kValue * k, kValue);
}

}  // namespace detail

}  // namespace coli::simd
