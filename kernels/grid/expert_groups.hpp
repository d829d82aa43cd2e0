// SPDX-License-Identifier: Apache-2.0
// Which matrices does a layer multiply, now that its experts are chosen? The router's choice, on the device, becomes the
// groups of three products (matmul.hpp), without the host.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coli/core/fixed_name.hpp"
#include "coli/kernels/grid/matmul.hpp"
#include "coli/kernels/grid/thread.hpp"

namespace coli::grid {

/// Groups are rows of a launch, two an expert.
inline constexpr std::uint32_t kMostExperts = LaunchShape::kMostBlocksY / 2;

/// Where an expert's matrices lie on the device; null: not there.
struct ExpertAddress {
  const std::byte* gate;
  const std::byte* up;
  const std::byte* down;
};

/// Two ways. One token: `ids` [n_groups] are its choices, group i serves rank i. Many: `ids` is null and group i is expert
/// i, with the uses that GroupByExpert found for it. An expert that is not there gets no uses: its rows are not written.
/// gate [n_groups] and up behind it; gate and up read token, write row; down reads and writes row.
struct ExpertGroups {
  static constexpr FixedName name{"expert_groups"};
  using Shared = NoShared;

  const ExpertAddress* table;  // [n_experts] of the layer
  const std::uint32_t* ids;
  const std::uint32_t* first;  // [n_experts + 1], where ids is null
  Use* uses;                   // read where ids is null, else written
  Use* down_uses;
  MatmulGroup* gate;           // [2 * n_groups]
  MatmulGroup* down;           // [n_groups]
  float* gate_out;             // [uses, ffn]
  float* up_out;               // [uses, ffn]
  float* down_out;             // [uses, hidden]
  std::uint32_t n_groups, n_experts, ffn, hidden;

  static constexpr LaunchShape shape(std::uint32_t n_groups) { return {(n_groups + kWarp - 1) / kWarp, 1, kWarp}; }

  template <Thread T>
  COLI_DEVICE void operator()(T& t, Shared&) const {
    const std::uint32_t i = t.block().x * t.n_threads() + t.thread();
    if (i >= n_groups) return;
    const std::uint32_t expert = ids != nullptr ? t.load(ids + i) : i;
    // A choice among logits that are not finite may be no expert at all; the pass fails, and until then nothing is read.
    const ExpertAddress at = expert < n_experts ? t.load(table + expert) : ExpertAddress{nullptr, nullptr, nullptr};
    const std::uint32_t begin = ids != nullptr ? i : t.load(first + i);
    const std::uint32_t n_uses = at.gate == nullptr ? 0 : ids != nullptr ? 1 : t.load(first + i + 1) - begin;
    if (ids != nullptr) t.store(uses + i, Use{0, i});
    for (std::uint32_t u = begin; u < begin + n_uses; ++u) {
      const std::uint32_t row = ids != nullptr ? i : t.load(uses + u).row;
      t.store(down_uses + u, Use{row, row});
    }
    t.store(gate + i, MatmulGroup{at.gate, gate_out, ffn, begin, n_uses});
    t.store(gate + n_groups + i, MatmulGroup{at.up, up_out, ffn, begin, n_uses});
    t.store(down + i, MatmulGroup{at.down, down_out, hidden, begin, n_uses});
  }
};

/// Writes a few groups where products can read them: the parameters of a launch are the only message that needs no copy.
struct SetGroups {
  static constexpr FixedName name{"set_groups"};
  using Shared = NoShared;
  static constexpr std::uint32_t kMost = 3;

  MatmulGroup groups[kMost];
  MatmulGroup* to;
  std::uint32_t n;

  static constexpr LaunchShape shape() { return {1, 1, kWarp}; }

  template <Thread T>
  COLI_DEVICE void operator()(T& t, Shared&) const {
    for (std::uint32_t i = 0; i < kMost; ++i)  // by constant index: parameters live in registers
      if (t.thread() == i && i < n) t.store(to + i, groups[i]);
  }
};

}  // namespace coli::grid
