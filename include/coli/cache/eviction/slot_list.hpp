// SPDX-License-Identifier: Apache-2.0
// Lists of slots that cost nothing to relink: the shared part of the queue-based policies.
//
// A slot is on one list at a time; links live in two arrays indexed by slot, allocated once. All operations are O(1).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "coli/core/ids.hpp"

namespace coli {

class SlotLinks {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  struct List {
    std::uint32_t first = kNone;
    std::uint32_t last = kNone;
    std::uint32_t size = 0;
  };

  explicit SlotLinks(std::uint32_t slots) : next_(slots, kNone), prev_(slots, kNone) {}

  static List make_list() noexcept { return {}; }

  void push_back(List& list, SlotId slot) noexcept {
    next_[slot.value] = kNone;
    prev_[slot.value] = list.last;
    (list.last == kNone ? list.first : next_[list.last]) = slot.value;
    list.last = slot.value;
    ++list.size;
  }
  void remove(List& list, SlotId slot) noexcept {
    const std::uint32_t before = prev_[slot.value];
    const std::uint32_t behind = next_[slot.value];
    (before == kNone ? list.first : next_[before]) = behind;
    (behind == kNone ? list.last : prev_[behind]) = before;
    --list.size;
  }
  /// Forgets the list's slots; their links are set anew when they are pushed.
  static void clear(List& list) noexcept { list = {}; }

  static std::optional<SlotId> front(const List& list) noexcept { return id(list.first); }
  static std::optional<SlotId> back(const List& list) noexcept { return id(list.last); }
  std::optional<SlotId> after(SlotId slot) const noexcept { return id(next_[slot.value]); }
  std::optional<SlotId> before(SlotId slot) const noexcept { return id(prev_[slot.value]); }

 private:
  static std::optional<SlotId> id(std::uint32_t value) noexcept {
    return value == kNone ? std::nullopt : std::optional(SlotId{value});
  }
  std::vector<std::uint32_t> next_;
  std::vector<std::uint32_t> prev_;
};

}  // namespace coli
