// SPDX-License-Identifier: Apache-2.0
// What are the products of many matrices with the vectors that use them (kernels/ref/matvec.hpp: the definition)?
//
// One launch takes a list of groups: a group is a matrix and the (vector, output row) pairs that it serves. The experts
// of a layer, or q, k and v of one format, are one launch; a dense product is one group of all vectors.
// A warp takes kRows rows of a group and runs over the columns in units (units.hpp), a unit a lane, 32 units at a time:
// neighbouring lanes load neighbouring 16 bytes of weights, kAhead units before the first is used. It goes over the
// group's vectors kColumns at a time, each weight loaded and unpacked once for them.
//
// Order of one output element, whatever kRows, kColumns, the layout, the group and the launch: lane l adds its units
// l, l + 32, ... in ascending order, halves ascending, in one chain of fused steps; reduce_warp adds the lanes.
// So a batch is its vectors one by one, and prepared is plain, bit for bit. With n = ceil(units / 32) * halves:
//   bytes:  |y - sum w x'| <= gamma(n + 8) * sum |term magnitudes|, x' the quantised vector
//   floats: |y - sum w x|  <= gamma(n * values of a unit + 6) * sum |w x|
// No shared memory, no barriers: warps are independent.
#pragma once

#include <cstdint>
#include <type_traits>

#include "coli/core/fixed_name.hpp"
#include "coli/kernels/grid/decode.hpp"
#include "coli/kernels/grid/planes.hpp"
#include "coli/kernels/grid/q8.hpp"
#include "coli/kernels/grid/units.hpp"
#include "coli/quant/format.hpp"

