// SPDX-License-Identifier: Apache-2.0
// How does AVX2 (with FMA and F16C) spell the leaf vocabulary (leaf.hpp)? Sixteen lanes are two registers.
#pragma once

#include "coli/kernels/simd/leaf_x86.hpp"

#if defined(COLI_SIMD_HAS_AVX2)
#include <immintrin.h>

namespace coli::simd {

/// What AVX2 and AVX-VNNI have in common: everything but the byte products.
template <class A>
struct LeafYmm : LeafX86<A> {
  static COLI_SIMD_INLINE F32x16<A> f16_to_f32(const std::byte* p) {
    return wide(_mm256_cvtph_ps(LeafX86<A>::load_128(p)), _mm256_cvtph_ps(LeafX86<A>::load_128(p + 16)));
  }
  static COLI_SIMD_INLINE F32x16<A> bf16_to_f32(const std::byte* p) {
    return wide(_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(LeafX86<A>::load_128(p)), 16)),
                _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(LeafX86<A>::load_128(p + 16)), 16)));
  }
  static COLI_SIMD_INLINE void f32_to_f16(const F32x16<A>& v, std::byte* p) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v.part[0], _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 16), _mm256_cvtps_ph(v.part[1], _MM_FROUND_TO_NEAREST_INT));
  }
  static COLI_SIMD_INLINE F32Pair<A> split_f16(const U32x16<A>& words) {
    const __m256i a = halves_apart(words.part[0]), b = halves_apart(words.part[1]);
    return {wide(_mm256_cvtph_ps(_mm256_castsi256_si128(a)), _mm256_cvtph_ps(_mm256_castsi256_si128(b))),
            wide(_mm256_cvtph_ps(_mm256_extracti128_si256(a, 1)), _mm256_cvtph_ps(_mm256_extracti128_si256(b, 1)))};
  }
  static COLI_SIMD_INLINE void store_i8(const I32x16<A>& v, std::int8_t* p) {
    const __m256i pairs = _mm256_permute4x64_epi64(_mm256_packs_epi32(v.part[0], v.part[1]), 0xD8);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                     _mm_packs_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1)));
  }
  static COLI_SIMD_INLINE void store_halves(const U32x16<A>& words, std::byte* low, std::byte* high) {
    for (int i = 0; i < 2; ++i) {
      const __m256i apart = halves_apart(words.part[i]);
      LeafX86<A>::store_128(_mm256_castsi256_si128(apart), low + 16 * i);
      LeafX86<A>::store_128(_mm256_extracti128_si256(apart, 1), high + 16 * i);
    }
  }
  static COLI_SIMD_INLINE float reduce_add(const F32x16<A>& v) {
    const __m256 by8 = _mm256_add_ps(v.part[0], v.part[1]);
    const __m128 by4 = _mm_add_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
    const __m128 by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));
    return _mm_cvtss_f32(_mm_add_ss(by2, _mm_movehdup_ps(by2)));
  }
  template <int kDistance>
  static COLI_SIMD_INLINE F32Pair<A> apart(const F32x16<A>& a, const F32x16<A>& b) {
    const __m256 x[2] = {a.part[0], a.part[1]}, y[2] = {b.part[0], b.part[1]};
    if constexpr (kDistance == 8) return {wide(x[0], y[0]), wide(x[1], y[1])};
    else if constexpr (kDistance == 4)
      return {wide(_mm256_permute2f128_ps(x[0], x[1], 0x20), _mm256_permute2f128_ps(y[0], y[1], 0x20)),
              wide(_mm256_permute2f128_ps(x[0], x[1], 0x31), _mm256_permute2f128_ps(y[0], y[1], 0x31))};
    else if constexpr (kDistance == 2)
      return {wide(_mm256_shuffle_ps(x[0], y[0], 0x44), _mm256_shuffle_ps(x[1], y[1], 0x44)),
              wide(_mm256_shuffle_ps(x[0], y[0], 0xEE), _mm256_shuffle_ps(x[1], y[1], 0xEE))};
    else
      return {wide(_mm256_shuffle_ps(x[0], y[0], 0x88), _mm256_shuffle_ps(x[1], y[1], 0x88)),
              wide(_mm256_shuffle_ps(x[0], y[0], 0xDD), _mm256_shuffle_ps(x[1], y[1], 0xDD))};
  }

 protected:
  static COLI_SIMD_INLINE F32x16<A> wide(__m256 low, __m256 high) {
    return {{typename F32x16<A>::Part(low), typename F32x16<A>::Part(high)}};
  }
  /// Eight words to [8 low halves | 8 high halves].
  static COLI_SIMD_INLINE __m256i halves_apart(__m256i words) {
    const __m256i order = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    return _mm256_permute4x64_epi64(_mm256_shuffle_epi8(words, order), 0xD8);
  }
  static COLI_SIMD_INLINE __m256i quad(const std::int8_t* a) {
    return _mm256_set1_epi32(LeafX86<A>::word(a));
  }
};

