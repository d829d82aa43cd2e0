// SPDX-License-Identifier: Apache-2.0
// Which leaves (leaf.hpp) are the same for every x86 instruction set?
#pragma once

#include "coli/kernels/simd/leaf.hpp"

#if defined(COLI_SIMD_HAS_AVX2)
#include <immintrin.h>

#include <cstring>

namespace coli::simd {

template <class A>
struct LeafX86 {
  static COLI_SIMD_INLINE void transpose_4x4(const std::byte* const (&row)[4], std::byte* out, std::size_t out_stride) {
    const __m128i a = load_128(row[0]), b = load_128(row[1]), c = load_128(row[2]), d = load_128(row[3]);
    const __m128i ab_low = _mm_unpacklo_epi32(a, b), ab_high = _mm_unpackhi_epi32(a, b);
    const __m128i cd_low = _mm_unpacklo_epi32(c, d), cd_high = _mm_unpackhi_epi32(c, d);
    store_128(_mm_unpacklo_epi64(ab_low, cd_low), out);
    store_128(_mm_unpackhi_epi64(ab_low, cd_low), out + out_stride);
    store_128(_mm_unpacklo_epi64(ab_high, cd_high), out + 2 * out_stride);
    store_128(_mm_unpackhi_epi64(ab_high, cd_high), out + 3 * out_stride);
  }

 protected:
  static COLI_SIMD_INLINE __m128i load_128(const std::byte* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
  static COLI_SIMD_INLINE void store_128(__m128i v, std::byte* p) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), v); }
  static COLI_SIMD_INLINE std::int32_t word(const std::int8_t* a) {
    std::int32_t w;
    std::memcpy(&w, a, sizeof w);
    return w;
  }
};

}  // namespace coli::simd
#endif
