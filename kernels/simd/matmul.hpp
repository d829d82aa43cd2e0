// SPDX-License-Identifier: Apache-2.0
// What is Y = W X for rows of a matrix in any weight format and any number of columns?
//
// Sixteen rows (a tile) are sixteen lanes. One loop for one column and for many: a column tile of a few columns is
// unrolled inside the block, so a weight is unpacked once a column tile and, with one column, once at all.
// Every output element is accumulated over its blocks in ascending order by one sequence of operations, whatever the
// number of columns, the row range, the layout and the instruction set (block_dot.hpp, dot_float.hpp).
// Plain rows are permuted block by block into a scratch block in L1 and then take the same path. No allocation.
#pragma once

#include "coli/kernels/simd/dot_float.hpp"
#include "coli/kernels/simd/dot_q4_k.hpp"
#include "coli/kernels/simd/dot_q6_k.hpp"
#include "coli/kernels/simd/dot_q8_0.hpp"
#include "coli/kernels/simd/plain_cursor.hpp"

namespace coli::simd {

namespace detail {

/// Where a tile's weights are when a column tile begins.
enum class Reach : bool { memory, cached };

// One tile [first, first + 16) times kColumns columns, three ways: byte formats, float formats, decoded formats.

template <class Arch, class Q, int kColumns>
struct ByteTile {
  static __attribute__((noinline)) COLI_SIMD_ENTRY void run(const Rows& m, std::size_t first, Reach reach,
                                                            const Q8Block* const* columns, float* const* out) {
    constexpr std::size_t kBlocksPerColumnBlock = Q8Block::kValues / Q::kValuesPerBlock;
    constexpr std::size_t kGroupsPerBlock = Q::kValuesPerBlock / Q8Block::kGroup;
    const std::size_t n_blocks = m.n_cols / Q::kValuesPerBlock;
    const bool in_place = m.layout == Layout::prepared && first + kTileRows <= m.n_rows;
    const std::size_t index = first / kTileRows * n_blocks;
    alignas(64) std::byte scratch[kTileBlockBytes<Q>];
    const TileBlockAt<std::byte> permuted = tile_block<Q>(scratch, 0);
    PlainCursor plain;
    if (!in_place) plain.start(m, first, bytes_of_row<Q>(m.n_cols));

    F32x16<Arch> acc[kColumns];
    unroll<kColumns>([&]<int c>() COLI_SIMD_LAMBDA { acc[c] = zero<Arch>(); });
    for (std::size_t b = 0; b < n_blocks; ++b) {
      TileBlock tile{permuted.words, permuted.halves};
      if (in_place) {
        tile = tile_block<Q>(m.weights, index + b);
        if (kColumns > kColumnsOnMemory && reach == Reach::memory) prefetch_ahead(tile.words, kTileBlockBytes<Q>);
      } else {
        permute_block<Arch, Q>(plain.row, permuted);
        plain.advance(Q::kBytesPerBlock);
      }
      const Q8Block* a[kColumns];
      unroll<kColumns>([&]<int c>() COLI_SIMD_LAMBDA { a[c] = columns[c] + b / kBlocksPerColumnBlock; });
      BlockDot<Q>::template accumulate<Arch, kColumns>(tile, a, static_cast<int>(b % kBlocksPerColumnBlock * kGroupsPerBlock), acc);
    }
    unroll<kColumns>([&]<int c>() COLI_SIMD_LAMBDA { store_rows(acc[c], m, first, out[c]); });
  }
};

template <class Arch, class Q, int kColumns>
struct FloatTile {
  static __attribute__((noinline)) COLI_SIMD_ENTRY void run(const Rows& m, std::size_t first, const float* const* columns,
                                                            float* const* out) {
    const std::size_t row_bytes = bytes_of_row<Q>(m.n_cols);
    ChainSums<Arch, kColumns> sums;
    if (m.layout == Layout::prepared && first + kTileRows <= m.n_rows) {
      add_panels<Arch, Q>(m.weights + first * row_bytes, 0, m.n_cols, columns, sums);
    } else {
      constexpr std::size_t kChunk = PlainCursor::kMostBytes / Q::kBytesPerBlock;
      alignas(64) std::byte panels[16 * PlainCursor::kMostBytes];
      PlainCursor plain;
      plain.start(m, first, row_bytes);
      for (std::size_t k = 0; k < m.n_cols; k += kChunk) {
        const std::size_t n = m.n_cols - k < kChunk ? m.n_cols - k : kChunk;
        make_panels<Arch, Q>(plain.row, n, panels);
        add_panels<Arch, Q>(panels, k, n, columns, sums);
        plain.advance(n * Q::kBytesPerBlock);
      }
    }
    unroll<kColumns>([&]<int c>() COLI_SIMD_LAMBDA { store_rows(sums.template total<c>(), m, first, out[c]); });
  }
};

template <class Arch, int kColumns>
struct DecodedTile {
  static __attribute__((noinline)) COLI_SIMD_ENTRY void run(const Rows& m, std::size_t first, const DecodedFormat& format,
                                                            const float* const* columns, float* const* out) {
    alignas(64) float panels[16 * 256];
    float values[256];
    PlainCursor plain;
    plain.start(m, first, m.n_cols / format.values_per_block * format.bytes_per_block);
    ChainSums<Arch, kColumns> sums;
    for (std::size_t k = 0; k < m.n_cols; k += format.values_per_block) {
      for (std::size_t r = 0; r < kTileRows; ++r) {
        format.decode(plain.row[r], values);
        for (std::size_t i = 0; i < format.values_per_block; ++i) panels[kTileRows * i + r] = values[i];
      }
      add_panels<Arch, F32>(reinterpret_cast<const std::byte*>(panels), k, format.values_per_block, columns, sums);
      plain.advance(format.bytes_per_block);
    }
    unroll<kColumns>([&]<int c>() COLI_SIMD_LAMBDA { store_rows(sums.template total<c>(), m, first, out[c]); });
  }
};

/// Calls run(tile of n columns, first column) for column tiles of even width that cover n_columns.
template <std::size_t kMost, class Run>
COLI_SIMD_INLINE void for_column_tiles(std::size_t n_columns, Run run) {
  const std::size_t n_tiles = (n_columns + kMost - 1) / kMost;
  for (std::size_t t = 0; t < n_tiles; ++t) {
    const std::size_t begin = n_columns * t / n_tiles, width = n_columns * (t + 1) / n_tiles - begin;
    unroll<static_cast<int>(kMost)>([&]<int i>() COLI_SIMD_LAMBDA {
      if (width == i + 1) run.template operator()<i + 1>(begin);
    });
  }
}

}  // namespace detail

/// out[c][r] = row r . columns[c] for r in [row_begin, row_end); out[c] is a whole column and overlaps no input.
template <class Arch, QuantFormat Q>
void matmul_rows(const Rows& m, const activation_of<Q>* const* columns, std::size_t n_columns, float* const* out) {
  constexpr std::size_t kTile = reads_q8<Q> ? Arch::kByteColumns : Arch::kFloatColumns;
  static_assert(has_tile<Q>, "matmul_rows: this format has no kernel of its own; use matmul_rows_decoded");
  for (std::size_t row = m.row_begin; row < m.row_end; row += kTileRows)
    detail::for_column_tiles<kTile>(n_columns, [&]<int kColumns>(std::size_t c) COLI_SIMD_LAMBDA {
      constexpr auto kFirst = detail::Reach::memory, kLater = detail::Reach::cached;
      if constexpr (reads_q8<Q>) detail::ByteTile<Arch, Q, kColumns>::run(m, row, c == 0 ? kFirst : kLater, columns + c, out + c);
      else detail::FloatTile<Arch, Q, kColumns>::run(m, row, columns + c, out + c);
    });
}

/// The same for any other format, always plain: correct, not fast. Order of sums as for F32.
template <class Arch>
void matmul_rows_decoded(const Rows& m, const DecodedFormat& format, const float* const* columns, std::size_t n_columns,
                         float* const* out) {
  for (std::size_t row = m.row_begin; row < m.row_end; row += kTileRows)
    detail::for_column_tiles<Arch::kFloatColumns>(n_columns, [&]<int kColumns>(std::size_t c) COLI_SIMD_LAMBDA {
      detail::DecodedTile<Arch, kColumns>::run(m, row, format, columns + c, out + c);
    });
}

}  // namespace coli::simd
