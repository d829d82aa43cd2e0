// SPDX-License-Identifier: Apache-2.0
// How does Armv8.2 with the dot product extension spell the leaf vocabulary (leaf.hpp)? Four registers of four lanes.
#pragma once

#include "coli/kernels/simd/leaf.hpp"

#if defined(COLI_SIMD_HAS_NEON)
#include <arm_neon.h>

#include <cstring>

namespace coli::simd {

template <>
struct Leaf<Neon> {
  using Arch = Neon;

  /// sdot adds four s8 x s8 products into i32: weights up to 127 are positive signed bytes. |sum| <= 128 * 127 * 4 * kQuads.
  template <int kMaxWeight, int kQuads>
  struct ByteDot {
    static_assert(kMaxWeight <= 127);
    int32x4_t sum_[4];
    COLI_SIMD_INLINE void start(const I32x16<Arch>& init) {
      for (int i = 0; i < 4; ++i) sum_[i] = init.part[i];
    }
    template <int kQuad>
    COLI_SIMD_INLINE void add(const U32x16<Arch>& w, const std::int8_t* a) {
      std::int32_t word;
      std::memcpy(&word, a, sizeof word);
      const int8x16_t activations = vreinterpretq_s8_s32(vdupq_n_s32(word));
      for (int i = 0; i < 4; ++i) sum_[i] = vdotq_s32(sum_[i], vreinterpretq_s8_u32(w.part[i]), activations);
    }
    COLI_SIMD_INLINE I32x16<Arch> sum() const {
      using Part = I32x16<Arch>::Part;
      return {{Part(sum_[0]), Part(sum_[1]), Part(sum_[2]), Part(sum_[3])}};
    }
  };
  static constexpr int kSignedOffset = 0;
  template <int kQuads>
  using SignedByteDot = ByteDot<127, kQuads>;

