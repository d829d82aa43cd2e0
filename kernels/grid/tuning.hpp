// SPDX-License-Identifier: Apache-2.0
// How are products spread over a device: rows and vectors a warp, loads under way? Values, by format and by what recurs.
//
// Bits don't depend on them (matmul.hpp). Not measured on a card yet: chosen by registers (no spills, with kernels/cuda's
// compiler for each of its targets) and by bytes that a warp has under way; conformance/device_check reports what they reach.
#pragma once

#include <cstdint>

#include "coli/kernels/grid/matmul.hpp"
#include "coli/quant/format.hpp"

namespace coli::grid {

struct MatmulTuning {
  std::uint32_t rows;     // of a matrix that a warp takes at once
  std::uint32_t columns;  // vectors that share one load of a weight
  std::uint32_t ahead;    // units that a lane has under way
  friend constexpr bool operator==(const MatmulTuning&, const MatmulTuning&) = default;
};

/// `single`: one vector (decode); otherwise many (prefill, and experts of many tokens). A block that is decoded whole fills
/// the registers by itself.
constexpr MatmulTuning matmul_tuning(Format format, bool single) {
  const bool is_decoded = visit_format(format, [&]<class F>() { return !reads_q8<F> && !detail::is_float<F>; });
  if (is_decoded) return {1, 1, 1};
  return single ? MatmulTuning{1, 1, 2} : MatmulTuning{1, 4, 1};
}

namespace detail {
template <class F, bool kSingle>
struct Tuned {
  static constexpr MatmulTuning kTuning = matmul_tuning(*format_named(F::name.view()), kSingle);
  using Body = Matmul<F, Layout::prepared, kTuning.rows, kTuning.columns, kTuning.ahead>;
};
}  // namespace detail

template <class F>
using SingleMatmul = typename detail::Tuned<F, true>::Body;
template <class F>
using BatchMatmul = typename detail::Tuned<F, false>::Body;

}  // namespace coli::grid
