// SPDX-License-Identifier: Apache-2.0
// How does 256-bit VNNI spell the byte products of the leaf vocabulary (leaf.hpp)? The rest is AVX2's.
#pragma once

#include "coli/kernels/simd/leaf.hpp"

#if defined(COLI_SIMD_HAS_AVXVNNI)
#include "coli/kernels/simd/leaf_avx2.hpp"

namespace coli::simd {

template <>
struct Leaf<AvxVnni> : LeafYmm<AvxVnni> {
  using Arch = AvxVnni;

  /// vpdpbusd adds four u8 x s8 products into i32 without saturating: |sum| <= 255 * 127 * 4 * kQuads, far from 2^31.
  struct Sums {
    __m256i sum_[2];
    COLI_SIMD_INLINE void start(const I32x16<Arch>& init) { sum_[0] = init.part[0], sum_[1] = init.part[1]; }
    COLI_SIMD_INLINE I32x16<Arch> sum() const { return {{I32x16<Arch>::Part(sum_[0]), I32x16<Arch>::Part(sum_[1])}}; }
  };
  template <int kMaxWeight, int kQuads>
  struct ByteDot : Sums {
    static_assert(kMaxWeight <= 127);
    template <int kQuad>
    COLI_SIMD_INLINE void add(const U32x16<Arch>& w, const std::int8_t* a) {
      const __m256i activations = quad(a);
      for (int i = 0; i < 2; ++i) this->sum_[i] = dpbusd(this->sum_[i], w.part[i], activations);
    }
  };

  static constexpr int kSignedOffset = 128;
  template <int kQuads>
  struct SignedByteDot : Sums {
    template <int kQuad>
    COLI_SIMD_INLINE void add(const U32x16<Arch>& w, const std::int8_t* a) {
      const __m256i activations = quad(a);
      for (int i = 0; i < 2; ++i)
        this->sum_[i] = dpbusd(this->sum_[i], _mm256_xor_si256(w.part[i], _mm256_set1_epi8(-128)), activations);
    }
  };

 private:
  static COLI_SIMD_INLINE __m256i dpbusd(__m256i sum, __m256i w, __m256i a) {
#if defined(__AVXVNNI__)
    return _mm256_dpbusd_avx_epi32(sum, w, a);
#else
    return _mm256_dpbusd_epi32(sum, w, a);  // the same operation in EVEX encoding, for AVX-512 machines (tests)
#endif
  }
};

}  // namespace coli::simd
#endif
