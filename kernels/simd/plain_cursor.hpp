// SPDX-License-Identifier: Apache-2.0
// How are sixteen plain rows walked, and one block of them turned into a tile block?
#pragma once

#include "coli/kernels/simd/leaves.hpp"
#include "coli/kernels/simd/rows.hpp"
#include "coli/kernels/simd/tile.hpp"
#include "coli/kernels/simd/unroll.hpp"

namespace coli::simd::detail {

/// Cursors into 16 plain rows from `first` on; rows that the matrix does not have read as zeros.
struct PlainCursor {
  static constexpr std::size_t kMostBytes = 256;  // that a caller reads before it advances
  const std::byte* row[kTileRows];
  std::size_t there;  // rows [0, there) exist
  alignas(64) std::byte zeros[kMostBytes];

  PlainCursor() = default;
  COLI_SIMD_INLINE void start(const Rows& m, std::size_t first, std::size_t row_bytes) {
    for (std::byte& z : zeros) z = std::byte{0};
    there = m.n_rows - first < kTileRows ? m.n_rows - first : kTileRows;
    for (std::size_t r = 0; r < kTileRows; ++r) row[r] = r < there ? m.weights + (first + r) * row_bytes : zeros;
  }
  PlainCursor(const PlainCursor&) = delete;
  PlainCursor& operator=(const PlainCursor&) = delete;
  COLI_SIMD_INLINE void advance(std::size_t bytes) {
    for (std::size_t r = 0; r < there; ++r) row[r] += bytes;
  }
};

/// Permutes one block of 16 rows; row[r] points to that block of row r.
template <class Arch, class Q>
COLI_SIMD_INLINE void permute_block(const std::byte* const (&row)[kTileRows], const TileBlockAt<std::byte>& to) {
  constexpr TileShape shape = tile_shape<Q>;
  static_assert(shape.n_words != 0 && shape.n_words % 4 == 0);
  for (std::size_t r = 0; r < kTileRows; r += 4)
    unroll<static_cast<int>(shape.n_words / 4)>([&]<int run>() COLI_SIMD_LAMBDA {
      constexpr std::size_t at = shape.words_offset + 16 * run_order<Q>(run);
      Leaf<Arch>::transpose_4x4({row[r] + at, row[r + 1] + at, row[r + 2] + at, row[r + 3] + at}, to.words + 256 * run + 4 * r, 64);
    });
  if constexpr (shape.has_half)
    for (std::size_t r = 0; r < kTileRows; ++r) __builtin_memcpy(to.halves + 2 * r, row[r] + shape.half_offset, 2);
}

/// Writes the lanes that are rows of the matrix.
template <class Arch>
COLI_SIMD_INLINE void store_rows(const F32x16<Arch>& lanes, const Rows& m, std::size_t first, float* out) {
  if (first + kTileRows <= m.n_rows) store(lanes, out + first);
  else store_first(lanes, out + first, m.n_rows - first);
}

}  // namespace coli::simd::detail
