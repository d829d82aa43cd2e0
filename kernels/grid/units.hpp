// SPDX-License-Identifier: Apache-2.0
// What does a lane take of a row at once, and what is it times a vector?
//
// A unit is 16 bytes of quants with what scales them. It is two halves of 16 weights (Q8_0: one half); a half lies under
// one scale and one group of the vector:
//   term = d * (scale * dot)  or  d * (scale * dot) - dmin * (minimum * sum)
// dot and sum are exact integers over the half's 16 products, and so are the products in brackets (below 2^24): two
// roundings a term, and one where it is added, times the vector's scale.
// Weights stay unsigned; formats with an offset take offset * sum off the dot. A unit keeps the bytes as they were loaded,
// so that many loads are under way in few registers; `half` unpacks.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "coli/kernels/grid/planes.hpp"
#include "coli/kernels/grid/q8.hpp"

namespace coli::grid {

/// Has format F units of bytes? (Others take f32 vectors.)
template <class F>
inline constexpr bool reads_q8 = std::is_same_v<F, Q4_K> || std::is_same_v<F, Q5_K> || std::is_same_v<F, Q6_K> || std::is_same_v<F, Q8_0> || std::is_same_v<F, Q4_0>;

/// Sixteen weights, a byte each, d * scale * (weight - kOffset).
template <std::int32_t kOffset>
struct ScaledHalf {
  std::uint32_t weights[4];
  float d;
  std::int32_t scale;

  template <Thread T>
  COLI_DEVICE float term(const T&, std::int32_t dot, std::int32_t sum) const {
    return d * static_cast<float>(scale * (dot - kOffset * sum));
  }
};

/// d * scale * weight - dmin * minimum.
struct AffineHalf {
  std::uint32_t weights[4];
  float d, neg_dmin;
  std::int32_t scale, minimum;

