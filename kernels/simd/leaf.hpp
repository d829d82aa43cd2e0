// SPDX-License-Identifier: Apache-2.0
// Which instructions has xsimd no word for? The vocabulary that each instruction set spells in its leaf_<isa>.hpp.
//
// Leaf<Arch> provides, all static and exact:
//   ByteDot<kMaxWeight, kQuads>   i32 sums over quads of unsigned byte weights (each <= kMaxWeight <= 127) times signed
//                                 byte activations (never -128). start(init), then add<0>(w, a) .. add<kQuads - 1>(w, a),
//                                 then sum(). w holds one quad a row; a points to the 4 activations that all rows meet.
//   SignedByteDot<kQuads>         the same for signed byte weights, -128 included. Where kSignedOffset is 128, start must
//                                 be given -128 * sum(a): the weights are read as unsigned, w + 128.
//   f16_to_f32(p), bf16_to_f32(p) 16 adjacent halves to f32 lanes
//   f32_to_f16(v, p)              nearest, ties to even
//   split_f16(words)              {f32 of the low halves, f32 of the high halves} of 16 words
//   store_i8(v, p)                16 words that fit a signed byte
//   reduce_add(v)                 the fixed tree: lane i + lane i+8, then +4, +2, +1
//   apart<kDistance>(a, b)        {lanes of a and b whose number lacks kDistance, those whose number has it}: distances 8
//                                 and 4 give all of a before all of b, 2 and 1 do so in each 4 lanes
//   store_halves(words, p, q)     the 16 low halves to p, the 16 high halves to q
//   transpose_4x4(row, out, n)    four rows of four words to four columns, n bytes apart
#pragma once

#include "coli/kernels/simd/lanes.hpp"

namespace coli::simd {

template <class Arch>
struct Leaf;

template <class Arch>
struct F32Pair {
  F32x16<Arch> low, high;
};

}  // namespace coli::simd
