// SPDX-License-Identifier: Apache-2.0
// In which form do products with block formats read their vectors, and how does a warp make it?
//
// 8 bits a value, once a vector, whatever the number of matrices and experts that use it:
//   value[i] = group[i / 32].scale * quant[i],  |quant| <= 127
// scale = max|x| / 127 of 32 values, quant = round(x * (127 / max|x|)), to nearest, ties to even. A group whose scale would
// be subnormal becomes zero; one that holds a NaN or an infinity gets scale NaN, so that all that reads it is NaN.
// quants [n_rows, dim] and groups [n_rows, dim / 32] lie in two arrays: lanes load 16 neighbouring bytes each.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "coli/core/fixed_name.hpp"
#include "coli/kernels/grid/thread.hpp"

namespace coli::grid {

inline constexpr std::uint32_t kQ8Group = 32;
static_assert(kQ8Group == kWarp, "a warp quantises a group, a value a lane");

/// `sums`: of the first 16 quants in the low half, of the last 16 in the high half, as int16: what a format's minimums and
/// offsets multiply.
struct alignas(8) Q8Group {
  float scale;
  std::uint32_t sums;
};

/// Rows of `dim` values (a multiple of 32). Null quants: none are wanted.
struct Q8Rows {
  std::byte* quants = nullptr;  // aligned to 16
  Q8Group* groups = nullptr;
  std::uint32_t dim = 0;
};

constexpr std::size_t q8_bytes(std::size_t n_rows, std::size_t dim) { return n_rows * (dim + dim / kQ8Group * sizeof(Q8Group)); }
/// Both arrays one behind the other, from `at` (aligned to 16).
inline Q8Rows q8_rows(std::byte* at, std::size_t n_rows, std::uint32_t dim) {
  return {at, reinterpret_cast<Q8Group*>(at + n_rows * dim), dim};
}

/// Quantises values [index, index + 32) of a row, one a lane, index of lane 0 a multiple of 32; the whole warp calls it.
template <Thread T>
COLI_DEVICE void quantise_lane(T& t, float x, const Q8Rows& out, std::size_t row, std::uint32_t index) {
  constexpr float kSmallestNormal = 0x1p-126f, kToInteger = 0x1.8p+23f;
  const float magnitude = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0x7FFF'FFFFu);
  const float most = t.reduce_warp(magnitude, Largest{});
  const bool is_finite = std::bit_cast<std::uint32_t>(most) < 0x7F80'0000u;
  float scale = most / 127.0f;
  float inverse = 127.0f / most;
  if (scale < kSmallestNormal) scale = inverse = 0;
  // Adding 1.5 * 2^23 leaves the nearest whole number in the low bits.
  const std::int32_t quant = is_finite ? static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(x * inverse + kToInteger) - 0x4B40'0000u) : 0;
  std::int32_t sum = quant;
  for (std::uint32_t mask = 1; mask < kQ8Group / 2; mask *= 2) sum += t.shuffle_xor(sum, mask);
  const std::int32_t other = t.shuffle_xor(sum, kQ8Group / 2);
  t.store(out.quants + row * out.dim + index, static_cast<std::byte>(quant & 0xFF));
  if (t.lane() == 0) {
    const std::uint32_t sums = (static_cast<std::uint32_t>(sum) & 0xFFFFu) | static_cast<std::uint32_t>(other) << 16;
    t.store(out.groups + (row * out.dim + index) / kQ8Group, Q8Group{is_finite ? scale : std::bit_cast<float>(0x7FC0'0000u), sums});
  }
}

/// x [n_rows, dim] in 8 bits. A thread a value.
struct Quantise {
  static constexpr FixedName name{"quantise"};
  using Shared = NoShared;

  const float* x;
  Q8Rows out;

  static constexpr LaunchShape shape(std::uint32_t n_rows, std::uint32_t dim) {
    constexpr std::uint32_t kMost = 256;
    return dim <= kMost ? LaunchShape{1, n_rows, dim} : LaunchShape{(dim + kMost - 1) / kMost, n_rows, kMost};
  }

  template <Thread T>
  COLI_DEVICE void operator()(T& t, Shared&) const {
    const std::uint32_t i = t.block().x * t.n_threads() + t.thread();
    if (i >= out.dim) return;  // whole warps
    const std::size_t row = t.block().y;
    quantise_lane(t, t.load(x + row * out.dim + i), out, row, i);
  }
};

}  // namespace coli::grid
