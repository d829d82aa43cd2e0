// SPDX-License-Identifier: Apache-2.0
// How do sixteen rows lie in memory so that a vector lane is a row?
//
// A tile is 16 adjacent rows. Its blocks are permuted one by one (a tile block: the same block of all 16 rows) and
// follow each other; the whole has the size of the 16 plain rows. Inside a tile block, the block's 32-bit words are
// transposed: word 0 of rows 0-15, word 1 of rows 0-15, ... One 64-byte load brings 4 quants of each row, the packed
// scales of each row, and so on; sums end up one a lane, so nothing is ever added across lanes. Words come in the order
// in which the kernel reads them (4-word runs may change places: Q6_K), since hardware prefetches only straight streams.
//
// A block that is not whole words has a 2-byte scale apart from its words: 16 adjacent halves, after the words in even
// tile blocks and before them in odd ones, so that words start at a multiple of 64 bytes whenever the matrix does.
//   Q4_K  [ 36 x 64 words ]                Q6_K  even [ 52 x 64 words | 16 d ]   odd [ 16 d | 52 x 64 words ]
// F32, F16, BF16: a block is one value; tile block k is the 16 values of column k, a panel.
// Rows behind the last whole tile stay plain. Pure permutation, same offsets of tiles as of rows: a matrix can be
// permuted in pieces as it is read, pieces that start at multiples of 32 rows (so that even tile blocks stay even).
#pragma once

#include <cstddef>

#include "coli/kernels/simd/activation.hpp"
#include "coli/kernels/simd/attributes.hpp"
#include "coli/quant/bf16.hpp"
#include "coli/quant/f16.hpp"
#include "coli/quant/f32.hpp"

namespace coli::simd {

inline constexpr std::size_t kTileRows = 16;
inline constexpr std::size_t kPieceRows = 32;  // where a piece may start that is prepared by itself

/// Where a format's words and its half lie in a plain block. Tile words 4 i .. 4 i + 3 are the block's words
/// 4 run_order<Q>(i) and following.
struct TileShape {
  std::size_t n_words;       // 0: the format has no tile layout
  std::size_t words_offset;  // bytes
  bool has_half;
  std::size_t half_offset;
};
template <class Q>
inline constexpr TileShape tile_shape{0, 0, false, 0};
template <>
inline constexpr TileShape tile_shape<Q4_K>{36, 0, false, 0};
template <>
inline constexpr TileShape tile_shape<Q5_K>{44, 0, false, 0};
template <>
inline constexpr TileShape tile_shape<Q6_K>{52, 0, true, Q6_K::kScaleOffset};
template <>
inline constexpr TileShape tile_shape<Q8_0>{8, Q8_0::kQuantsOffset, true, Q8_0::kScaleOffset};
template <>
inline constexpr TileShape tile_shape<Q4_0>{4, Q4_0::kQuantsOffset, true, Q4_0::kScaleOffset};

template <class Q>
constexpr std::size_t run_order(std::size_t run) noexcept {
  return run;
}
/// Scales; then for each half and each 16 of its 32 columns: tops, nibbles of values 0-31 (and 64-95), of 32-63 (96-127).
template <>
constexpr std::size_t run_order<Q6_K>(std::size_t run) noexcept {
  constexpr std::size_t kTops = 8, kScales = 12;
  if (run == 0) return kScales;
  const std::size_t half = (run - 1) / 6, part = (run - 1) / 3 % 2, which = (run - 1) % 3;
  return which == 0 ? kTops + 2 * half + part : 4 * half + 2 * (which - 1) + part;
}

/// Formats whose weights are floats: a tile block is one column, sixteen adjacent values.
template <class Q>
inline constexpr bool is_float = std::is_same_v<Q, F32> || std::is_same_v<Q, F16> || std::is_same_v<Q, BF16>;
template <class Q>
inline constexpr bool has_tile = reads_q8<Q> || is_float<Q>;

template <class Q>
inline constexpr std::size_t kTileBlockBytes = kTileRows * Q::kBytesPerBlock;
template <class Q>
inline constexpr std::size_t kWordsBytes = 64 * tile_shape<Q>.n_words;

/// One block of sixteen rows.
template <class Byte>
struct TileBlockAt {
  Byte* words;   // [n_words][16 rows] of 4 bytes
  Byte* halves;  // [16 rows] of 2 bytes, where the format has them
};
using TileBlock = TileBlockAt<const std::byte>;

/// Tile block `index` (tile * blocks_per_row + block) of a prepared matrix.
template <class Q, class Byte>
COLI_SIMD_INLINE TileBlockAt<Byte> tile_block(Byte* prepared, std::size_t index) {
  Byte* at = prepared + index * kTileBlockBytes<Q>;
  if constexpr (!tile_shape<Q>.has_half) return {at, at};
  const std::size_t before = index % 2 * (2 * kTileRows), after = (1 - index % 2) * kWordsBytes<Q>;
  return {at + before, at + after};
}

/// The inverse for one row: copies its plain block out of a tile block. Format decoding of single rows, and tests.
template <class Q>
void extract_block(const TileBlock& from, std::size_t row, std::byte* block) noexcept {
  constexpr TileShape shape = tile_shape<Q>;
  for (std::size_t w = 0; w < shape.n_words; ++w)
    __builtin_memcpy(block + shape.words_offset + 16 * run_order<Q>(w / 4) + 4 * (w % 4), from.words + 64 * w + 4 * row, 4);
  if constexpr (shape.has_half) __builtin_memcpy(block + shape.half_offset, from.halves + 2 * row, 2);
}

}  // namespace coli::simd
