// SPDX-License-Identifier: Apache-2.0
// A group of experts held for compute: who is ready next? Nothing leased is evicted or overwritten.
//
// Move-only; ends when destroyed, which must come after all threads that use it are done. Every thread that computes
// calls next() until it says nothing: experts that were resident come first, in group order, then the others as they
// arrive. Reading and filling is done by the calling threads themselves, so a lease needs no thread of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "coli/contracts/expert_store.hpp"
#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"

namespace coli {

/// An expert to compute. `part` points at the gate, up and down matrices as they were filled. Down may still be null:
/// compute gate and up, then ask Lease::down.
struct ReadyExpert {
  std::uint32_t index;  // in the group as it was acquired
  ExpertKey key;
  std::array<const std::byte*, kParts> part;
};

template <class Cache>
class Lease {
 public:
  Lease(Cache& cache, typename Cache::Group& group) noexcept : cache_(&cache), group_(&group) {}
  Lease(Lease&& other) noexcept
      : cache_(std::exchange(other.cache_, nullptr)), group_(std::exchange(other.group_, nullptr)) {}
  Lease& operator=(Lease&& other) noexcept {
    std::swap(cache_, other.cache_);
    std::swap(group_, other.group_);
    return *this;
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    if (cache_ != nullptr) cache_->end(*group_);
  }

  /// Each expert goes to one caller; nothing: all were handed out and no part of them is left to fill, or the lease has
  /// failed. Blocks only while all that is left, to compute or to fill, is being read. Errors, told to one caller once:
  /// io naming file, offset, layer and expert; interrupted. Any thread.
  Result<std::optional<ReadyExpert>> next() { return cache_->next(*group_); }

  /// The expert's down matrix, waiting for it where it must. Errors: the lease's, each time. Any thread.
  Result<const std::byte*> down(const ReadyExpert& expert) { return cache_->down(*group_, expert); }

  std::size_t size() const noexcept { return group_->items.size(); }

  /// Whether the group's expert `index` had its slot when it was acquired.
  bool was_resident(std::size_t index) const noexcept { return group_->items[index].filling == nullptr; }

  /// The lease's error, if it has failed: for the thread that joins the workers.
  std::optional<Error> error() const { return cache_->error_of(*group_); }

 private:
  Cache* cache_;
  typename Cache::Group* group_;
};

}  // namespace coli
