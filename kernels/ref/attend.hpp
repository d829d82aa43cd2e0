// SPDX-License-Identifier: Apache-2.0
// What does one query head see of the positions so far?
//
//   weight[p] = softmax over p of ( q . k[p] / sqrt(head_dim) )
//   out[d]    = round_f32( sum over p, ascending, of weight[p] * v[p][d] )
// Vaswani et al., "Attention Is All You Need", 2017; the causal mask is n_positions itself. All in f64.
// q, out: f32 [head_dim]. k, v: f32 rows of one KV head, row p at p * stride (in floats, so that a cache may keep its
// heads side by side). weights: f64 scratch [n_positions]. n_positions > 0. O(n_positions * head_dim), no allocation.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace coli::ref {

inline void attend(const float* q, const float* k, const float* v, std::size_t n_positions, std::size_t head_dim,
                   std::size_t stride, double* weights, float* out) noexcept {
  const double scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
  for (std::size_t p = 0; p < n_positions; ++p) {
    double dot = 0;
    for (std::size_t d = 0; d < head_dim; ++d)
      dot += static_cast<double>(q[d]) * static_cast<double>(k[p * stride + d]);
    weights[p] = dot * scale;
  }
  const double largest = *std::max_element(weights, weights + n_positions);
  double total = 0;
  for (std::size_t p = 0; p < n_positions; ++p) total += weights[p] = std::exp(weights[p] - largest);
  for (std::size_t d = 0; d < head_dim; ++d) {
    double sum = 0;
    for (std::size_t p = 0; p < n_positions; ++p) sum += weights[p] * static_cast<double>(v[p * stride + d]);
    out[d] = static_cast<float>(sum / total);
  }
}

}  // namespace coli::ref
