// SPDX-License-Identifier: Apache-2.0
// Belady's rule: evict what is used farthest in the future. Needs the future, so it is for replay only: no other policy
// that must take in every miss can have fewer misses on the same accesses.
//
// The future is the sequence of accesses to one size class. Each hit or fill of an expert consumes its next occurrence,
// so the order within a group may differ from the recorded one. Without a future every use looks infinitely far.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "coli/cache/eviction/slot_ranking.hpp"
#include "coli/contracts/eviction_policy.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/core/ids.hpp"

namespace coli {

/// When is each expert used? Built in two passes over the accesses: count all, then place all.
class AccessFuture {
 public:
  AccessFuture(std::uint32_t layers, std::uint32_t experts)
      : n_experts_(experts), begin_(std::size_t{layers} * experts + 1, 0) {}

  void count(ExpertKey key) { ++begin_[index(key) + 1]; }
  void counted() {
    for (std::size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1] + 1;  // a kNever behind each
    times_.resize(begin_.back(), kNever);
    placed_ = begin_;
  }
  /// `time` doesn't decrease from call to call.
  void place(ExpertKey key, std::uint32_t time) { times_[placed_[index(key)]++] = time; }
  void placed() { placed_ = {}; }

  std::size_t index(ExpertKey key) const noexcept {
    return std::size_t{key.layer.value} * n_experts_ + key.expert.value;
  }
  std::size_t n_keys() const noexcept { return begin_.size() - 1; }
  static constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();
  /// When each use is, one after the other; then kNever.
  const std::uint32_t* times(std::size_t key_index) const noexcept { return times_.data() + begin_[key_index]; }

 private:
  std::uint32_t n_experts_;
  std::vector<std::size_t> begin_;
  std::vector<std::size_t> placed_;
  std::vector<std::uint32_t> times_;
};

class Belady {
 public:
  static constexpr FixedName name{"belady"};

  explicit Belady(EvictionShape shape, std::shared_ptr<const AccessFuture> future = nullptr)
      : future_(std::move(future)), order_(shape.slots) {
    reset();
  }

  void on_fill(SlotId slot, ExpertKey key) noexcept { use(slot, key); }
  void on_hit(SlotId slot, ExpertKey key) noexcept { use(slot, key); }
  void on_erase(SlotId slot, ExpertKey) noexcept { order_.remove(slot); }
  std::optional<SlotId> victim(const Evictable& may_go, ExpertKey) noexcept { return order_.first(may_go); }
  void reset() noexcept {
    order_.clear();
    this_use_.resize(future_ ? future_->n_keys() : 0);
    for (std::size_t i = 0; i < this_use_.size(); ++i) this_use_[i] = future_->times(i);
  }

 private:
  void use(SlotId slot, ExpertKey key) noexcept {
    std::uint32_t next = AccessFuture::kNever;
    if (future_) {
      const std::uint32_t*& now = this_use_[future_->index(key)];
      if (*now != AccessFuture::kNever) next = *++now;
    }
    order_.set(slot, std::uint64_t{AccessFuture::kNever} - next);  // the ranking gives the smallest: the farthest
  }

  std::shared_ptr<const AccessFuture> future_;
  std::vector<const std::uint32_t*> this_use_;  // by expert, into its times
  SlotRanking order_;
};

static_assert(require_eviction_policy<Belady>());

}  // namespace coli
