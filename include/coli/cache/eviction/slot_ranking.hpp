// SPDX-License-Identifier: Apache-2.0
// Slots ordered by a rank that changes: the smallest that may go. Equal ranks go by slot number.
//
// Whose rank changes was just used, and is leased: it can't go before its lease ends. So a new rank is only noted, and
// takes its place in the order when somebody asks for a victim and the slot may go.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "coli/cache/eviction/tournament.hpp"
#include "coli/core/ids.hpp"

namespace coli {

class SlotRanking {
 public:
  explicit SlotRanking(std::uint32_t slots) : slots_(slots), order_(slots) { noted_.reserve(slots); }

  /// Adds the slot, or changes its rank. Requires rank < Tournament::kAbsent.
  void set(SlotId slot, std::uint64_t rank) noexcept {
    Slot& state = slots_[slot.value];
    state.rank = rank;
    if (!state.noted) noted_.push_back(slot.value);
    state.noted = true;
  }
  void remove(SlotId slot) noexcept {
    slots_[slot.value].rank = Tournament::kAbsent;  // where it is noted, it stays so
    order_.set(slot.value, Tournament::kAbsent, slot.value);
  }
  void clear() noexcept {
    slots_.assign(slots_.size(), Slot{});
    noted_.clear();
    order_.clear();
  }

  /// The slot of least rank that may go.
  template <class MayGo>
  std::optional<SlotId> first(const MayGo& may_go) noexcept {
    std::size_t n_kept = 0;
    for (const std::uint32_t slot : noted_) {
      if (may_go(SlotId{slot})) {
        order_.set(slot, slots_[slot].rank, slot);
        slots_[slot].noted = false;
      } else {
        noted_[n_kept++] = slot;
      }
    }
    noted_.resize(n_kept);
    const auto found = order_.first([&](std::uint32_t slot) { return may_go(SlotId{slot}); });
    return found ? std::optional(SlotId{*found}) : std::nullopt;
  }

  /// Changes every rank by a function that keeps the order, or makes ranks equal.
  template <class Fn>
  void scale(const Fn& fn) noexcept {
    for (Slot& slot : slots_)
      if (slot.rank != Tournament::kAbsent) slot.rank = fn(slot.rank);
    order_.scale(fn);
  }

 private:
  struct Slot {
    std::uint64_t rank = Tournament::kAbsent;
    bool noted = false;  // the order doesn't know its rank yet
  };

  std::vector<Slot> slots_;
  std::vector<std::uint32_t> noted_;
  Tournament order_;
};

}  // namespace coli