  static COLI_SIMD_INLINE F32x16<Arch> f16_to_f32(const std::byte* p) {
    return wide(vcvt_f32_f16(half(p)), vcvt_f32_f16(half(p + 8)), vcvt_f32_f16(half(p + 16)), vcvt_f32_f16(half(p + 24)));
  }
  static COLI_SIMD_INLINE F32x16<Arch> bf16_to_f32(const std::byte* p) {
    const auto up = [](const std::byte* q) COLI_SIMD_LAMBDA {
      return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_f16(half(q)), 16));
    };
    return wide(up(p), up(p + 8), up(p + 16), up(p + 24));
  }
  static COLI_SIMD_INLINE void f32_to_f16(const F32x16<Arch>& v, std::byte* p) {
    for (int i = 0; i < 4; ++i) {
      const float16x4_t narrow = vcvt_f16_f32(v.part[i]);
      std::memcpy(p + 8 * i, &narrow, 8);
    }
  }
  static COLI_SIMD_INLINE F32Pair<Arch> split_f16(const U32x16<Arch>& words) {
    const auto low = [](uint32x4_t w) COLI_SIMD_LAMBDA { return vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(w))); };
    const auto high = [](uint32x4_t w) COLI_SIMD_LAMBDA { return vcvt_f32_f16(vreinterpret_f16_u16(vshrn_n_u32(w, 16))); };
    return {wide(low(words.part[0]), low(words.part[1]), low(words.part[2]), low(words.part[3])),
            wide(high(words.part[0]), high(words.part[1]), high(words.part[2]), high(words.part[3]))};
  }
  static COLI_SIMD_INLINE void store_i8(const I32x16<Arch>& v, std::int8_t* p) {
    const int16x8_t low = vcombine_s16(vmovn_s32(v.part[0]), vmovn_s32(v.part[1]));
    const int16x8_t high = vcombine_s16(vmovn_s32(v.part[2]), vmovn_s32(v.part[3]));
    vst1q_s8(p, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
  }
  static COLI_SIMD_INLINE void store_halves(const U32x16<Arch>& words, std::byte* low, std::byte* high) {
    for (int i = 0; i < 4; ++i) {
      const uint16x4_t l = vmovn_u32(words.part[i]), h = vshrn_n_u32(words.part[i], 16);
      std::memcpy(low + 8 * i, &l, 8);
      std::memcpy(high + 8 * i, &h, 8);
    }
  }
  static COLI_SIMD_INLINE void transpose_4x4(const std::byte* const (&row)[4], std::byte* out, std::size_t out_stride) {
    const uint32x4_t a = words(row[0]), b = words(row[1]), c = words(row[2]), d = words(row[3]);
    const uint32x4_t ab_even = vtrn1q_u32(a, b), ab_odd = vtrn2q_u32(a, b);
    const uint32x4_t cd_even = vtrn1q_u32(c, d), cd_odd = vtrn2q_u32(c, d);
    const uint64x2_t columns[4] = {
        vtrn1q_u64(vreinterpretq_u64_u32(ab_even), vreinterpretq_u64_u32(cd_even)),
        vtrn1q_u64(vreinterpretq_u64_u32(ab_odd), vreinterpretq_u64_u32(cd_odd)),
        vtrn2q_u64(vreinterpretq_u64_u32(ab_even), vreinterpretq_u64_u32(cd_even)),
        vtrn2q_u64(vreinterpretq_u64_u32(ab_odd), vreinterpretq_u64_u32(cd_odd))};
    for (std::size_t i = 0; i < 4; ++i) std::memcpy(out + i * out_stride, &columns[i], 16);
  }
  static COLI_SIMD_INLINE float reduce_add(const F32x16<Arch>& v) {
    const float32x4_t by8_low = vaddq_f32(v.part[0], v.part[2]), by8_high = vaddq_f32(v.part[1], v.part[3]);
    const float32x4_t by4 = vaddq_f32(by8_low, by8_high);
    const float32x2_t by2 = vadd_f32(vget_low_f32(by4), vget_high_f32(by4));
    return vget_lane_f32(by2, 0) + vget_lane_f32(by2, 1);
  }
  template <int kDistance>
  static COLI_SIMD_INLINE F32Pair<Arch> apart(const F32x16<Arch>& a, const F32x16<Arch>& b) {
    const auto& x = a.part;
    const auto& y = b.part;
    if constexpr (kDistance == 8) return {wide(x[0], x[1], y[0], y[1]), wide(x[2], x[3], y[2], y[3])};
    else if constexpr (kDistance == 4) return {wide(x[0], x[2], y[0], y[2]), wide(x[1], x[3], y[1], y[3])};
    else if constexpr (kDistance == 2)
      return {wide(pairs<0>(x[0], y[0]), pairs<0>(x[1], y[1]), pairs<0>(x[2], y[2]), pairs<0>(x[3], y[3])),
              wide(pairs<1>(x[0], y[0]), pairs<1>(x[1], y[1]), pairs<1>(x[2], y[2]), pairs<1>(x[3], y[3]))};
    else
      return {wide(vuzp1q_f32(x[0], y[0]), vuzp1q_f32(x[1], y[1]), vuzp1q_f32(x[2], y[2]), vuzp1q_f32(x[3], y[3])),
              wide(vuzp2q_f32(x[0], y[0]), vuzp2q_f32(x[1], y[1]), vuzp2q_f32(x[2], y[2]), vuzp2q_f32(x[3], y[3]))};
  }

 private:
  /// Lanes 0 and 1 (kHigh 0) or 2 and 3 of a, then of b.
  template <int kHigh>
  static COLI_SIMD_INLINE float32x4_t pairs(float32x4_t a, float32x4_t b) {
    return kHigh == 0 ? vcombine_f32(vget_low_f32(a), vget_low_f32(b)) : vcombine_f32(vget_high_f32(a), vget_high_f32(b));
  }
  static COLI_SIMD_INLINE F32x16<Arch> wide(float32x4_t a, float32x4_t b, float32x4_t c, float32x4_t d) {
    using Part = F32x16<Arch>::Part;
    return {{Part(a), Part(b), Part(c), Part(d)}};
  }
  static COLI_SIMD_INLINE uint32x4_t words(const std::byte* p) {
    uint32x4_t w;
    std::memcpy(&w, p, 16);
    return w;
  }
  static COLI_SIMD_INLINE float16x4_t half(const std::byte* p) {
    float16x4_t h;
    std::memcpy(&h, p, 8);
    return h;
  }
};

}  // namespace coli::simd
#endif