template <>
struct Leaf<Avx2> : LeafYmm<Avx2> {
  using Arch = Avx2;

  /// vpmaddubsw adds two u8 x s8 products into an i16 and would saturate; so would their sums. With weights <= M and
  /// |activations| <= 127 an i16 holds kRun = 32767 / (2 * 127 * M) such pairs exactly: 8 for M = 15 (30480), 4 for 31
  /// (31496), 2 for 63 (32004), 1 for 127 (32258). After each run they are widened to i32.
  template <int kMaxWeight, int kQuads>
  struct ByteDot {
    static_assert(kMaxWeight <= 127);
    static constexpr int kRun = 32767 / (2 * 127 * kMaxWeight);
    __m256i sum_[2], run_[2];
    COLI_SIMD_INLINE void start(const I32x16<Arch>& init) { sum_[0] = init.part[0], sum_[1] = init.part[1]; }
    template <int kQuad>
    COLI_SIMD_INLINE void add(const U32x16<Arch>& w, const std::int8_t* a) {
      const __m256i activations = quad(a);
      for (int i = 0; i < 2; ++i) {
        const __m256i pairs = _mm256_maddubs_epi16(w.part[i], activations);
        run_[i] = kQuad % kRun == 0 ? pairs : _mm256_add_epi16(run_[i], pairs);
        if (kQuad % kRun == kRun - 1 || kQuad == kQuads - 1)
          sum_[i] = _mm256_add_epi32(sum_[i], _mm256_madd_epi16(run_[i], _mm256_set1_epi16(1)));
      }
    }
    COLI_SIMD_INLINE I32x16<Arch> sum() const { return {{I32x16<Arch>::Part(sum_[0]), I32x16<Arch>::Part(sum_[1])}}; }
  };

  static constexpr int kSignedOffset = 0;
  /// |w| (128 at most, as unsigned) times the activation with w's sign: a pair is at most 2 * 128 * 127 = 32512.
  template <int kQuads>
  struct SignedByteDot {
    __m256i sum_[2];
    COLI_SIMD_INLINE void start(const I32x16<Arch>& init) { sum_[0] = init.part[0], sum_[1] = init.part[1]; }
    template <int kQuad>
    COLI_SIMD_INLINE void add(const U32x16<Arch>& w, const std::int8_t* a) {
      const __m256i activations = quad(a);
      for (int i = 0; i < 2; ++i) {
        const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w.part[i]), _mm256_sign_epi8(activations, w.part[i]));
        sum_[i] = _mm256_add_epi32(sum_[i], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
      }
    }
    COLI_SIMD_INLINE I32x16<Arch> sum() const { return {{I32x16<Arch>::Part(sum_[0]), I32x16<Arch>::Part(sum_[1])}}; }
  };
};

}  // namespace coli::simd
#endif
