// SPDX-License-Identifier: Apache-2.0
// What does one row of a prepared matrix hold, and how do formats without a kernel reach the kernels?
//
// For the caller's side of the kernel table: compiled for the baseline, not for an instruction set.
#pragma once

#include "coli/kernels/simd/rows.hpp"
#include "coli/kernels/simd/tile.hpp"
#include "coli/quant/format.hpp"

namespace coli::simd {

/// Block `block` of row `row` (in a whole tile) as it was before `prepare`.
template <QuantFormat Q>
void unprepare_block(const std::byte* prepared, std::size_t n_cols, std::size_t row, std::size_t block, std::byte* plain) {
  const std::size_t tile = row / kTileRows, lane = row % kTileRows, index = tile * (n_cols / Q::kValuesPerBlock) + block;
  if constexpr (reads_q8<Q>) extract_block<Q>(tile_block<Q>(prepared, index), lane, plain);
  else __builtin_memcpy(plain, prepared + index * kTileBlockBytes<Q> + lane * Q::kBytesPerBlock, Q::kBytesPerBlock);
}

/// Row `row` as f32 [n_cols].
template <QuantFormat Q>
void decode_row(const Rows& m, std::size_t row, float* values) {
  const std::size_t n_blocks = m.n_cols / Q::kValuesPerBlock;
  const std::size_t first = row / kTileRows * kTileRows;
  const bool tiled = m.layout == Layout::prepared && has_tile<Q> && first + kTileRows <= m.n_rows;
  for (std::size_t b = 0; b < n_blocks; ++b) {
    std::byte block[Q::kBytesPerBlock];
    if (tiled) unprepare_block<Q>(m.weights, m.n_cols, row, b, block);
    else __builtin_memcpy(block, m.weights + row * bytes_of_row<Q>(m.n_cols) + b * Q::kBytesPerBlock, Q::kBytesPerBlock);
    Q::decode(block, values + b * Q::kValuesPerBlock);
  }
}

/// What matmul_rows_decoded needs to know of a format.
inline DecodedFormat decoded_format(Format format) {
  return visit_format(format, []<class F>() { return DecodedFormat{F::kValuesPerBlock, F::kBytesPerBlock, &F::decode}; });
}

}  // namespace coli::simd
