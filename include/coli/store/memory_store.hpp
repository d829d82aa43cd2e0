// SPDX-License-Identifier: Apache-2.0
// The model's bytes are in memory already: a read completes at once and points at them, nothing is copied.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <span>

#include "coli/contracts/expert_store.hpp"
#include "coli/core/error.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/core/ids.hpp"
#include "coli/store/expert_index.hpp"

namespace coli {

/// Needs an index whose files are all in memory; the index must outlive the store.
class MemoryStore {
 public:
  static constexpr FixedName name{"memory"};

  explicit MemoryStore(const ExpertIndex& index) : index_(&index) {}

  Result<ReadTicket> submit(ExpertKey key, Part part, std::span<std::byte>, Urgency) {
    if (!index_->contains(key)) return Error{Errc::internal, "there is no such expert", text_of(key, part)};
    const std::span<const std::byte> bytes = index_->in_memory(key, part);
    if (bytes.empty()) {
      return Error{Errc::internal, "is not in memory", text_of(key, part),
                   index_->files()[index_->extent(key, part).file].path};
    }
    const std::lock_guard lock(mutex_);
    const ReadTicket ticket{next_ticket_++};
    done_.push_back({ticket, bytes.data()});
    return ticket;
  }

  std::optional<Completion> poll() {
    const std::lock_guard lock(mutex_);
    if (done_.empty()) return std::nullopt;
    const Done first = done_.front();
    done_.pop_front();
    return Completion{first.ticket, first.data};
  }
  std::optional<Completion> wait(std::chrono::milliseconds) { return poll(); }

  void cancel(ReadTicket) {}  // has completed
  void promote(ReadTicket) {}
  StoreAlignment alignment() const noexcept { return {0, 0}; }

 private:
  struct Done {
    ReadTicket ticket;
    const std::byte* data;
  };
  const ExpertIndex* index_;
  std::mutex mutex_;
  std::deque<Done> done_;
  std::uint64_t next_ticket_ = 1;
};

static_assert(require_expert_store<MemoryStore>());

}  // namespace coli
