// SPDX-License-Identifier: Apache-2.0
// How does a plain matrix become tiles (tile.hpp)?
//
// A pure permutation of bytes inside each 16 rows; the rows behind the last whole tile are copied. Same size, no
// allocation. `plain` and `prepared` must not overlap. A matrix can be prepared piece by piece and by several threads: a
// piece from row r (a multiple of kPieceRows) is prepared as a matrix of its own, at the same offset.
// Formats without a tile layout are copied.
#pragma once

#include "coli/kernels/simd/dot_float.hpp"
#include "coli/kernels/simd/plain_cursor.hpp"

namespace coli::simd {

template <class Arch, QuantFormat Q>
COLI_SIMD_ENTRY void prepare(const std::byte* plain, std::size_t n_rows, std::size_t n_cols, std::byte* prepared) {
  const std::size_t row_bytes = bytes_of_row<Q>(n_cols);
  const Rows m{plain, Layout::plain, n_rows, n_cols, 0, n_rows};
  std::size_t row = 0;
  if constexpr (has_tile<Q>) {
    for (; row + kTileRows <= n_rows; row += kTileRows) {
      detail::PlainCursor cursor;
      cursor.start(m, row, row_bytes);
      if constexpr (reads_q8<Q>) {
        const std::size_t n_blocks = n_cols / Q::kValuesPerBlock, index = row / kTileRows * n_blocks;
        for (std::size_t b = 0; b < n_blocks; ++b, cursor.advance(Q::kBytesPerBlock))
          detail::permute_block<Arch, Q>(cursor.row, tile_block<Q>(prepared, index + b));
      } else {
        detail::make_panels<Arch, Q>(cursor.row, n_cols, prepared + row * row_bytes);
      }
    }
  }
  __builtin_memcpy(prepared + row * row_bytes, plain + row * row_bytes, (n_rows - row) * row_bytes);
}

}  // namespace coli::simd
