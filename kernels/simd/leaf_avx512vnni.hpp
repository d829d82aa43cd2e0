// SPDX-License-Identifier: Apache-2.0
// How does AVX-512 with VNNI spell the leaf vocabulary (leaf.hpp)? Sixteen lanes are one register.
#pragma once

#include "coli/kernels/simd/leaf_x86.hpp"

#if defined(COLI_SIMD_HAS_AVX512VNNI)
#if defined(__GNUC__) && !defined(__clang__)  // g++ 12 takes the "undefined" vectors of its own intrinsics for ours
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace coli::simd {

template <>
struct Leaf<Avx512Vnni> : LeafX86<Avx512Vnni> {
  using Arch = Avx512Vnni;

  /// vpdpbusd adds four u8 x s8 products into i32 without saturating: |sum| <= 127 * 127 * 4 * kQuads, far from 2^31.
  template <int kMaxWeight, int kQuads>
  struct ByteDot {
    static_assert(kMaxWeight <= 127);
    __m512i sum_;
    COLI_SIMD_INLINE void start(const I32x16<Arch>& init) { sum_ = init.part[0]; }
    template <int kQuad>
    COLI_SIMD_INLINE void add(const U32x16<Arch>& w, const std::int8_t* a) {
      sum_ = _mm512_dpbusd_epi32(sum_, w.part[0], quad(a));
    }
    COLI_SIMD_INLINE I32x16<Arch> sum() const { return {{I32x16<Arch>::Part(sum_)}}; }
  };

  static constexpr int kSignedOffset = 128;
  /// w + 128 as unsigned: flipping the sign bit. |sum| <= 255 * 127 * 4 * kQuads.
  template <int kQuads>
  struct SignedByteDot {
    __m512i sum_;
    COLI_SIMD_INLINE void start(const I32x16<Arch>& init) { sum_ = init.part[0]; }
    template <int kQuad>
    COLI_SIMD_INLINE void add(const U32x16<Arch>& w, const std::int8_t* a) {
      sum_ = _mm512_dpbusd_epi32(sum_, _mm512_xor_si512(w.part[0], _mm512_set1_epi8(-128)), quad(a));
    }
    COLI_SIMD_INLINE I32x16<Arch> sum() const { return {{I32x16<Arch>::Part(sum_)}}; }
  };

  static COLI_SIMD_INLINE F32x16<Arch> f16_to_f32(const std::byte* p) { return wide(_mm512_cvtph_ps(load_256(p))); }
  static COLI_SIMD_INLINE F32x16<Arch> bf16_to_f32(const std::byte* p) {
    return wide(_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load_256(p)), 16)));
  }
  static COLI_SIMD_INLINE void f32_to_f16(const F32x16<Arch>& v, std::byte* p) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(v.part[0], _MM_FROUND_TO_NEAREST_INT));
  }
  static COLI_SIMD_INLINE F32Pair<Arch> split_f16(const U32x16<Arch>& words) {
    return {wide(_mm512_cvtph_ps(_mm512_cvtepi32_epi16(words.part[0]))),
            wide(_mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(words.part[0], 16))))};
  }
  static COLI_SIMD_INLINE void store_i8(const I32x16<Arch>& v, std::int8_t* p) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v.part[0]));
  }
  static COLI_SIMD_INLINE void store_halves(const U32x16<Arch>& words, std::byte* low, std::byte* high) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(low), _mm512_cvtepi32_epi16(words.part[0]));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(high), _mm512_cvtepi32_epi16(_mm512_srli_epi32(words.part[0], 16)));
  }
  static COLI_SIMD_INLINE float reduce_add(const F32x16<Arch>& v) {
    const __m512 x = v.part[0];
    const __m256 by8 = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    const __m128 by4 = _mm_add_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
    const __m128 by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));
    return _mm_cvtss_f32(_mm_add_ss(by2, _mm_movehdup_ps(by2)));
  }
  template <int kDistance>
  static COLI_SIMD_INLINE F32Pair<Arch> apart(const F32x16<Arch>& a, const F32x16<Arch>& b) {
    const __m512 x = a.part[0], y = b.part[0];
    if constexpr (kDistance == 8) return {wide(_mm512_shuffle_f32x4(x, y, 0x44)), wide(_mm512_shuffle_f32x4(x, y, 0xEE))};
    else if constexpr (kDistance == 4) return {wide(_mm512_shuffle_f32x4(x, y, 0x88)), wide(_mm512_shuffle_f32x4(x, y, 0xDD))};
    else if constexpr (kDistance == 2) return {wide(_mm512_shuffle_ps(x, y, 0x44)), wide(_mm512_shuffle_ps(x, y, 0xEE))};
    else return {wide(_mm512_shuffle_ps(x, y, 0x88)), wide(_mm512_shuffle_ps(x, y, 0xDD))};
  }

 private:
  static COLI_SIMD_INLINE F32x16<Arch> wide(__m512 v) { return {{F32x16<Arch>::Part(v)}}; }
  static COLI_SIMD_INLINE __m256i load_256(const std::byte* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static COLI_SIMD_INLINE __m512i quad(const std::int8_t* a) {
    return _mm512_set1_epi32(word(a));
  }
};

}  // namespace coli::simd

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#endif
