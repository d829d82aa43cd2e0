// SPDX-License-Identifier: Apache-2.0
// Slots ordered by a rank that changes: the smallest that may go.
//
// A binary heap that is repaired only when asked. A rank that rises (a use was counted) is just noted: the slot's entry
// understates it, and is put right when it comes to the top. A rank that falls pushes a second entry; the first is
// dropped when it turns up. So a change costs O(1) mostly, and the answer is that of an exact order. Equal ranks go by
// slot number.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "coli/core/ids.hpp"

namespace coli {

class SlotHeap {
 public:
  explicit SlotHeap(std::uint32_t slots) : slots_(slots) {
    heap_.reserve(kMostPerSlot * std::size_t{slots} + kMostExtra + 1);
    aside_.reserve(slots);
  }

  /// Adds the slot, or changes its rank.
  void set(SlotId slot, std::uint64_t rank) noexcept {
    Slot& state = slots_[slot.value];
    state.rank = rank;
    if (!state.present || rank < state.listed) list(slot.value);
    state.present = true;
  }
  void remove(SlotId slot) noexcept { slots_[slot.value].present = false; }
  void clear() noexcept {
    heap_.clear();
    for (Slot& slot : slots_) slot.present = false;
  }

  /// The slot of least rank that may go.
  template <class MayGo>
  std::optional<SlotId> first(const MayGo& may_go) noexcept {
    std::optional<SlotId> found;
    aside_.clear();
    while (!heap_.empty()) {
      const Entry top = heap_.front();
      const Slot& state = slots_[top.slot];
      const bool live = state.present && top.rank == state.listed;
      if (live && top.rank == state.rank && may_go(SlotId{top.slot})) {
        found = SlotId{top.slot};
        break;
      }
      std::pop_heap(heap_.begin(), heap_.end(), later);
      heap_.pop_back();
      if (!live) continue;
      if (top.rank == state.rank)
        aside_.push_back(top.slot);  // pinned
      else
        list(top.slot);
    }
    for (const std::uint32_t slot : aside_) list(slot);
    return found;
  }

  /// Changes every rank by an order-keeping function.
  template <class Fn>
  void scale(const Fn& fn) noexcept {
    for (Slot& slot : slots_) slot.rank = fn(slot.rank);
    rebuild();
  }

 private:
  static constexpr std::size_t kMostPerSlot = 3;
  static constexpr std::size_t kMostExtra = 64;
  struct Entry {
    std::uint64_t rank;
    std::uint32_t slot;
  };
  struct Slot {
    std::uint64_t rank = 0;
    std::uint64_t listed = 0;  // the rank of its live entry, at most `rank`
    bool present = false;
  };

  static bool later(const Entry& a, const Entry& b) noexcept {
    return a.rank != b.rank ? a.rank > b.rank : a.slot > b.slot;
  }
  void list(std::uint32_t slot) noexcept {
    if (heap_.size() >= kMostPerSlot * slots_.size() + kMostExtra) rebuild();
    slots_[slot].listed = slots_[slot].rank;
    heap_.push_back({slots_[slot].rank, slot});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  void rebuild() noexcept {
    heap_.clear();
    for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
      slots_[slot].listed = slots_[slot].rank;
      if (slots_[slot].present) heap_.push_back({slots_[slot].rank, slot});
    }
    std::make_heap(heap_.begin(), heap_.end(), later);
  }

  std::vector<Slot> slots_;
  std::vector<Entry> heap_;
  std::vector<std::uint32_t> aside_;
};

}  // namespace coli
