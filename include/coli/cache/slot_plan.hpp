// SPDX-License-Identifier: Apache-2.0
// How many slots does a byte budget buy? A pure function, so that the planner promises what the cache then allocates.
//
// One budget is shared by all size classes in proportion to their experts: slots are granted one by one, the next
// always to the class with the smallest share of its experts held (the lower class on a tie), starting from the least
// (top_k slots a class, so that any layer can run). A budget buys the longest prefix of that fixed sequence: more bytes
// never mean fewer slots in any class, and less than one slot's bytes stay unused until every expert has its slot.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "coli/cache/geometry.hpp"
#include "coli/core/bytes.hpp"
#include "coli/core/error.hpp"

namespace coli {

struct SlotPlan {
  std::vector<std::uint32_t> slots;  // per size class
  Bytes bytes{};

  std::uint64_t total() const noexcept {
    std::uint64_t sum = 0;
    for (const std::uint32_t n : slots) sum += n;
    return sum;
  }
  /// Every expert has its slot: nothing is ever evicted.
  bool all_resident(const CacheGeometry& geometry) const noexcept {
    for (std::uint32_t c = 0; c < slots.size(); ++c) {
      if (slots[c] < geometry.experts_in_class(c)) return false;
    }
    return true;
  }
};

/// top_k slots in each class: below this no layer can be computed.
inline SlotPlan least_slots(const CacheGeometry& geometry) {
  SlotPlan plan;
  for (const auto& size_class : geometry.classes()) {
    plan.slots.push_back(geometry.top_k());
    plan.bytes += Bytes{size_class.slot_bytes} * geometry.top_k();
  }
  return plan;
}

/// At most `most_slots` in all (but never fewer than the least): what a run of that many slots had. Errors: over_budget
/// where not even the least fits, with the arithmetic.
inline Result<SlotPlan> plan_slots(const CacheGeometry& geometry, Bytes budget,
                                   std::uint64_t most_slots = std::numeric_limits<std::uint64_t>::max()) {
  SlotPlan plan = least_slots(geometry);
  if (plan.bytes > budget) {
    return Error{Errc::over_budget, "expert slots need at least " + std::to_string(plan.bytes.value) + " bytes (" +
                                        std::to_string(geometry.top_k()) + " slots in each of " +
                                        std::to_string(geometry.classes().size()) + " sizes), " +
                                        std::to_string(budget.value) + " are left for them"};
  }
  const auto n_classes = static_cast<std::uint32_t>(geometry.classes().size());
  for (std::uint64_t total = plan.total(); total < most_slots; ++total) {
    std::uint32_t next = n_classes;
    for (std::uint32_t c = 0; c < n_classes; ++c) {
      const std::uint64_t all = geometry.experts_in_class(c);
      if (plan.slots[c] >= all) continue;
      // (slots + 1) / all, compared without division.
      if (next == n_classes || (std::uint64_t{plan.slots[c]} + 1) * geometry.experts_in_class(next) <
                                   (std::uint64_t{plan.slots[next]} + 1) * all) {
        next = c;
      }
    }
    if (next == n_classes) return plan;
    const Bytes more = plan.bytes + Bytes{geometry.classes()[next].slot_bytes};
    if (more > budget) return plan;
    plan.bytes = more;
    ++plan.slots[next];
  }
  return plan;
}

}  // namespace coli
