// SPDX-License-Identifier: Apache-2.0
// A store whose reads end when the test says so: for asking what a cache does in between.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "coli/contracts/expert_store.hpp"
#include "coli/core/fixed_name.hpp"
#include "expert_files.hpp"

namespace coli::test {

class ManualStore {
 public:
  static constexpr FixedName name{"manual"};
  struct Pending {
    ReadTicket ticket;
    ExpertKey key;
    Part part;
    std::span<std::byte> destination;
    Urgency urgency;
  };

  explicit ManualStore(const ExpertIndex& index) : index_(&index) {}

  Result<ReadTicket> submit(ExpertKey key, Part part, std::span<std::byte> destination, Urgency urgency) {
    const std::lock_guard lock(mutex_);
    const ReadTicket ticket{next_++};
    pending_.push_back({ticket, key, part, destination, urgency});
    return ticket;
  }
  std::optional<Completion> poll() {
    const std::lock_guard lock(mutex_);
    return take();
  }
  std::optional<Completion> wait(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, patience, [&] { return !done_.empty(); });
    return take();
  }
  void cancel(ReadTicket ticket) {
    finish([&](const Pending& p) { return p.ticket == ticket; }, Error{Errc::interrupted, "cancelled"});
  }
  void promote(ReadTicket ticket) {
    const std::lock_guard lock(mutex_);
    for (Pending& p : pending_) {
      if (p.ticket == ticket) p.urgency = Urgency::demand;
    }
  }
  StoreAlignment alignment() const noexcept { return {64, 0}; }

  //--- the test's side ---

  void arrive(ExpertId expert, Part part) {
    finish([&](const Pending& p) { return p.key.expert == expert && p.part == part; }, std::nullopt);
  }
  void arrive(ExpertId expert) {
    for (const Part part : {Part::gate, Part::up, Part::down}) arrive(expert, part);
  }
  void fail(ExpertId expert, Part part) {
    finish([&](const Pending& p) { return p.key.expert == expert && p.part == part; },
           Error{Errc::io, "made to fail", text_of({LayerId{1}, expert}, part), "the file"});
  }
  std::vector<Pending> pending() const {
    const std::lock_guard lock(mutex_);
    return {pending_.begin(), pending_.end()};
  }

 private:
  template <class Which>
  void finish(Which&& which, std::optional<Error> error) {
    const std::lock_guard lock(mutex_);
    const auto at = std::find_if(pending_.begin(), pending_.end(), which);
    if (at == pending_.end()) return;
    if (error) {
      done_.push_back({at->ticket, *error});
    } else {
      const std::uint64_t n = index_->part_bytes(at->key.layer, at->part);
      for (std::uint64_t i = 0; i < n; ++i) at->destination[i] = expert_byte(at->key, at->part, i);
      done_.push_back({at->ticket, at->destination.data()});
    }
    pending_.erase(at);
    changed_.notify_all();
  }
  std::optional<Completion> take() {
    if (done_.empty()) return std::nullopt;
    std::optional<Completion> first(std::move(done_.front()));
    done_.pop_front();
    return first;
  }

  const ExpertIndex* index_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Pending> pending_;
  std::deque<Completion> done_;
  std::uint64_t next_ = 1;
};
static_assert(require_expert_store<ManualStore>());

}  // namespace coli::test
