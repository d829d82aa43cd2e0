// SPDX-License-Identifier: Apache-2.0
// How far may a fast kernel be from the exact result? Bounds derived from the operations it states, not measured.
//
// u = 2^-24 is the unit roundoff of f32. A sum or product chain of n roundings is exact up to the factor 1 + e,
// |e| <= gamma_n(n) = n u / (1 - n u) (Higham, "Accuracy and Stability of Numerical Algorithms", section 3.1).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "coli/quant/format.hpp"

namespace coli::test {

inline constexpr double kRoundoff = 0x1p-24;

constexpr double gamma_n(double n_roundings) { return n_roundings * kRoundoff / (1 - n_roundings * kRoundoff); }

/// Float weights: four chains of n_cols / 4 fused steps, then two additions: gamma_n(n_cols / 4 + 3) of sum |w x|.
/// One more rounding for the reference, which is rounded to f32 too.
inline double float_matmul_bound(std::size_t n_cols, double sum_abs) { return gamma_n(static_cast<double>(n_cols) / 4 + 4) * sum_abs; }

/// Byte formats, against the activations as quantised. Integer sums are exact; d * scale and d * minimum are exact floats.
/// A group's term meets: one rounding of weight scale * activation scale (or of scale * sum, for a minimum), then the
/// fused steps that follow it, at most n_groups * (1 or 2). sum_abs is sum |scale q a| + |minimum a| over the elements.
inline double byte_matmul_bound(std::size_t n_groups, bool has_minimum, double sum_abs) {
  return gamma_n(static_cast<double>(n_groups) * (has_minimum ? 2 : 1) + 2) * sum_abs;
}

/// What quantising 32 activations can move one of them: half a step of max|x| / 127, plus the roundings of scale,
/// reciprocal and product (each relative to at most 127 steps).
constexpr double quantise_bound(double largest) { return largest / 254 * (1 + 0x1p-14); }

/// The magnitudes that the terms of a block have before a minimum is taken off: decoding it once without minimums and
/// once without scales. For formats without minimums, |w|.
template <class Q>
void term_magnitudes(const std::byte* block, double* magnitude) {
  float values[Q::kValuesPerBlock];
  if constexpr (requires { Q::kMinOffset; }) {
    std::byte copy[Q::kBytesPerBlock];
    for (int part = 0; part < 2; ++part) {
      std::copy(block, block + Q::kBytesPerBlock, copy);
      block::put_u16(copy + (part == 0 ? Q::kMinOffset : Q::kScaleOffset), 0);
      Q::decode(copy, values);
      for (std::size_t i = 0; i < Q::kValuesPerBlock; ++i)
        magnitude[i] = (part == 0 ? 0.0 : magnitude[i]) + std::abs(static_cast<double>(values[i]));
    }
  } else {
    Q::decode(block, values);
    for (std::size_t i = 0; i < Q::kValuesPerBlock; ++i) magnitude[i] = std::abs(static_cast<double>(values[i]));
  }
}

}  // namespace coli::test
