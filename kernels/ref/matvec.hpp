// SPDX-License-Identifier: Apache-2.0
// What is y = W x for a matrix in any weight format?
//
// W is [n_rows x n_cols], row after row without padding; a row is whole blocks of Q. x is f32 [n_cols], y f32 [n_rows].
//   y[r] = round_f32( sum over c, ascending, in f64, of decode(W)[r][c] * x[c] )
// Every product of two floats is exact in f64, so only the sum rounds: its error is at most n_cols * 2^-53 of
// sum |w x|. Rows are independent: any split over threads gives the same bits. O(n_rows * n_cols), no allocation.
#pragma once

#include <cassert>
#include <cstddef>

#include "coli/contracts/quant_format.hpp"

namespace coli::ref {

/// Rows [row_begin, row_end) only. `weights` and `y` are those of the whole matrix: y[r] is written for these r.
template <QuantFormat Q>
void matvec_rows(const std::byte* weights, std::size_t row_begin, std::size_t row_end, std::size_t n_cols,
                 const float* x, float* y) noexcept {
  assert(n_cols % Q::kValuesPerBlock == 0);
  const std::size_t blocks_per_row = n_cols / Q::kValuesPerBlock;
  for (std::size_t r = row_begin; r < row_end; ++r) {
    const std::byte* block = weights + r * blocks_per_row * Q::kBytesPerBlock;
    double sum = 0;
    for (std::size_t b = 0; b < blocks_per_row; ++b, block += Q::kBytesPerBlock) {
      float values[Q::kValuesPerBlock];
      Q::decode(block, values);
      for (std::size_t i = 0; i < Q::kValuesPerBlock; ++i)
        sum += static_cast<double>(values[i]) * static_cast<double>(x[b * Q::kValuesPerBlock + i]);
    }
    y[r] = static_cast<float>(sum);
  }
}

template <QuantFormat Q>
void matvec(const std::byte* weights, std::size_t n_rows, std::size_t n_cols, const float* x, float* y) noexcept {
  matvec_rows<Q>(weights, 0, n_rows, n_cols, x, y);
}

}  // namespace coli::ref
