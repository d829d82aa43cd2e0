// SPDX-License-Identifier: Apache-2.0
// A device of the CPU (contracts/device.hpp): bodies on the emulator, work done as late as the contract allows.
//
// Everything asked for is kept until a finish needs it, and then only what that finish needs is done: an upload reads its
// source at that moment, queues run past each other wherever no `after` forbids it. Sequences play with the arguments of
// their capture. Fresh memory is all ones: NaN. A host program that is right here waits where it must and keeps its
// buffers as long as it must; `Haste::eager` does everything at once, which is the other extreme.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coli/contracts/device.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/core/thread_pool.hpp"
#include "coli/kernels/grid/host_grid.hpp"

namespace coli::grid {

/// lazy: as late as may be. eager: at once. copies_last: launches at once, copies beside them as late as may be.
enum class Haste : std::uint8_t { lazy, eager, copies_last };

struct HostQueuesOptions {
  Haste haste = Haste::lazy;
  GridOptions grid{};
  unsigned n_threads = 2;
  Bytes own_memory{};         // see own_memory()
  bool forget_after = false;  // planted: `after` orders nothing
  bool forget_finish = false; // planted: finish of the copies does nothing
  bool refuse_recordings = false;  // planted: no recording becomes a sequence
  bool refuse_pins = false;        // planted: no memory is pinned
};

class HostQueues {
 public:
  static constexpr FixedName name{"grid"};
  using Work = std::function<Result<void>()>;
  struct Sequence {
    std::vector<Work> work;
    Sequence() = default;
    Sequence(Sequence&&) = default;
    Sequence& operator=(Sequence&&) = default;
  };
  struct Counts : DeviceWork {
    std::uint64_t finishes = 0;
  };

  explicit HostQueues(HostQueuesOptions options = {}) : options_(options), pool_(options.n_threads), grid_(pool_, options.grid) {}
  HostQueues(const HostQueues&) = delete;
  HostQueues& operator=(const HostQueues&) = delete;

  Bytes available_memory() const noexcept { return Bytes{kGiB}; }
  Bytes own_memory() const noexcept { return options_.own_memory; }
  Counts take_counts() noexcept { return std::exchange(counts_, {}); }
  DeviceWork work() const noexcept { return counts_; }
  void time_bodies(bool on) noexcept { is_timing_ = on; }
  std::vector<BodyTime> body_times() const { return times_.all(); }

  Result<std::byte*> allocate(Bytes bytes) {
    if (recording_) return spoil_recording("allocate");
    const std::size_t n = (bytes.value + kAlignment - 1) / kAlignment * kAlignment;
    auto* at = static_cast<std::byte*>(::operator new(n == 0 ? kAlignment : n, std::align_val_t{kAlignment}, std::nothrow));
    if (at == nullptr) return Error{Errc::over_budget, "the system refused " + to_text(bytes), "grid"};
    std::memset(at, 0xFF, n);
    return at;
  }
  void free(std::byte* at) noexcept { ::operator delete(at, std::align_val_t{kAlignment}); }

  void upload(Queue queue, std::byte* to, const std::byte* from, std::size_t n) { copy(queue, to, from, n); }
  void download(std::byte* to, const std::byte* from, std::size_t n) { copy(Queue::compute, to, from, n); }
  void clear(std::byte* at, std::size_t n) {
    put(Queue::compute, [=]() -> Result<void> {
      std::memset(at, 0, n);
      return {};
    });
  }
  void pin(std::byte*, std::size_t n) {
    if (options_.refuse_pins) counts_.unpinned_bytes += n;
  }
  void unpin(std::byte*) noexcept {}

  void after(Queue later, Queue earlier) {
    if (options_.forget_after) return;
    const std::uint64_t until = state(earlier).n_asked;
    put(later, [this, earlier, until]() -> Result<void> { return run(earlier, until); });
  }
  Result<void> finish(Queue queue) {
    if (recording_) return spoil_recording("finish");
    ++counts_.finishes;
    if (!(options_.forget_finish && queue == Queue::copies)) note(run(queue, state(queue).n_asked));
    if (auto failure = std::exchange(failure_, std::nullopt)) return *std::move(failure);
    return {};
  }

  template <Body B>
  void launch(const B& body, LaunchShape shape) {
    static_assert(std::is_trivially_copyable_v<B>);
    if (!recording_) ++counts_.launches;
    put(Queue::compute, [this, body, shape] {
      if (!is_timing_) return grid_.launch(body, shape);
      const auto start = std::chrono::steady_clock::now();
      auto done = grid_.launch(body, shape);
      times_.add(B::name.view(), std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      return done;
    });
  }

  void begin_capture() {
    recording_.emplace();
    spoiled_by_.reset();
  }
  Result<Sequence> end_capture() {
    if (!recording_) return Error{Errc::internal, "end_capture without begin_capture", "grid"};
    Sequence sequence = std::move(*recording_);
    recording_.reset();
    if (spoiled_by_) return *std::exchange(spoiled_by_, std::nullopt);
    if (options_.refuse_recordings) return Error{Errc::over_budget, "no sequence is made of a recording", "grid"};
    return sequence;
  }
  void replay(Sequence& sequence) {
    ++counts_.replays;
    counts_.nodes += sequence.work.size();
    for (const Work& work : sequence.work) put(Queue::compute, work);
  }

 private:
  static constexpr std::size_t kAlignment = 256;
  struct State {
    std::deque<Work> waiting;
    std::uint64_t n_asked = 0, n_done = 0;
  };
  State& state(Queue queue) { return states_[static_cast<std::size_t>(queue)]; }

  void copy(Queue queue, std::byte* to, const std::byte* from, std::size_t n) {
    put(queue, [=]() -> Result<void> {
      std::memcpy(to, from, n);
      return {};
    });
  }
  void put(Queue queue, Work work) {
    if (recording_ && queue == Queue::compute) {
      recording_->work.push_back(std::move(work));
      return;
    }
    State& s = state(queue);
    s.waiting.push_back(std::move(work));
    ++s.n_asked;
    if (options_.haste == Haste::eager || (options_.haste == Haste::copies_last && queue == Queue::compute)) note(run(queue, s.n_asked));
  }
  /// Does the queue's work up to its `until`-th piece. After a failure nothing more is done.
  Result<void> run(Queue queue, std::uint64_t until) {
    State& s = state(queue);
    while (s.n_done < until && !s.waiting.empty()) {
      const Work work = std::move(s.waiting.front());
      s.waiting.pop_front();
      ++s.n_done;
      if (!failure_) note(work());
    }
    return {};
  }
  /// As CUDA does: the call fails, and so does the end of the recording.
  Error spoil_recording(const char* call) {
    if (!spoiled_by_) spoiled_by_ = Error{Errc::internal, std::string(call) + " while a sequence is recorded", "grid"};
    return *spoiled_by_;
  }
  void note(Result<void> done) {
    if (!done && !failure_) failure_ = std::move(done).error();
  }

  HostQueuesOptions options_;
  ThreadPool pool_;
  HostGrid grid_;
  State states_[2];
  std::optional<Sequence> recording_;
  std::optional<Error> failure_, spoiled_by_;
  Counts counts_;
  bool is_timing_ = false;
  BodyTimes times_;
};
static_assert(Device<HostQueues> && require_device<HostQueues>());

}  // namespace coli::grid
