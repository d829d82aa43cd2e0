// SPDX-License-Identifier: Apache-2.0
// Which vectors stand for these tokens? Rows of the embedding, gathered and decoded exactly.
#pragma once

#include <cstdint>

#include "coli/core/fixed_name.hpp"
#include "coli/kernels/grid/decode.hpp"
#include "coli/kernels/grid/planes.hpp"

namespace coli::grid {

/// A block a token, a thread a weight block.
template <class F, Layout kLayout>
struct Embed {
  static constexpr FixedName name{"embed"};
  using Shared = NoShared;

  const std::byte* weights;    // [n_rows, dim]
  const std::uint32_t* ids;    // [n_tokens], below n_rows
  float* out;                  // [n_tokens, dim]
  std::uint32_t n_rows, dim;

  static constexpr LaunchShape shape(std::uint32_t n_tokens) { return {n_tokens, 1, F::kValuesPerBlock == 1 ? 128u : 32u}; }

  template <Thread T>
  COLI_DEVICE void operator()(T& t, Shared&) const {
    const std::uint32_t n_blocks = dim / std::uint32_t{F::kValuesPerBlock};
    const RowView<F, kLayout> row(weights, n_rows, n_blocks, t.load(ids + t.block().x));
    for (std::uint32_t b = t.thread(); b < n_blocks; b += t.n_threads()) {
      std::byte bytes[F::kBytesPerBlock];
      float values[F::kValuesPerBlock];
      row.gather(t, b, bytes);
      decode<F>(bytes, values);
      COLI_ROLLED for (std::uint32_t i = 0; i < F::kValuesPerBlock; ++i) t.store(out + std::size_t{t.block().x} * dim + std::size_t{b} * F::kValuesPerBlock + i, values[i]);
    }
  }
};

}  // namespace coli::grid
