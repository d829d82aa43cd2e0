// SPDX-License-Identifier: Apache-2.0
// Faults on purpose, the same ones for the same seed: what tests put between the cache and a store, or a store and the
// kernel.
//
// FaultyStore wraps any store and delays, reorders or fails whole completions. FaultyReads is an Ops for stores that
// copy: it turns what the kernel answered into short reads, EINTR, EAGAIN, EIO, a refusal of direct I/O, or a file that
// was cut. Neither changes bytes: a run that ends well has computed what a run without faults computes.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "coli/contracts/expert_store.hpp"
#include "coli/core/error.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/core/ids.hpp"
#include "coli/store/expert_index.hpp"
#include "coli/store/read_ops.hpp"

namespace coli {

/// Good enough bits for choosing faults: a mix of seed and count.
constexpr std::uint64_t fault_bits(std::uint64_t seed, std::uint64_t count) noexcept {
  std::uint64_t x = (seed + 1) * 0x9E3779B97F4A7C15U + count * 0xD1B54A32D192ED03U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

/// Of the kernel's answers, one in how many is made this? 0: none.
struct ReadFaults {
  std::uint64_t seed = 0;
  std::uint32_t short_read = 0;
  std::uint32_t eintr = 0;
  std::uint32_t eagain = 0;
  std::uint32_t eio = 0;
  bool refuse_direct = false;                                        // EINVAL for every direct read
  std::uint64_t cut_at = std::numeric_limits<std::uint64_t>::max();  // the files end here, since they were opened
};

class FaultyReads {
 public:
  explicit FaultyReads(ReadFaults faults = {})
      : faults_(faults), count_(std::make_shared<std::atomic<std::uint64_t>>(0)) {}

  ssize_t amend(const ReadAttempt& attempt, ssize_t result) const {
    const std::uint64_t bits = fault_bits(faults_.seed, count_->fetch_add(1, std::memory_order_relaxed));
    const auto one_in = [bits](std::uint32_t n, unsigned lane) { return n != 0 && fault_bits(bits, lane) % n == 0; };
    if (attempt.direct && faults_.refuse_direct) return -EINVAL;
    if (one_in(faults_.eintr, 1)) return -EINTR;
    if (one_in(faults_.eagain, 2)) return -EAGAIN;
    if (one_in(faults_.eio, 3)) return -EIO;
    if (result > 0 && attempt.offset + static_cast<std::uint64_t>(result) > faults_.cut_at) {
      result = attempt.offset >= faults_.cut_at ? 0 : static_cast<ssize_t>(faults_.cut_at - attempt.offset);
    }
    if (result > 1 && one_in(faults_.short_read, 4)) {
      result = 1 + static_cast<ssize_t>(fault_bits(bits, 5) % static_cast<std::uint64_t>(result - 1));
    }
    return result;
  }

  /// Answers seen so far, by all copies.
  std::uint64_t n_attempts() const noexcept { return count_->load(); }

 private:
  ReadFaults faults_;
  std::shared_ptr<std::atomic<std::uint64_t>> count_;
};

struct StoreFaults {
  std::uint64_t seed = 0;
  std::chrono::microseconds longest_delay{0};
  bool reorder = false;
  std::uint32_t fail_one_in = 0;  // completions that are made I/O errors; 0: none
};

/// The wrapped store must outlive this one.
template <ExpertStore S>
class FaultyStore {
 public:
  static constexpr FixedName name{"faulty"};

  FaultyStore(S& store, const ExpertIndex& index, StoreFaults faults)
      : store_(&store), index_(&index), faults_(faults) {}

  Result<ReadTicket> submit(ExpertKey key, Part part, std::span<std::byte> destination, Urgency urgency) {
    const std::lock_guard lock(mutex_);
    auto ticket = store_->submit(key, part, destination, urgency);
    if (ticket) asked_.push_back({*ticket, key, part, false});
    return ticket;
  }

  std::optional<Completion> poll() {
    const std::lock_guard lock(mutex_);
    while (auto completion = store_->poll()) hold(std::move(*completion));
    return take_due();
  }
  std::optional<Completion> wait(std::chrono::milliseconds patience) {
    const auto deadline = Clock::now() + patience;
    for (;;) {
      auto until = deadline;
      {
        const std::lock_guard lock(mutex_);
        while (auto completion = store_->poll()) hold(std::move(*completion));
        if (auto completion = take_due()) return completion;
        if (asked_.empty() && held_.empty()) return std::nullopt;
        for (const Held& held : held_) until = std::min(until, held.due);
      }
      const auto left = until - Clock::now();
      if (left <= Clock::duration::zero() && until == deadline) return std::nullopt;
      auto completion =
          store_->wait(std::max(std::chrono::ceil<std::chrono::milliseconds>(left), std::chrono::milliseconds(0)));
      bool all_held = false;
      {
        const std::lock_guard lock(mutex_);
        if (completion)
          hold(std::move(*completion));
        else
          all_held = asked_.empty();
      }
      if (all_held) std::this_thread::sleep_until(until);  // the wrapped store has nothing that could be waited for
    }
  }
  void cancel(ReadTicket ticket) {
    const std::lock_guard lock(mutex_);
    store_->cancel(ticket);
    for (Held& held : held_) {
      if (held.completion.ticket == ticket) held.due = Clock::now();
    }
    for (Asked& asked : asked_) {
      if (asked.ticket == ticket) asked.cancelled = true;
    }
  }
  void promote(ReadTicket ticket) { store_->promote(ticket); }
  StoreAlignment alignment() const noexcept { return store_->alignment(); }
  /// For completions that come from now on; what was held back comes at once.
  void set_faults(StoreFaults faults) {
    const std::lock_guard lock(mutex_);
    faults_ = faults;
    for (Held& held : held_) held.due = Clock::now();
  }
  void begin_reads() requires BatchesReads<S> { store_->begin_reads(); }
  void adopt(std::span<std::byte> region) requires AdoptsDestinations<S> { store_->adopt(region); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Asked {
    ReadTicket ticket;
    ExpertKey key;
    Part part;
    bool cancelled = false;
  };
  struct Held {
    Completion completion;
    Clock::time_point due;
  };

  void hold(Completion completion) {
    const std::uint64_t bits = fault_bits(faults_.seed, count_++);
    const auto at =
        std::find_if(asked_.begin(), asked_.end(), [&](const Asked& a) { return a.ticket == completion.ticket; });
    bool hurry = false;
    if (at != asked_.end()) {
      if (faults_.fail_one_in != 0 && fault_bits(bits, 1) % faults_.fail_one_in == 0 && completion.data) {
        const Extent extent = index_->extent(at->key, at->part);
        completion.data = Error{Errc::io,
                                "reading " + std::to_string(extent.bytes) + " bytes at offset " +
                                    std::to_string(extent.offset) + ": made to fail",
                                text_of(at->key, at->part), index_->files()[extent.file].path};
      }
      hurry = at->cancelled;
      asked_.erase(at);
    }
    const auto longest = hurry ? 0 : static_cast<std::uint64_t>(faults_.longest_delay.count());
    const std::chrono::microseconds delay(longest == 0 ? 0 : fault_bits(bits, 2) % (longest + 1));
    held_.push_back({std::move(completion), Clock::now() + delay});
  }
  std::optional<Completion> take_due() {
    const auto now = Clock::now();
    std::vector<std::size_t> due;
    for (std::size_t i = 0; i < held_.size(); ++i) {
      if (held_[i].due <= now) due.push_back(i);
    }
    if (due.empty()) return std::nullopt;
    const std::size_t i = faults_.reorder ? due[fault_bits(faults_.seed, count_++) % due.size()] : due.front();
    std::optional<Completion> taken(std::move(held_[i].completion));
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
    return taken;
  }

  S* store_;
  const ExpertIndex* index_;
  StoreFaults faults_;
  std::mutex mutex_;
  std::vector<Asked> asked_;
  std::vector<Held> held_;
  std::uint64_t count_ = 0;
};

}  // namespace coli
