// SPDX-License-Identifier: Apache-2.0
// How do weights lie in a device's memory, and where are the parts of one block?
//
// plain: as in GGUF. prepared: the same bytes in tiles of 16 rows; within a tile the blocks' fields lie apart, field by
// field ("planes"), each [rows of the tile, blocks of a row, bytes of the field]:
//
//   tile 0: [ field 0 of rows 0..15 | field 1 of rows 0..15 | ... ) tile 1: [ field 0 of rows 16..31 | ...
//
// The largest field, the quants, comes first. So every load of a lane is 16 bytes, aligned, and a warp's are neighbours,
// whatever odd size a block has (Q6_K: 210 bytes, Q8_0: 34). A last tile has the rows that are left. Pieces of a matrix
// that start at multiples of 16 rows may be prepared alone: a piece's bytes are its part of the whole.
// Formats without fields worth parting (floats, and those that are decoded whole) are plain either way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "coli/contracts/quant_format.hpp"
#include "coli/kernels/grid/thread.hpp"
#include "coli/quant/format.hpp"
#include "coli/quant/matrix.hpp"

namespace coli::grid {

inline constexpr std::uint32_t kTileRows = 16;

struct Field {
  std::uint32_t offset, bytes;  // in a plain block
};

/// Fields in the order of the planes; they cover the block. (Functions: a device reads no host array by index.)
template <class F>
struct Planes {
  static constexpr std::uint32_t kCount = 1;
  static constexpr Field field(std::uint32_t) { return {0, F::kBytesPerBlock}; }
};
template <>
struct Planes<Q4_K> {  // d, dmin and the packed scales are one load
  static constexpr std::uint32_t kCount = 2;
  static constexpr Field field(std::uint32_t i) { return i == 0 ? Field{Q4_K::kQuantsOffset, 128} : Field{0, 16}; }
};
template <>
struct Planes<Q5_K> {
  static constexpr std::uint32_t kCount = 3;
  static constexpr Field field(std::uint32_t i) { return i == 0 ? Field{Q5_K::kQuantsOffset, 128} : i == 1 ? Field{Q5_K::kHighBitsOffset, 32} : Field{0, 16}; }
};
template <>
struct Planes<Q6_K> {
  static constexpr std::uint32_t kCount = 4;
  static constexpr Field field(std::uint32_t i) {
    return i == 0 ? Field{Q6_K::kQuantsOffset, 128} : i == 1 ? Field{Q6_K::kHighBitsOffset, 64} : i == 2 ? Field{Q6_K::kScalesOffset, 16} : Field{Q6_K::kScaleOffset, 2};
  }
};
template <>
struct Planes<Q8_0> {
  static constexpr std::uint32_t kCount = 2;
  static constexpr Field field(std::uint32_t i) { return i == 0 ? Field{Q8_0::kQuantsOffset, 32} : Field{Q8_0::kScaleOffset, 2}; }
};
template <>
struct Planes<Q4_0> {
  static constexpr std::uint32_t kCount = 2;
  static constexpr Field field(std::uint32_t i) { return i == 0 ? Field{Q4_0::kQuantsOffset, 16} : Field{Q4_0::kScaleOffset, 2}; }
};

template <class F>
consteval bool planes_cover_the_block() {
  std::uint32_t bytes = 0;
  for (std::uint32_t i = 0; i < Planes<F>::kCount; ++i) bytes += Planes<F>::field(i).bytes;
  return bytes == F::kBytesPerBlock;
}
static_assert(planes_cover_the_block<Q4_K>() && planes_cover_the_block<Q5_K>() && planes_cover_the_block<Q6_K>() && planes_cover_the_block<Q8_0>() && planes_cover_the_block<Q4_0>());

/// One row of a matrix in either layout: where is field i of a block?
template <class F, Layout kLayout>
class RowView {
 public:
  static constexpr bool kParted = kLayout == Layout::prepared && Planes<F>::kCount != 1;
  /// May a field's 16 bytes be loaded at once?
  static constexpr bool kWide = kParted || F::kBytesPerBlock % 16 == 0;

