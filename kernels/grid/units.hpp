// SPDX-License-Identifier: Apache-2.0
// What does a lane take of a row at once, and what is it times a vector?
//
// A unit is 16 bytes of quants with what scales them. It is two halves of 16 weights (Q8_0: one half); a half lies under
// one scale and one group of the vector:
//   term = d * (scale * dot)  or  d * (scale * dot) - dmin * (minimum * sum)
// dot and sum are exact integers over the half's 16 products, and so are the products in brackets (below 2^24): two
// roundings a term, and one where it is added, times the vector's scale.
// Weights stay unsigned; formats with an offset take offset * sum off the dot.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "coli/kernels/grid/planes.hpp"
#include "coli/kernels/grid/q8.hpp"

namespace coli::grid {

/// Has format F units of bytes? (Others take f32 vectors.)
template <class F>
inline constexpr bool reads_q8 = std::is_same_v<F, Q4_K> || std::is_same_v<F, Q5_K> || std::is_same_v<F, Q6_K> || std::is_same_v<F, Q8_0> || std::is_same_v<F, Q4_0>;

template <class F>
struct Unit;

namespace detail {

COLI_DEVICE std::uint32_t byte_of(const std::uint32_t* words, std::uint32_t i) { return words[i / 4] >> (8 * (i % 4)) & 0xFFu; }
COLI_DEVICE std::int32_t signed_byte(std::uint32_t byte) { return static_cast<std::int8_t>(byte); }
COLI_DEVICE std::uint16_t low_half(std::uint32_t word) { return static_cast<std::uint16_t>(word & 0xFFFFu); }
COLI_DEVICE std::uint16_t high_half(std::uint32_t word) { return static_cast<std::uint16_t>(word >> 16); }

/// Q4_K and Q5_K. Unit u: block u / 8, bytes [16 j, 16 j + 16) of its nibbles, j = u % 8: low nibbles are values
/// 64 (j / 2) + 16 (j % 2) + i, of group 2 (j / 2); high nibbles the same of the next group.
template <class F>
struct UnitK4 {
  static constexpr std::uint32_t kPerBlock = 8, kHalves = 2;
  static constexpr bool kFive = std::is_same_v<F, Q5_K>;

  std::uint32_t weights[2][4];
  float d, neg_dmin;
  std::int32_t scale[2], minimum[2];

  template <Layout kLayout, Thread T>
  COLI_DEVICE void load(T& t, const RowView<F, kLayout>& row, std::uint32_t unit) {
    const std::uint32_t block = unit / kPerBlock, j = unit % kPerBlock, pair = j / 2;
    const Bytes16 nibbles = row.load16(t, row.template field<0>(block) + 16 * j);
    const Bytes16 head = row.load16(t, row.template field<Planes<F>::kCount - 1>(block));
    Bytes16 fifth{};
    if constexpr (kFive) fifth = row.load16(t, row.template field<1>(block) + 16 * (j % 2));
    for (std::uint32_t i = 0; i < 4; ++i) {
      weights[0][i] = nibbles.word[i] & 0x0F0F'0F0Fu;
      weights[1][i] = nibbles.word[i] >> 4 & 0x0F0F'0F0Fu;
      if constexpr (kFive) {
        const std::uint32_t high = fifth.word[i] >> (2 * pair);
        weights[0][i] |= (high & 0x0101'0101u) << 4;
        weights[1][i] |= (high & 0x0202'0202u) << 3;
      }
    }
    d = t.f16_to_f32(low_half(head.word[0]));
    neg_dmin = -t.f16_to_f32(high_half(head.word[0]));
    // Words 1 to 3 are the 12 packed bytes of quant/k_scales.hpp. Groups 2 pair and 2 pair + 1 are neighbours in a word.
    const std::uint32_t shift = 16 * (pair % 2);
    std::uint32_t scales, minimums;  // two bytes each
    if (pair < 2) {
      scales = head.word[1] >> shift & 0x3F3Fu;
      minimums = head.word[2] >> shift & 0x3F3Fu;
    } else {
      const std::uint32_t low = head.word[3] >> shift;
      scales = (low & 0x0F0Fu) | (head.word[1] >> shift >> 2 & 0x3030u);
      minimums = (low >> 4 & 0x0F0Fu) | (head.word[2] >> shift >> 2 & 0x3030u);
    }
    for (std::uint32_t h = 0; h < 2; ++h) {
      scale[h] = static_cast<std::int32_t>(scales >> (8 * h) & 0xFFu);
      minimum[h] = static_cast<std::int32_t>(minimums >> (8 * h) & 0xFFu);
    }
  }
  static COLI_DEVICE std::uint32_t first(std::uint32_t unit, std::uint32_t half) {
    const std::uint32_t j = unit % kPerBlock;
    return unit / kPerBlock * 256 + 64 * (j / 2) + 32 * half + 16 * (j % 2);
  }
  template <Thread T>
  COLI_DEVICE float term(const T& t, std::uint32_t half, std::int32_t dot, std::int32_t sum) const {
    return t.fma(d, static_cast<float>(scale[half] * dot), neg_dmin * static_cast<float>(minimum[half] * sum));
  }
};

}  // namespace detail

template <>
struct Unit<Q4_K> : detail::UnitK4<Q4_K> {};
template <>
struct Unit<Q5_K> : detail::UnitK4<Q5_K> {};

/// Unit u: block u / 8, bytes [16 j, 16 j + 16) of its nibbles, j = u % 8 = 4 h + 2 r + p: low nibbles are values
/// 128 h + 32 r + 16 p + i, high nibbles those + 64.
template <>
struct Unit<Q6_K> {
  static constexpr std::uint32_t kPerBlock = 8, kHalves = 2;
  std::uint32_t weights[2][4];
  float d;
  std::int32_t scale[2];

