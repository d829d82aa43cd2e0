// SPDX-License-Identifier: Apache-2.0
// How fast is memory, with this instruction set's widest loads? The limit that the products are measured against.
//
// Sums [from, from + bytes) as 32-bit words, in kStreams adjacent stretches that are read side by side; kPrefetch asks
// for lines 4 KiB ahead, as the products do. What a stretch has behind its last 64 bytes is left out.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coli/kernels/simd/leaves.hpp"

namespace coli::simd {

template <class Arch, int kStreams, bool kPrefetch>
COLI_SIMD_ENTRY std::uint32_t read(const std::byte* from, std::size_t bytes) {
  constexpr std::size_t kLine = 64, kAhead = 4096;
  const std::size_t stretch = bytes / kStreams / kLine * kLine;
  U32x16<Arch> sum[kStreams];
  unroll<kStreams>([&]<int s>() COLI_SIMD_LAMBDA { sum[s] = splat<Arch>(std::uint32_t{0}); });
  for (std::size_t at = 0; at < stretch; at += kLine)
    unroll<kStreams>([&]<int s>() COLI_SIMD_LAMBDA {
      const std::byte* line = from + static_cast<std::size_t>(s) * stretch + at;
      if constexpr (kPrefetch) __builtin_prefetch(line + kAhead, 0, 3);
      sum[s] = sum[s] + load_words<Arch>(line);
    });
  alignas(64) std::uint32_t words[kLanes];
  unroll<kStreams>([&]<int s>() COLI_SIMD_LAMBDA {
    if (s != 0) sum[0] = sum[0] + sum[s];
  });
  store(sum[0], words);
  std::uint32_t total = 0;
  for (const std::uint32_t word : words) total += word;
  return total;
}

}  // namespace coli::simd