  template <Thread T>
  COLI_DEVICE float term(const T& t, std::int32_t dot, std::int32_t sum) const {
    return t.fma(d, static_cast<float>(scale * dot), neg_dmin * static_cast<float>(minimum * sum));
  }
};

/// kPerBlock units a block, kHalves halves a unit; load(t, row, u); half(t, u, h); first(u, h): which value is the half's first.
template <class F>
struct Unit;

namespace detail {

COLI_DEVICE std::uint16_t low16(std::uint32_t word) { return static_cast<std::uint16_t>(word & 0xFFFFu); }
COLI_DEVICE std::uint16_t high16(std::uint32_t word) { return static_cast<std::uint16_t>(word >> 16); }
COLI_DEVICE std::uint32_t nibbles_of(std::uint32_t word, std::uint32_t half) { return (word >> (4 * half)) & 0x0F0F'0F0Fu; }

/// Q4_K and Q5_K. Unit u: block u / 8, bytes [16 j, 16 j + 16) of its nibbles, j = u % 8: low nibbles are values
/// 64 (j / 2) + 16 (j % 2) + i, of group 2 (j / 2); high nibbles the same of the next group.
template <class F>
struct UnitK4 {
  static constexpr std::uint32_t kPerBlock = 8, kHalves = 2;
  static constexpr bool kFive = std::is_same_v<F, Q5_K>;
  struct Nothing {};

  Bytes16 nibbles;
  Bytes16 head;  // d, dmin, and the 12 packed bytes of quant/k_scales.hpp
  [[no_unique_address]] std::conditional_t<kFive, Bytes16, Nothing> fifth;

  template <Layout kLayout, Thread T>
  COLI_DEVICE void load(T& t, const RowView<F, kLayout>& row, std::uint32_t unit) {
    const std::uint32_t block = unit / kPerBlock, j = unit % kPerBlock;
    nibbles = row.load16(t, row.template field<0>(block) + 16 * j);
    head = row.load16(t, row.template field<Planes<F>::kCount - 1>(block));
    if constexpr (kFive) fifth = row.load16(t, row.template field<1>(block) + 16 * (j % 2));
  }
  template <Thread T>
  COLI_DEVICE AffineHalf half(const T& t, std::uint32_t unit, std::uint32_t h) const {
    const std::uint32_t group = unit % kPerBlock / 2 * 2 + h, shift = 8 * (group % 4);
    AffineHalf out;
    for (std::uint32_t i = 0; i < 4; ++i) {
      out.weights[i] = nibbles_of(nibbles.word[i], h);
      if constexpr (kFive) out.weights[i] |= ((fifth.word[i] >> group) & 0x0101'0101u) << 4;
    }
    out.d = t.f16_to_f32(low16(head.word[0]));
    out.neg_dmin = -t.f16_to_f32(high16(head.word[0]));
    const std::uint32_t s = head.word[1] >> shift, m = head.word[2] >> shift, low = head.word[3] >> shift;
    out.scale = static_cast<std::int32_t>(group < 4 ? s & 63u : (low & 15u) | ((s >> 2) & 0x30u));
    out.minimum = static_cast<std::int32_t>(group < 4 ? m & 63u : ((low >> 4) & 15u) | ((m >> 2) & 0x30u));
    return out;
  }
  static COLI_DEVICE std::uint32_t first(std::uint32_t unit, std::uint32_t h) {
    const std::uint32_t j = unit % kPerBlock;
    return unit / kPerBlock * 256 + 64 * (j / 2) + 32 * h + 16 * (j % 2);
  }
};

}  // namespace detail

template <>
struct Unit<Q4_K> : detail::UnitK4<Q4_K> {};
template <>
struct Unit<Q5_K> : detail::UnitK4<Q5_K> {};

/// Unit u: block u / 8, bytes [16 j, 16 j + 16) of its nibbles, j = u % 8 = 4 part + 2 r + p: low nibbles are values
/// 128 part + 32 r + 16 p + i, high nibbles those + 64.
template <>
struct Unit<Q6_K> {
  static constexpr std::uint32_t kPerBlock = 8, kHalves = 2;
  using Half = ScaledHalf<32>;

  Bytes16 nibbles, tops;
  std::byte scales[2];
  std::uint16_t d;

  template <Layout kLayout, Thread T>
  COLI_DEVICE void load(T& t, const RowView<Q6_K, kLayout>& row, std::uint32_t unit) {
    const std::uint32_t block = unit / kPerBlock, j = unit % kPerBlock, part = j / 4, r = j / 2 % 2, p = j % 2;
    nibbles = row.load16(t, row.template field<0>(block) + 16 * j);
    tops = row.load16(t, row.template field<1>(block) + 32 * part + 16 * p);
    const std::byte* scale = row.template field<2>(block) + 8 * part + 2 * r + p;
    scales[0] = t.stream(scale), scales[1] = t.stream(scale + 4);
    d = t.stream(reinterpret_cast<const std::uint16_t*>(row.template field<3>(block)));
  }
  template <Thread T>
  COLI_DEVICE Half half(const T& t, std::uint32_t unit, std::uint32_t h) const {
    const std::uint32_t quarter = unit / 2 % 2 + 2 * h;
    Half out;
    for (std::uint32_t i = 0; i < 4; ++i) out.weights[i] = detail::nibbles_of(nibbles.word[i], h) | ((tops.word[i] >> (2 * quarter)) & 0x0303'0303u) << 4;
    out.d = t.f16_to_f32(d);
    out.scale = static_cast<std::int8_t>(scales[h]);
    return out;
  }
  static COLI_DEVICE std::uint32_t first(std::uint32_t unit, std::uint32_t h) {
    const std::uint32_t j = unit % kPerBlock;
    return unit / kPerBlock * 256 + 128 * (j / 4) + 64 * h + 32 * (j / 2 % 2) + 16 * (j % 2);
  }
};

/// Unit u: quants [16 (u % 2), 16 (u % 2) + 16) of block u / 2, signed bytes.
template <>
struct Unit<Q8_0> {
  static constexpr std::uint32_t kPerBlock = 2, kHalves = 1;
  using Half = ScaledHalf<0>;

  Bytes16 quants;
  std::uint16_t d;

  template <Layout kLayout, Thread T>
  COLI_DEVICE void load(T& t, const RowView<Q8_0, kLayout>& row, std::uint32_t unit) {
    quants = row.load16(t, row.template field<0>(unit / 2) + 16 * (unit % 2));
    d = t.stream(reinterpret_cast<const std::uint16_t*>(row.template field<1>(unit / 2)));
  }
  template <Thread T>
  COLI_DEVICE Half half(const T& t, std::uint32_t, std::uint32_t) const {
    return {{quants.word[0], quants.word[1], quants.word[2], quants.word[3]}, t.f16_to_f32(d), 1};
  }
  static COLI_DEVICE std::uint32_t first(std::uint32_t unit, std::uint32_t) { return 16 * unit; }
};

/// Unit u: block u; low nibbles are its first 16 values, high nibbles the last 16.
template <>
struct Unit<Q4_0> {
  static constexpr std::uint32_t kPerBlock = 1, kHalves = 2;
  using Half = ScaledHalf<8>;

  Bytes16 nibbles;
  std::uint16_t d;

  template <Layout kLayout, Thread T>
  COLI_DEVICE void load(T& t, const RowView<Q4_0, kLayout>& row, std::uint32_t unit) {
    nibbles = row.load16(t, row.template field<0>(unit));
    d = t.stream(reinterpret_cast<const std::uint16_t*>(row.template field<1>(unit)));
  }
  template <Thread T>
  COLI_DEVICE Half half(const T& t, std::uint32_t, std::uint32_t h) const {
    Half out{{}, t.f16_to_f32(d), 1};
    for (std::uint32_t i = 0; i < 4; ++i) out.weights[i] = detail::nibbles_of(nibbles.word[i], h);
    return out;
  }
  static COLI_DEVICE std::uint32_t first(std::uint32_t unit, std::uint32_t h) { return 32 * unit + 16 * h; }
};

}  // namespace coli::grid
