// SPDX-License-Identifier: Apache-2.0
// Least frequently used, where uses fade: the expert with the smallest decayed count of uses goes first.
//
// Counts are kept for all experts, resident or not, and lose a tenth each token. Instead of lowering all counts, a use
// counts for a ninth more than it did a token before, which keeps the same order; when the unit grows large, all counts
// are scaled down together. Integers throughout. O(log slots) a hit or fill. The rate is flat between 0.8 and 0.95.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "coli/cache/eviction/slot_ranking.hpp"
#include "coli/contracts/eviction_policy.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/core/ids.hpp"

namespace coli {

class LfuDecay {
 public:
  static constexpr FixedName name{"lfu-decay"};

  explicit LfuDecay(EvictionShape shape)
      : n_experts_(shape.experts), count_(std::size_t{shape.layers} * shape.experts, 0), order_(shape.slots) {}

  void on_fill(SlotId slot, ExpertKey key) noexcept { use(slot, key); }
  void on_hit(SlotId slot, ExpertKey key) noexcept { use(slot, key); }
  void on_erase(SlotId slot, ExpertKey) noexcept { order_.remove(slot); }
  std::optional<SlotId> victim(const Evictable& may_go, ExpertKey) noexcept { return order_.first(may_go); }

  void on_tick() noexcept {
    unit_ += unit_ / 9;
    if (unit_ < kLargestUnit) return;
    const auto shrink = [](std::uint64_t count) { return count / (kLargestUnit / kFirstUnit); };
    for (std::uint64_t& count : count_) count = shrink(count);
    order_.scale(shrink);
    unit_ = shrink(unit_);
  }
  void reset() noexcept {
    order_.clear();
    count_.assign(count_.size(), 0);
    unit_ = kFirstUnit;
  }

 private:
  static constexpr std::uint64_t kFirstUnit = std::uint64_t{1} << 24;
  static constexpr std::uint64_t kLargestUnit = std::uint64_t{1} << 56;

  void use(SlotId slot, ExpertKey key) noexcept {
    std::uint64_t& count = count_[std::size_t{key.layer.value} * n_experts_ + key.expert.value];
    count += unit_;
    order_.set(slot, count);
  }

  std::uint32_t n_experts_;
  std::vector<std::uint64_t> count_;
  SlotRanking order_;
  std::uint64_t unit_ = kFirstUnit;
};

static_assert(require_eviction_policy<LfuDecay>());

}  // namespace coli
