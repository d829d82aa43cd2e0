// SPDX-License-Identifier: Apache-2.0
// Bounded buffers that reads land in before their bytes are put into a slot.
//
// A read can't land in its slot: direct I/O brings whole blocks around the extent, and a slot holds prepared weights.
// All buffers are one size, in one block of MemoryClass::io, which a store may register with the kernel. Not
// thread-safe: the owner locks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "coli/cache/geometry.hpp"
#include "coli/contracts/expert_store.hpp"
#include "coli/core/accountant.hpp"
#include "coli/core/buffer.hpp"
#include "coli/core/bytes.hpp"
#include "coli/core/error.hpp"

namespace coli {

class Staging {
 public:
  Staging() = default;

  /// Bytes of one buffer: the largest part, what the store reads around it, whole pages.
  static constexpr std::uint64_t buffer_bytes(std::uint64_t largest_part, StoreAlignment store) noexcept {
    const std::uint64_t unit = std::max<std::uint64_t>(store.alignment, 4096);
    return (largest_part + store.slack + unit - 1) / unit * unit;
  }
  /// What `allocate` charges for n buffers.
  static constexpr Bytes bytes_for(std::uint32_t n, std::uint64_t largest_part, StoreAlignment store) noexcept {
    if (!store.copies() || n == 0) return Bytes{0};
    const std::uint64_t extra = store.alignment > 4096 ? store.alignment : 0;  // mappings are aligned to pages only
    return Bytes{buffer_bytes(largest_part, store)} * n + Bytes{extra};
  }

  static Result<Staging> allocate(Accountant& accountant, std::uint32_t n, std::uint64_t largest_part,
                                  StoreAlignment store) {
    Staging staging;
    if (!store.copies()) return staging;
    staging.each_ = buffer_bytes(largest_part, store);
    COLI_TRY(memory, Buffer::allocate(accountant, MemoryClass::io, bytes_for(n, largest_part, store)));
    staging.memory_ = std::move(memory);
    const auto address = reinterpret_cast<std::uintptr_t>(staging.memory_.data());
    staging.base_ = staging.memory_.data() + (store.alignment - address % store.alignment) % store.alignment;
    for (std::uint32_t i = n; i-- > 0;) staging.free_.push_back(i);
    staging.size_ = n;
    return staging;
  }

  std::uint32_t size() const noexcept { return size_; }
  std::size_t n_free() const noexcept { return free_.size(); }
  std::span<std::byte> region() const noexcept { return {base_, each_ * size_}; }
  std::span<std::byte> at(std::uint32_t buffer) const noexcept { return {base_ + each_ * buffer, each_}; }

  std::optional<std::uint32_t> take() {
    if (free_.empty()) return std::nullopt;
    const std::uint32_t buffer = free_.back();
    free_.pop_back();
    return buffer;
  }
  void give_back(std::uint32_t buffer) { free_.push_back(buffer); }

 private:
  Buffer memory_;
  std::byte* base_ = nullptr;
  std::uint64_t each_ = 0;
  std::uint32_t size_ = 0;
  std::vector<std::uint32_t> free_;
};

}  // namespace coli
