// SPDX-License-Identifier: Apache-2.0
// Which tokens does each expert serve? The router's choice seen from the experts: counted, scanned, scattered.
//
// Expert e's uses are [first[e], first[e + 1]) of the list, in ascending (token, rank): a stable sort by expert, so that the
// same choice gives the same list. A block an expert: it counts the uses of lower experts, which is where its own begin,
// then goes over the choice a row of threads at a time. Blocks need nothing of each other, and so nothing waits.
#pragma once

#include <cstdint>

#include "coli/core/fixed_name.hpp"
#include "coli/kernels/grid/matmul.hpp"
#include "coli/kernels/grid/thread.hpp"

namespace coli::grid {

struct GroupByExpert {
  static constexpr FixedName name{"group_by_expert"};
  static constexpr std::uint32_t kThreads = 128;
  using Shared = NoShared;

  const std::uint32_t* ids;  // [n_uses]: of use `row` (token row / top_k, rank row % top_k)
  std::uint32_t* first;      // [n_experts + 1]
  Use* uses;                 // [n_uses]
  std::uint32_t n_uses, top_k, n_experts;

  static constexpr LaunchShape shape(std::uint32_t n_experts) { return {n_experts, 1, kThreads}; }

  template <Thread T>
  COLI_DEVICE void operator()(T& t, Shared&) const {
    const std::uint32_t e = t.block().x;
    std::uint32_t n_lower = 0;
    for (std::uint32_t row = t.thread(); row < n_uses; row += kThreads) n_lower += t.load(ids + row) < e ? 1 : 0;
    std::uint32_t at = t.reduce_block(n_lower, Plus{});
    if (t.thread() == 0) t.store(first + e, at);
    for (std::uint32_t begin = 0; begin < n_uses; begin += kThreads) {
      const std::uint32_t row = begin + t.thread();
      const bool is_mine = row < n_uses && t.load(ids + row) == e;
      const Scanned<std::uint32_t> found = t.scan_block(is_mine ? 1u : 0u);
      if (is_mine) t.store(uses + at + found.before, Use{row / top_k, row});
      at += found.all;
    }
    if (e == n_experts - 1 && t.thread() == 0) t.store(first + n_experts, at);
  }
};

}  // namespace coli::grid