namespace coli::grid {

/// One use of a matrix: vector `token` of the input, row `row` of the output.
struct Use {
  std::uint32_t token;
  std::uint32_t row;
  friend constexpr bool operator==(const Use&, const Use&) = default;
};

/// A matrix [n_rows, n_cols] in the launch's format and layout (aligned to 16) and whom it serves: uses
/// [first_use, first_use + n_uses) of the launch's list; where that list is null, vectors and rows 0 .. n_uses - 1.
/// out [rows, n_rows].
struct MatmulGroup {
  const std::byte* weights;
  float* out;
  std::uint32_t n_rows;
  std::uint32_t first_use, n_uses;
};

/// Vectors as a format reads them: rows of 8 bits, or of floats (aligned to 16 where a row is a multiple of 4).
template <class F>
using Vectors = std::conditional_t<reads_q8<F>, Q8Rows, const float*>;

inline constexpr std::uint32_t kMatmulWarps = 4;  // a block

namespace detail {

/// What one lane knows of kRows rows and kColumns vectors while it adds up.
template <class F, Layout kLayout, std::uint32_t kRows, std::uint32_t kColumns>
struct Accumulator {
  RowView<F, kLayout> row[kRows];
  float sum[kRows][kColumns];
};

/// Formats of bytes.
template <class F, Layout kLayout, std::uint32_t kRows, std::uint32_t kColumns, std::uint32_t kAhead, Thread T>
COLI_DEVICE void accumulate_q8(T& t, Accumulator<F, kLayout, kRows, kColumns>& a, const Q8Rows& x, const std::uint32_t (&token)[kColumns]) {
  const std::uint32_t n_units = x.dim / std::uint32_t{F::kValuesPerBlock} * Unit<F>::kPerBlock;
  for (std::uint32_t first = t.lane(); first < n_units; first += kWarp * kAhead) {
    Unit<F> units[kAhead][kRows];
    unroll<kAhead>([&](auto i) {
      if (first + kWarp * i < n_units) unroll<kRows>([&](auto r) { units[i][r].template load<kLayout>(t, a.row[r], first + kWarp * i); });
    });
    unroll<kAhead>([&](auto i) {
      const std::uint32_t unit = first + kWarp * i;
      if (unit >= n_units) return;
      unroll<Unit<F>::kHalves>([&](auto h) {
        decltype(units[0][0].half(t, 0, 0)) half[kRows];
        unroll<kRows>([&](auto r) { half[r] = units[i][r].half(t, unit, h); });
        const std::uint32_t at = Unit<F>::first(unit, h);
        unroll<kColumns>([&](auto c) {
          const std::size_t begin = std::size_t{token[c]} * x.dim + at;
          const Bytes16 values = t.load(reinterpret_cast<const Bytes16*>(x.quants + begin));
          const Q8Group group = t.load(x.groups + begin / kQ8Group);
          const auto sum16 = static_cast<std::int32_t>(static_cast<std::int16_t>(at % kQ8Group == 0 ? group.sums & 0xFFFFu : group.sums >> 16));
          unroll<kRows>([&](auto r) {
            std::int32_t dot = 0;
            unroll<4>([&](auto w) { dot = t.dot4(half[r].weights[w], values.word[w], dot); });
            a.sum[r][c] = t.fma(group.scale, half[r].term(t, dot, sum16), a.sum[r][c]);
          });
        });
      });
    });
  }
}

/// F32, F16, BF16: 16 bytes of a row a unit, or single values where rows are not whole units.
template <class F, Layout kLayout, std::uint32_t kRows, std::uint32_t kColumns, Thread T>
COLI_DEVICE void accumulate_float(T& t, Accumulator<F, kLayout, kRows, kColumns>& a, const float* x, std::uint32_t n_cols, const std::uint32_t (&token)[kColumns]) {
  constexpr std::uint32_t kValues = 16 / F::kBytesPerBlock;
  const auto value = [&](std::uint32_t bits) -> float {
    if constexpr (std::is_same_v<F, F32>) return std::bit_cast<float>(bits);
    else if constexpr (std::is_same_v<F, F16>) return t.f16_to_f32(static_cast<std::uint16_t>(bits));
    else return std::bit_cast<float>(bits << 16);
  };
  const bool whole = n_cols % kValues == 0;
  for (std::uint32_t first = t.lane() * kValues; first < n_cols; first += kWarp * kValues) {
    float w[kRows][kValues];
    unroll<kRows>([&](auto r) {
      const std::byte* at = a.row[r].template field<0>(first);
      if (whole) {
        const Bytes16 all = t.stream(reinterpret_cast<const Bytes16*>(at));
        unroll<kValues>([&](auto i) {
          if constexpr (kValues == 4) w[r][i] = value(all.word[i]);
          else w[r][i] = value((all.word[i / 2] >> (16 * (i % 2))) & 0xFFFFu);
        });
      } else {
        using Bits = std::conditional_t<kValues == 4, std::uint32_t, std::uint16_t>;
        unroll<kValues>([&](auto i) { w[r][i] = first + i < n_cols ? value(t.stream(reinterpret_cast<const Bits*>(at) + i)) : 0; });
      }
    });
    unroll<kColumns>([&](auto c) {
      const float* from = x + std::size_t{token[c]} * n_cols + first;
      unroll<kValues / 4>([&](auto four) {
        Float4 v{};
        if (whole) v = t.load(reinterpret_cast<const Float4*>(from) + four);
        else unroll<4>([&](auto i) {
          if (first + 4 * four + i < n_cols) v.value[i] = t.load(from + 4 * four + i);
        });
        unroll<kRows>([&](auto r) { unroll<4>([&](auto i) { a.sum[r][c] = t.fma(w[r][4 * four + i], v.value[i], a.sum[r][c]); }); });
      });
    });
  }
}

/// Formats without a kernel of their own: a lane decodes a block at a time, exactly, and takes floats. Not tuned.
template <class F, Layout kLayout, std::uint32_t kRows, std::uint32_t kColumns, Thread T>
COLI_DEVICE void accumulate_decoded(T& t, Accumulator<F, kLayout, kRows, kColumns>& a, const float* x, std::uint32_t n_cols, const std::uint32_t (&token)[kColumns]) {
  for (std::uint32_t block = t.lane(); block < n_cols / F::kValuesPerBlock; block += kWarp)
    for (std::uint32_t r = 0; r < kRows; ++r) {
      std::byte bytes[F::kBytesPerBlock];
      float w[F::kValuesPerBlock];
      a.row[r].gather(t, block, bytes);
      decode<F>(bytes, w);
      for (std::uint32_t c = 0; c < kColumns; ++c) {
        const float* from = x + std::size_t{token[c]} * n_cols + block * F::kValuesPerBlock;
        for (std::uint32_t i = 0; i < F::kValuesPerBlock; ++i) a.sum[r][c] = t.fma(w[i], t.load(from + i), a.sum[r][c]);
      }
    }
}

template <class F>
inline constexpr bool is_float = F::kValuesPerBlock == 1;

}  // namespace detail

template <class F, Layout kLayout, std::uint32_t kRows = 1, std::uint32_t kColumns = 1, std::uint32_t kAhead = 2>
struct Matmul {
  static constexpr auto name = FixedName{"matmul "} + F::name;
  using Shared = NoShared;

