// SPDX-License-Identifier: Apache-2.0
// Least recently used: the expert that was not asked for the longest goes first.
//
// The textbook order, a doubly linked list over the slots. Victim search passes only over pinned slots at the old end,
// of which there are few: O(1) in practice. Below one token cycle it hits nothing at all: every expert is evicted just
// before its next use. ExpectedUse is the policy for that.
#pragma once

#include <cstdint>
#include <optional>

#include "coli/cache/eviction/slot_list.hpp"
#include "coli/contracts/eviction_policy.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/core/ids.hpp"

namespace coli {

class Lru {
 public:
  static constexpr FixedName name{"lru"};

  explicit Lru(EvictionShape shape) : links_(shape.slots), order_(links_.make_list()) {}

  void on_fill(SlotId slot, ExpertKey) noexcept { links_.push_back(order_, slot); }
  void on_hit(SlotId slot, ExpertKey) noexcept {
    links_.remove(order_, slot);
    links_.push_back(order_, slot);
  }
  void on_erase(SlotId slot, ExpertKey) noexcept { links_.remove(order_, slot); }

  std::optional<SlotId> victim(const Evictable& may_go, ExpertKey) noexcept {
    for (auto slot = links_.front(order_); slot; slot = links_.after(*slot)) {
      if (may_go(*slot)) return slot;
    }
    return std::nullopt;
  }

  void reset() noexcept { links_.clear(order_); }

 private:
  SlotLinks links_;
  SlotLinks::List order_;
};

static_assert(require_eviction_policy<Lru>());

}  // namespace coli
