// SPDX-License-Identifier: Apache-2.0
// Any store of the ladder with faults on schedule and every call counted: what an engine under test reads from.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coli/store/any_store.hpp"
#include "coli/store/faulty_store.hpp"

namespace coli::test {

class ScheduledStore {
 public:
  static constexpr FixedName name{"scheduled"};

  /// As AnyStore::open; starts without faults.
  static Result<std::unique_ptr<ScheduledStore>> open(const ExpertIndex& index, StoreOptions options) {
    COLI_TRY(inner, AnyStore::open(index, options));
    return std::unique_ptr<ScheduledStore>(new ScheduledStore(std::move(inner), index));
  }

  Result<ReadTicket> submit(ExpertKey key, Part part, std::span<std::byte> destination, Urgency urgency) {
    {
      const std::lock_guard lock(mutex_);
      ++n_submitted_[{key, part}];
    }
    n_pending_.fetch_add(1);
    return faulty_.submit(key, part, destination, urgency);
  }
  void begin_reads() { faulty_.begin_reads(); }
  std::optional<Completion> poll() {
    auto completion = counted(faulty_.poll());
    if (completion && n_waiting_.load() != 0) n_stolen_.fetch_add(1);
    return completion;
  }
  std::optional<Completion> wait(std::chrono::milliseconds patience) {
    n_waits_.fetch_add(1);
    if (patience > longest_patience_.load()) longest_patience_.store(patience);
    n_waiting_.fetch_add(1);
    auto completion = counted(faulty_.wait(patience));
    n_waiting_.fetch_sub(1);
    return completion;
  }
  void cancel(ReadTicket ticket) { faulty_.cancel(ticket); }
  void promote(ReadTicket ticket) { faulty_.promote(ticket); }
  StoreAlignment alignment() const noexcept { return inner_->alignment(); }
  void adopt(std::span<std::byte> region) { inner_->adopt(region); }
  std::string_view rung() const { return inner_->rung(); }
  std::vector<std::string> notes() const { return inner_->notes(); }

  //--- the test's side ---

  void set_faults(StoreFaults faults) { faulty_.set_faults(faults); }
  std::uint64_t n_waits() const { return n_waits_.load(); }
  std::chrono::milliseconds longest_patience() const { return longest_patience_.load(); }
  /// Completions that poll() took while somebody sat in wait(), who then may wait for nothing.
  std::uint64_t n_stolen() const { return n_stolen_.load(); }
  std::int64_t n_pending() const { return n_pending_.load(); }
  /// By expert and part: how often it was asked for since the last call.
  std::map<std::pair<ExpertKey, Part>, std::uint32_t> take_submitted() {
    const std::lock_guard lock(mutex_);
    return std::exchange(n_submitted_, {});
  }

 private:
  ScheduledStore(std::unique_ptr<AnyStore> inner, const ExpertIndex& index) : inner_(std::move(inner)), faulty_(*inner_, index, {}) {}
  std::optional<Completion> counted(std::optional<Completion> completion) {
    if (completion) n_pending_.fetch_sub(1);
    return completion;
  }

  std::unique_ptr<AnyStore> inner_;
  FaultyStore<AnyStore> faulty_;
  std::mutex mutex_;
  std::map<std::pair<ExpertKey, Part>, std::uint32_t> n_submitted_;
  std::atomic<std::uint64_t> n_waits_{0};
  std::atomic<std::int64_t> n_pending_{0};
  std::atomic<int> n_waiting_{0};
  std::atomic<std::uint64_t> n_stolen_{0};
  std::atomic<std::chrono::milliseconds> longest_patience_{std::chrono::milliseconds(0)};
};
static_assert(require_expert_store<ScheduledStore>() && AdoptsDestinations<ScheduledStore> && BatchesReads<ScheduledStore>);

}  // namespace coli::test
