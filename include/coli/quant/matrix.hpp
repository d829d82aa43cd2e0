// SPDX-License-Identifier: Apache-2.0
// Where is a weight matrix and how are its bytes laid out? A view; somebody else owns the bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coli/core/bytes.hpp"
#include "coli/quant/format.hpp"

namespace coli {

/// plain: as in GGUF, row after row. prepared: as the backend's `prepare` permuted it (same bytes, same size).
enum class Layout : std::uint8_t { plain, prepared };

/// weights [n_rows, n_cols]; a row is whole blocks of `format`.
struct Matrix {
  Format format = Format::f32;
  Layout layout = Layout::plain;
  std::uint32_t n_rows = 0;
  std::uint32_t n_cols = 0;
  const std::byte* data = nullptr;

  Bytes bytes() const noexcept { return Bytes{row_bytes(format, n_cols)} * n_rows; }
};

}  // namespace coli
