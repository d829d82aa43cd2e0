// SPDX-License-Identifier: Apache-2.0
// Which rows of which matrix does a kernel call compute?
#pragma once

#include <cstddef>

#include "coli/contracts/quant_format.hpp"
#include "coli/quant/matrix.hpp"

namespace coli::simd {

/// The range [row_begin, row_end) of a matrix. row_begin is a multiple of 16, row_end too unless it is n_rows; a row is
/// whole blocks. `weights` is the start of the whole matrix.
struct Rows {
  const std::byte* weights;
  Layout layout;
  std::size_t n_rows, n_cols;
  std::size_t row_begin, row_end;
};

template <class Q>
constexpr std::size_t bytes_of_row(std::size_t n_cols) noexcept {
  return n_cols / Q::kValuesPerBlock * Q::kBytesPerBlock;
}

/// A format without a kernel of its own: decoded to f32 by its own definition, which the caller passes in. So kernels
/// instantiate no function that other translation units share.
struct DecodedFormat {
  std::size_t values_per_block, bytes_per_block;  // at most 256 each
  void (*decode)(const std::byte* block, float* values) noexcept;
};

}  // namespace coli::simd