  COLI_DEVICE RowView() {}
  COLI_DEVICE RowView(const std::byte* weights, std::uint32_t n_rows, std::uint32_t n_blocks, std::uint32_t row) {
    constexpr std::size_t kBlock = F::kBytesPerBlock;
    if constexpr (kParted) {
      const std::uint32_t first = row / kTileRows * kTileRows;
      const std::uint32_t rows_here = n_rows - first < kTileRows ? n_rows - first : kTileRows;
      const std::byte* plane = weights + std::size_t{first} * n_blocks * kBlock;
      for (std::uint32_t i = 0; i < Planes<F>::kCount; ++i) {
        at_[i] = plane + std::size_t{row - first} * n_blocks * Planes<F>::field(i).bytes;
        plane += std::size_t{rows_here} * n_blocks * Planes<F>::field(i).bytes;
      }
    } else {
      for (std::uint32_t i = 0; i < Planes<F>::kCount; ++i) at_[i] = weights + std::size_t{row} * n_blocks * kBlock + Planes<F>::field(i).offset;
    }
  }

  template <std::uint32_t i>
  COLI_DEVICE const std::byte* field(std::uint32_t block) const {
    return at_[i] + std::size_t{block} * (kParted ? Planes<F>::field(i).bytes : F::kBytesPerBlock);
  }

  /// 16 bytes of a field. Where they are not aligned: eight loads of two, as blocks of odd size allow.
  template <Thread T>
  static COLI_DEVICE Bytes16 load16(T& t, const std::byte* at) {
    if constexpr (kWide) {
      return t.stream(reinterpret_cast<const Bytes16*>(at));
    } else {
      const auto* half = reinterpret_cast<const std::uint16_t*>(at);
      Bytes16 all;
      for (std::uint32_t i = 0; i < 4; ++i) {
        const std::uint32_t low = t.stream(half + 2 * i), high = t.stream(half + 2 * i + 1);
        all.word[i] = low | high << 16;
      }
      return all;
    }
  }

  /// The bytes of a whole block, as the format defines them: block [kBytesPerBlock].
  template <Thread T>
  COLI_DEVICE void gather(T& t, std::uint32_t block, std::byte* bytes) const {
    for (std::uint32_t i = 0; i < Planes<F>::kCount; ++i) {
      const Field f = Planes<F>::field(i);
      const std::byte* from = at_[i] + std::size_t{block} * (kParted ? f.bytes : F::kBytesPerBlock);
      COLI_ROLLED for (std::uint32_t b = 0; b < f.bytes; ++b) bytes[f.offset + b] = t.stream(from + b);
    }
  }

 private:
  const std::byte* at_[Planes<F>::kCount];
};

/// plain -> prepared, on the CPU: n_rows rows that start at a multiple of kTileRows. About the cost of a copy.
template <class F>
void prepare(const std::byte* plain, std::size_t n_rows, std::size_t n_blocks, std::byte* prepared) {
  if constexpr (Planes<F>::kCount == 1) {
    std::memcpy(prepared, plain, n_rows * n_blocks * F::kBytesPerBlock);
  } else {
    for (std::size_t first = 0; first < n_rows; first += kTileRows) {
      const std::size_t n = (n_rows - first < kTileRows ? n_rows - first : kTileRows) * n_blocks;
      const std::byte* tile = plain + first * n_blocks * F::kBytesPerBlock;
      for (std::uint32_t i = 0; i < Planes<F>::kCount; ++i) {
        const Field f = Planes<F>::field(i);
        for (std::size_t b = 0; b < n; ++b, prepared += f.bytes) std::memcpy(prepared, tile + b * F::kBytesPerBlock + f.offset, f.bytes);
      }
    }
  }
}

}  // namespace coli::grid
