// SPDX-License-Identifier: Apache-2.0
// Which experts of a warm start are still to be read, on their way, or lying in their slots unused?
//
// A warm start reads experts that past runs used into slots that are free. Nobody has asked for them, so each step is
// taken only where it is in nobody's way: a read is begun while no demand waits or is being read, and a slot is taken
// when all of an expert has arrived and a thread would wait otherwise. Book-keeping only; guarded by the cache's lock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "coli/cache/cache_stats.hpp"
#include "coli/cache/in_flight.hpp"
#include "coli/core/ids.hpp"

namespace coli {

class WarmStart {
 public:
  /// `slots` by size class.
  explicit WarmStart(std::span<const std::uint32_t> slots) {
    for (const std::uint32_t n : slots) unused_.emplace_back(n, false);
  }

  //--- what is to be read, and on its way without a slot yet ---

  /// The first of `keys` goes first.
  void begin(std::vector<ExpertKey> keys) {
    keys_ = std::move(keys);
    std::reverse(keys_.begin(), keys_.end());
  }
  std::optional<ExpertKey> take_next() {
    if (keys_.empty()) return std::nullopt;
    const ExpertKey key = keys_.back();
    keys_.pop_back();
    return key;
  }
  void add(Filling& filling) {
    reading_.push_back(&filling);
    ++stats_.issued;
  }
  std::span<Filling* const> reading() const noexcept { return reading_; }
  bool ended() const noexcept { return keys_.empty() && reading_.empty(); }
  /// False where it isn't one of these.
  bool give_up(const Filling& filling) {
    if (std::erase(reading_, &filling) == 0) return false;
    ++stats_.wasted;
    return true;
  }
  /// It is demanded before it had its slot: a miss. False where it isn't one of these.
  bool claim(const Filling& filling, bool all_here) {
    if (std::erase(reading_, &filling) == 0) return false;
    ++(all_here ? stats_.useful : stats_.late);
    return true;
  }

  //--- what has a slot, and waits to be used ---

  void settle(const Filling& filling, std::uint32_t size_class) {
    std::erase(reading_, &filling);
    unused_[size_class][filling.slot.value] = true;
    ++n_unused_;
  }
  bool any_unused() const noexcept { return n_unused_ != 0; }
  void use(std::uint32_t size_class, SlotId slot) { stats_.useful += forget(size_class, slot) ? 1 : 0; }
  void lose(std::uint32_t size_class, SlotId slot) { stats_.wasted += forget(size_class, slot) ? 1 : 0; }

  const WarmStats& stats() const noexcept { return stats_; }
  void reset_stats() noexcept { stats_ = {}; }

 private:
  bool forget(std::uint32_t size_class, SlotId slot) {
    if (!unused_[size_class][slot.value]) return false;
    unused_[size_class][slot.value] = false;
    --n_unused_;
    return true;
  }

  std::vector<ExpertKey> keys_;  // the next one last
  std::vector<Filling*> reading_;
  std::vector<std::vector<bool>> unused_;  // by class and slot
  std::size_t n_unused_ = 0;
  WarmStats stats_;
};

}  // namespace coli
