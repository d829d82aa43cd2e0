// SPDX-License-Identifier: Apache-2.0
// By how much does each position turn each pair of a head? Angles in f64, rounded once.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace coli {

/// Rotary embedding, NEOX pairing (value i with i + head_dim / 2): angle = position * base^(-2 i / head_dim).
/// Source: Su et al., RoFormer, arXiv 2104.09864; pairing as in GPT-NeoX.
class RopeTable {
 public:
  RopeTable() = default;
  RopeTable(double base, std::uint32_t head_dim) {
    for (std::uint32_t i = 0; i < head_dim / 2; ++i) frequencies_.push_back(std::pow(base, -2.0 * i / head_dim));
  }

  /// Writes head_dim values: the cosines of one position, then its sines.
  void fill(std::uint32_t position, float* cos_sin) const {
    const std::size_t half = frequencies_.size();
    for (std::size_t i = 0; i < half; ++i) {
      const double angle = position * frequencies_[i];
      cos_sin[i] = static_cast<float>(std::cos(angle));
      cos_sin[half + i] = static_cast<float>(std::sin(angle));
    }
  }

 private:
  std::vector<double> frequencies_;  // [head_dim / 2]
};

}  // namespace coli
