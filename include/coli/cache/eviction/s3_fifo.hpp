// SPDX-License-Identifier: Apache-2.0
// S3-FIFO: three queues. New experts pass a small one first; what is used there or comes back soon enters the main one.
//
// Small holds a tenth of the slots; leaving it unused, an expert is remembered in a ghost queue (as many keys as main
// has slots), from which a return goes to main at once. Uses are counted to 3. In main, used slots go round once more a
// count. Deviation from the published algorithm: a pinned slot goes round without losing a count. O(1) amortised.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "coli/cache/eviction/slot_list.hpp"
#include "coli/contracts/eviction_policy.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/core/ids.hpp"

namespace coli {

class S3Fifo {
 public:
  static constexpr FixedName name{"s3-fifo"};

  explicit S3Fifo(EvictionShape shape)
      : n_experts_(shape.experts),
        small_target_(std::max(shape.slots / 10, 1U)),
        ghost_capacity_(std::max(shape.slots - std::min(small_target_, shape.slots), 1U)),
        links_(shape.slots),
        uses_(shape.slots, 0),
        in_main_(shape.slots, 0),
        ghost_until_(std::size_t{shape.layers} * shape.experts, 0) {}

  void on_fill(SlotId slot, ExpertKey key) noexcept {
    uses_[slot.value] = 0;
    std::uint64_t& until = ghost_until_[index(key)];
    const bool returns = until > n_ghosts_;
    until = 0;
    in_main_[slot.value] = returns ? 1 : 0;
    links_.push_back(returns ? main_ : small_, slot);
  }
  void on_hit(SlotId slot, ExpertKey) noexcept {
    uses_[slot.value] = static_cast<std::uint8_t>(std::min(uses_[slot.value] + 1, 3));
  }
  void on_erase(SlotId slot, ExpertKey key) noexcept {
    if (in_main_[slot.value] != 0) {
      links_.remove(main_, slot);
      return;
    }
    links_.remove(small_, slot);
    ghost_until_[index(key)] = ++n_ghosts_ + ghost_capacity_;
  }

  std::optional<SlotId> victim(const Evictable& may_go, ExpertKey) noexcept {
    // A slot goes round at most 5 times: from small, three counts in main, and once more.
    const std::uint32_t most = 5 * (small_.size + main_.size) + 1;
    for (std::uint32_t step = 0; step < most; ++step) {
      const bool from_small = small_.size >= small_target_ || main_.size == 0;
      if (auto slot = from_small ? step_small(may_go) : step_main(may_go)) return slot;
    }
    // All that may go stands in the queue that wasn't looked at (the other's slots are all pinned).
    for (const SlotLinks::List* queue : {&small_, &main_}) {
      for (auto slot = links_.front(*queue); slot; slot = links_.after(*slot)) {
        if (may_go(*slot)) return slot;
      }
    }
    return std::nullopt;
  }

  void reset() noexcept {
    links_.clear(small_);
    links_.clear(main_);
    ghost_until_.assign(ghost_until_.size(), 0);
    n_ghosts_ = 0;
  }

 private:
  std::size_t index(ExpertKey key) const noexcept {
    return std::size_t{key.layer.value} * n_experts_ + key.expert.value;
  }

  std::optional<SlotId> step_small(const Evictable& may_go) noexcept {
    const auto slot = links_.front(small_);
    if (!slot) return std::nullopt;
    if (uses_[slot->value] > 1) {
      links_.remove(small_, *slot);
      links_.push_back(main_, *slot);
      in_main_[slot->value] = 1;
      uses_[slot->value] = 0;
      return std::nullopt;
    }
    if (may_go(*slot)) return slot;
    links_.remove(small_, *slot);
    links_.push_back(small_, *slot);
    return std::nullopt;
  }
  std::optional<SlotId> step_main(const Evictable& may_go) noexcept {
    const auto slot = links_.front(main_);
    if (!slot) return std::nullopt;
    if (may_go(*slot)) {
      if (uses_[slot->value] == 0) return slot;
      --uses_[slot->value];
    }
    links_.remove(main_, *slot);
    links_.push_back(main_, *slot);
    return std::nullopt;
  }

  std::uint32_t n_experts_;
  std::uint32_t small_target_;
  std::uint32_t ghost_capacity_;
  SlotLinks links_;
  SlotLinks::List small_;  // oldest first
  SlotLinks::List main_;
  std::vector<std::uint8_t> uses_;
  std::vector<std::uint8_t> in_main_;
  /// By expert: it is a ghost while fewer than this many experts have become ghosts.
  std::vector<std::uint64_t> ghost_until_;
  std::uint64_t n_ghosts_ = 0;
};

static_assert(require_eviction_policy<S3Fifo>());

}  // namespace coli
