// SPDX-License-Identifier: Apache-2.0
// Which tokens does each expert serve? The router's choice seen from the experts: counted, scanned, scattered.
//
// Expert e's uses are [first[e], first[e + 1]) of the list, in ascending (token, rank), so that the same choice gives the
// same list. One block, a thread an expert: reads are the whole choice, once a thread, from a cache line that all share.
// For decode and short passes; a device sorts long ones.
#pragma once

#include <cstdint>

#include "coli/core/fixed_name.hpp"
#include "coli/kernels/grid/matmul.hpp"
#include "coli/kernels/grid/thread.hpp"

namespace coli::grid {

inline constexpr std::uint32_t kMostExperts = 1024;

struct GroupByExpert {
  static constexpr FixedName name{"group_by_expert"};
  static constexpr std::uint32_t kMostThreads = kMostExperts;
  struct Shared {
    Array<std::uint32_t, kMostExperts> counts[2];
  };

  const std::uint32_t* ids;  // [n_uses]: of use `row` (token row / top_k, rank row % top_k)
  std::uint32_t* first;      // [n_experts + 1]
  Use* uses;                 // [n_uses]
  std::uint32_t n_uses, top_k, n_experts;

  /// Requires n_experts <= kMostExperts.
  static constexpr LaunchShape shape(std::uint32_t n_experts) { return {1, 1, (n_experts + kWarp - 1) / kWarp * kWarp}; }

  template <Thread T>
  COLI_DEVICE void operator()(T& t, Shared& shared) const {
    const std::uint32_t e = t.thread();
    std::uint32_t count = 0;
    for (std::uint32_t row = 0; row < n_uses; ++row) count += t.load(ids + row) == e;
    t.store(shared.counts[0], e, count);
    // Inclusive sums, each round over twice the distance, from one array into the other.
    std::uint32_t from = 0, sum = count;
    for (std::uint32_t distance = 1; distance < t.n_threads(); distance *= 2) {
      t.sync_block();
      if (e >= distance) sum += t.load(shared.counts[from], e - distance);
      from = 1 - from;
      t.store(shared.counts[from], e, sum);
    }
    if (e >= n_experts) return;
    std::uint32_t at = sum - count;
    t.store(first + e, at);
    if (e == n_experts - 1) t.store(first + n_experts, sum);
    for (std::uint32_t row = 0; row < n_uses; ++row)
      if (t.load(ids + row) == e) t.store(uses + at++, Use{row / top_k, row});
  }
};

}  // namespace coli::grid
