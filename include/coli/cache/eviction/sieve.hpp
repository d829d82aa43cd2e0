// SPDX-License-Identifier: Apache-2.0
// SIEVE: a hand walks a queue from old to new, spares what was used since it last came by, and takes the first that
// wasn't.
//
// Survivors keep their place (in CLOCK they would move to the new end), so new experts are sifted quickly. The one
// deviation from the published algorithm: a pinned slot is stepped over and keeps its mark. O(1) amortised.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "coli/cache/eviction/slot_list.hpp"
#include "coli/contracts/eviction_policy.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/core/ids.hpp"

namespace coli {

class Sieve {
 public:
  static constexpr FixedName name{"sieve"};

  explicit Sieve(EvictionShape shape) : links_(shape.slots), used_(shape.slots, 0) {}

  void on_fill(SlotId slot, ExpertKey) noexcept {
    used_[slot.value] = 0;
    links_.push_back(queue_, slot);
  }
  void on_hit(SlotId slot, ExpertKey) noexcept { used_[slot.value] = 1; }
  void on_erase(SlotId slot, ExpertKey) noexcept {
    if (hand_ == slot) hand_ = links_.after(slot);
    links_.remove(queue_, slot);
  }

  std::optional<SlotId> victim(const Evictable& may_go, ExpertKey) noexcept {
    // Two rounds are enough: the first clears every mark that a slot which may go can have.
    for (std::uint32_t step = 0; step < 2 * queue_.size + 1; ++step) {
      if (!hand_) hand_ = links_.front(queue_);
      if (!hand_) return std::nullopt;
      const SlotId slot = *hand_;
      if (may_go(slot)) {
        if (used_[slot.value] == 0) return slot;
        used_[slot.value] = 0;
      }
      hand_ = links_.after(slot);
    }
    return std::nullopt;
  }

  void reset() noexcept {
    links_.clear(queue_);
    hand_.reset();
  }

 private:
  SlotLinks links_;
  SlotLinks::List queue_;  // oldest first
  std::optional<SlotId> hand_;
  std::vector<std::uint8_t> used_;
};

static_assert(require_eviction_policy<Sieve>());

}  // namespace coli
