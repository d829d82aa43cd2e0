// SPDX-License-Identifier: Apache-2.0
// What does one routed expert compute? down(silu(gate x) * up x), on one core, for the tokens that chose it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "coli/contracts/cpu_kernels.hpp"
#include "coli/core/error.hpp"
#include "coli/moe/routing.hpp"

namespace coli {

/// The three matrices of an expert. gate, up [ffn, hidden]; down [hidden, ffn].
struct ExpertMatrices {
  Matrix gate, up, down;
};

/// Tokens that go through an expert together: bounds a worker's scratch; weights are read once per pass.
inline constexpr std::uint32_t kExpertPass = 64;

/// A worker's private memory for expert_ffn: views into the backend's scratch.
struct ExpertScratch {
  float* gate;            // [kExpertPass, ffn]
  float* up;              // [kExpertPass, ffn]
  std::byte* quantised;   // [kExpertPass, quantised_bytes(ffn)]
};

/// Runs one expert for `uses`; input[token] is its activation, out rows [n_tokens * top_k, hidden] are written at
/// use.row. No output is shared with another expert, so experts may run in any order and on any core.
/// Gate and up are computed before `down_bytes()` is asked for the down matrix: it may still be on its way from disk.
/// Errors: those of `down_bytes()`.
template <CpuKernels K, class DownBytes>
Result<void> expert_ffn(const K& kernels, ExpertMatrices w, std::span<const ExpertBatches::Use> uses, const Activation* input, float* out,
                        const ExpertScratch& scratch, DownBytes&& down_bytes) {
  const std::uint32_t ffn = w.gate.n_rows;
  const std::size_t quantised_bytes = kernels.quantised_bytes(ffn);
  Activation columns[kExpertPass];
  float* gate[kExpertPass];
  float* up[kExpertPass];
  float* down[kExpertPass];
  for (std::size_t first = 0; first < uses.size(); first += kExpertPass) {
    const auto n = static_cast<std::uint32_t>(std::min<std::size_t>(kExpertPass, uses.size() - first));
    for (std::uint32_t c = 0; c < n; ++c) {
      columns[c] = input[uses[first + c].token];
      gate[c] = scratch.gate + std::size_t{c} * ffn;
      up[c] = scratch.up + std::size_t{c} * ffn;
      down[c] = out + std::size_t{uses[first + c].row} * w.down.n_rows;
    }
    kernels.matmul_rows(w.gate, 0, ffn, columns, n, gate);
    kernels.matmul_rows(w.up, 0, ffn, columns, n, up);
    for (std::uint32_t c = 0; c < n; ++c) {
      kernels.swiglu(gate[c], up[c], ffn, gate[c]);
      columns[c] = {gate[c], nullptr};
      if (kernels.quantises(w.down.format)) {
        std::byte* quantised = scratch.quantised + c * quantised_bytes;
        kernels.quantise(gate[c], ffn, quantised);
        columns[c].quantised = quantised;
      }
    }
    if (first == 0) {
      COLI_TRY(bytes, down_bytes());
      w.down.data = bytes;
    }
    kernels.matmul_rows(w.down, 0, w.down.n_rows, columns, n, down);
  }
  return {};
}

}  // namespace coli