  template <Layout kLayout, Thread T>
  COLI_DEVICE void load(T& t, const RowView<Q6_K, kLayout>& row, std::uint32_t unit) {
    const std::uint32_t block = unit / kPerBlock, j = unit % kPerBlock, h = j / 4, r = j / 2 % 2, p = j % 2;
    const Bytes16 nibbles = row.load16(t, row.template field<0>(block) + 16 * j);
    const Bytes16 tops = row.load16(t, row.template field<1>(block) + 32 * h + 16 * p);
    const std::byte* scales = row.template field<2>(block) + 8 * h + 2 * r + p;
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint32_t top = tops.word[i] >> (2 * r);
      weights[0][i] = (nibbles.word[i] & 0x0F0F'0F0Fu) | (top & 0x0303'0303u) << 4;
      weights[1][i] = (nibbles.word[i] >> 4 & 0x0F0F'0F0Fu) | (top & 0x3030'3030u);
    }
    scale[0] = detail::signed_byte(std::to_integer<std::uint32_t>(t.stream(scales)));
    scale[1] = detail::signed_byte(std::to_integer<std::uint32_t>(t.stream(scales + 4)));
    d = t.f16_to_f32(t.stream(reinterpret_cast<const std::uint16_t*>(row.template field<3>(block))));
  }
  static COLI_DEVICE std::uint32_t first(std::uint32_t unit, std::uint32_t half) {
    const std::uint32_t j = unit % kPerBlock;
    return unit / kPerBlock * 256 + 128 * (j / 4) + 64 * half + 32 * (j / 2 % 2) + 16 * (j % 2);
  }
  template <Thread T>
  COLI_DEVICE float term(const T&, std::uint32_t half, std::int32_t dot, std::int32_t sum) const {
    return d * static_cast<float>(scale[half] * (dot - 32 * sum));
  }
};

/// Unit u: quants [16 (u % 2), 16 (u % 2) + 16) of block u / 2.
template <>
struct Unit<Q8_0> {
  static constexpr std::uint32_t kPerBlock = 2, kHalves = 1;
  std::uint32_t weights[1][4];
  float d;

  template <Layout kLayout, Thread T>
  COLI_DEVICE void load(T& t, const RowView<Q8_0, kLayout>& row, std::uint32_t unit) {
    const Bytes16 quants = row.load16(t, row.template field<0>(unit / 2) + 16 * (unit % 2));
    for (std::uint32_t i = 0; i < 4; ++i) weights[0][i] = quants.word[i];
    d = t.f16_to_f32(t.stream(reinterpret_cast<const std::uint16_t*>(row.template field<1>(unit / 2))));
  }
  static COLI_DEVICE std::uint32_t first(std::uint32_t unit, std::uint32_t) { return 16 * unit; }
  template <Thread T>
  COLI_DEVICE float term(const T&, std::uint32_t, std::int32_t dot, std::int32_t) const {
    return d * static_cast<float>(dot);
  }
};

/// Unit u: block u; low nibbles are its first 16 values, high nibbles the last 16.
template <>
struct Unit<Q4_0> {
  static constexpr std::uint32_t kPerBlock = 1, kHalves = 2;
  std::uint32_t weights[2][4];
  float d;

  template <Layout kLayout, Thread T>
  COLI_DEVICE void load(T& t, const RowView<Q4_0, kLayout>& row, std::uint32_t unit) {
    const Bytes16 nibbles = row.load16(t, row.template field<0>(unit));
    for (std::uint32_t i = 0; i < 4; ++i) {
      weights[0][i] = nibbles.word[i] & 0x0F0F'0F0Fu;
      weights[1][i] = nibbles.word[i] >> 4 & 0x0F0F'0F0Fu;
    }
    d = t.f16_to_f32(t.stream(reinterpret_cast<const std::uint16_t*>(row.template field<1>(unit))));
  }
  static COLI_DEVICE std::uint32_t first(std::uint32_t unit, std::uint32_t half) { return 32 * unit + 16 * half; }
  template <Thread T>
  COLI_DEVICE float term(const T&, std::uint32_t, std::int32_t dot, std::int32_t sum) const {
    return d * static_cast<float>(dot - 8 * sum);
  }
};

}  // namespace coli::grid
