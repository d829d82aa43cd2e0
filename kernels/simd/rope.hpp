// SPDX-License-Identifier: Apache-2.0
// How does a head's vector turn with its position (kernels/ref/rope.hpp: the definition, NEOX pairing)?
//
// The angles come as a table, computed once a position in f64 and rounded: head_dim / 2 cosines, then as many sines.
// x'[i] = fma(x[i], cos, -(x[half + i] sin)), x'[half + i] = fma(x[half + i], cos, x[i] sin). In place, one head.
#pragma once

#include "coli/kernels/simd/leaves.hpp"

namespace coli::simd {

template <class Arch>
COLI_SIMD_ENTRY void rope(float* head, const float* table, std::size_t head_dim) {
  const std::size_t half = head_dim / 2;
  for_lanes<Arch>(half, [&](std::size_t at, auto load_at, auto store_at) COLI_SIMD_LAMBDA {
    const F32x16<Arch> a = load_at(head + at), b = load_at(head + half + at);
    const F32x16<Arch> cosine = load_at(table + at), sine = load_at(table + half + at);
    const F32x16<Arch> neg_b = bits_as<float>(bits_as<std::uint32_t>(b) ^ splat<Arch>(std::uint32_t{0x8000'0000}));
    store_at(fma(a, cosine, neg_b * sine), head + at);
    store_at(fma(b, cosine, a * sine), head + half + at);
  });
}

}  // namespace coli::simd