  const MatmulGroup* groups;
  const Use* uses;  // null: see MatmulGroup
  Vectors<F> x;
  std::uint32_t n_cols;

  /// `most_rows`: of the largest matrix.
  static constexpr LaunchShape shape(std::uint32_t most_rows, std::uint32_t n_groups) {
    constexpr std::uint32_t kRowsOfBlock = kRows * kMatmulWarps;
    return {(most_rows + kRowsOfBlock - 1) / kRowsOfBlock, n_groups, kWarp * kMatmulWarps};
  }

  template <Thread T>
  COLI_DEVICE void operator()(T& t, Shared&) const {
    const MatmulGroup group = t.load(groups + t.block().y);
    const std::uint32_t first_row = (t.block().x * kMatmulWarps + t.warp()) * kRows;
    if (first_row >= group.n_rows) return;  // whole warps
    detail::Accumulator<F, kLayout, kRows, kColumns> a;
    for (std::uint32_t r = 0; r < kRows; ++r)  // rows past the end are computed as the last one, and not stored
      a.row[r] = RowView<F, kLayout>(group.weights, group.n_rows, n_cols / std::uint32_t{F::kValuesPerBlock}, first_row + r < group.n_rows ? first_row + r : group.n_rows - 1);
    for (std::uint32_t first = 0; first < group.n_uses; first += kColumns) {
      Use use[kColumns];
      std::uint32_t token[kColumns];
      for (std::uint32_t c = 0; c < kColumns; ++c) {
        const std::uint32_t i = first + c < group.n_uses ? first + c : group.n_uses - 1;  // likewise
        use[c] = uses != nullptr ? t.load(uses + group.first_use + i) : Use{i, i};
        token[c] = use[c].token;
        for (std::uint32_t r = 0; r < kRows; ++r) a.sum[r][c] = 0;
      }
      if constexpr (reads_q8<F>) detail::accumulate_q8<F, kLayout, kRows, kColumns, kAhead>(t, a, x, token);
      else if constexpr (detail::is_float<F>) detail::accumulate_float<F, kLayout, kRows, kColumns>(t, a, x, n_cols, token);
      else detail::accumulate_decoded<F, kLayout, kRows, kColumns>(t, a, x, n_cols, token);
      for (std::uint32_t r = 0; r < kRows; ++r)
        for (std::uint32_t c = 0; c < kColumns; ++c) {
          const float total = t.reduce_warp(a.sum[r][c], Plus{});
          if (t.lane() == 0 && first_row + r < group.n_rows && first + c < group.n_uses)
            t.store(group.out + std::size_t{use[c].row} * group.n_rows + first_row + r, total);
        }
    }
  }
};

}  // namespace coli::grid
