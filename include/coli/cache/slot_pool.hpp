// SPDX-License-Identifier: Apache-2.0
// The memory of the slots: one block a size class, allocated once, never returned while the cache lives.
//
// Returning and taking pages again costs more than a better hit rate gains. Charged to MemoryClass::slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "coli/cache/geometry.hpp"
#include "coli/cache/page_toucher.hpp"
#include "coli/cache/slot_plan.hpp"
#include "coli/core/accountant.hpp"
#include "coli/core/buffer.hpp"
#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"

namespace coli {

class SlotPool {
 public:
  SlotPool() = default;

  /// Errors: over_budget.
  static Result<SlotPool> allocate(Accountant& accountant, const CacheGeometry& geometry, const SlotPlan& plan) {
    SlotPool pool;
    for (std::size_t c = 0; c < plan.slots.size(); ++c) {
      const std::uint64_t slot_bytes = geometry.classes()[c].slot_bytes;
      COLI_TRY(memory, Buffer::allocate(accountant, MemoryClass::slots, Bytes{slot_bytes} * plan.slots[c]));
      pool.classes_.push_back({std::move(memory), slot_bytes});
    }
    return pool;
  }

  std::byte* at(std::uint32_t size_class, SlotId slot) const noexcept {
    return classes_[size_class].memory.data() + classes_[size_class].slot_bytes * slot.value;
  }

  /// Has the memory touched in the background, first slots first: that is the order in which free ones are filled.
  void touch_early() { toucher_ = PageToucher(memory()); }

  /// The memory of every class: what may be touched early, and a bandwidth measurement may read.
  std::vector<std::span<const std::byte>> memory() const {
    std::vector<std::span<const std::byte>> spans;
    for (const Class& c : classes_) spans.push_back(c.memory.all<const std::byte>());
    return spans;
  }

 private:
  struct Class {
    Buffer memory;
    std::uint64_t slot_bytes;
  };
  std::vector<Class> classes_;
  PageToucher toucher_;  // after the memory: it ends first
};

}  // namespace coli
