// SPDX-License-Identifier: Apache-2.0
// How does 256-bit VNNI, in either encoding, spell the byte products of the leaf vocabulary (leaf.hpp)? The rest is AVX2's.
#pragma once

#include "coli/kernels/simd/leaf.hpp"

#if defined(COLI_SIMD_HAS_AVXVNNI) || defined(COLI_SIMD_HAS_AVX512VNNI)
#include "coli/kernels/simd/leaf_avx2.hpp"

namespace coli::simd {

/// Dpbusd::add(sums, w, a): the 256-bit instruction in the encoding that A's processors have.
template <class A, class Dpbusd>
struct LeafVnni256 : LeafYmm<A> {
  /// vpdpbusd adds four u8 x s8 products into i32 without saturating: |sum| <= 255 * 127 * 4 * kQuads, far from 2^31.
  struct Sums {
    __m256i sum_[2];
    COLI_SIMD_INLINE void start(const I32x16<A>& init) { sum_[0] = init.part[0], sum_[1] = init.part[1]; }
    COLI_SIMD_INLINE I32x16<A> sum() const {
      using Part = typename I32x16<A>::Part;
      return {{Part(sum_[0]), Part(sum_[1])}};
    }
  };
  template <int kMaxWeight, int kQuads>
  struct ByteDot : Sums {
    static_assert(kMaxWeight <= 127);
    template <int kQuad>
    COLI_SIMD_INLINE void add(const U32x16<A>& w, const std::int8_t* a) {
      const __m256i activations = LeafVnni256::quad(a);
      for (int i = 0; i < 2; ++i) this->sum_[i] = Dpbusd::add(this->sum_[i], w.part[i], activations);
    }
  };

  static constexpr int kSignedOffset = 128;
  template <int kQuads>
  struct SignedByteDot : Sums {
    template <int kQuad>
    COLI_SIMD_INLINE void add(const U32x16<A>& w, const std::int8_t* a) {
      const __m256i activations = LeafVnni256::quad(a);
      for (int i = 0; i < 2; ++i)
        this->sum_[i] = Dpbusd::add(this->sum_[i], _mm256_xor_si256(w.part[i], _mm256_set1_epi8(-128)), activations);
    }
  };
};

#if defined(COLI_SIMD_HAS_AVXVNNI)
struct DpbusdVex {
  static COLI_SIMD_INLINE __m256i add(__m256i sum, __m256i w, __m256i a) { return _mm256_dpbusd_avx_epi32(sum, w, a); }
};
template <>
struct Leaf<AvxVnni> : LeafVnni256<AvxVnni, DpbusdVex> {};
#endif
#if defined(COLI_SIMD_HAS_AVX512VNNI)
struct DpbusdEvex {
  static COLI_SIMD_INLINE __m256i add(__m256i sum, __m256i w, __m256i a) { return _mm256_dpbusd_epi32(sum, w, a); }
};
template <>
struct Leaf<EvexVnni256> : LeafVnni256<EvexVnni256, DpbusdEvex> {};
#endif

}  // namespace coli::simd
#endif
