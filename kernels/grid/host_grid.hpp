// SPDX-License-Identifier: Apache-2.0
// Runs a GPU kernel body on the CPU: the host grid emulator.
//
// Two schedulers. Fibers: the threads of a block take turns in an order shuffled by a seed, shared memory is poisoned
// (every float in it is NaN), blocks are spread over a worker pool in shuffled order; deterministic, and fast enough for a
// whole engine. Threads: one std::thread a GPU thread, blocks side by side, for a thread sanitizer. A launch that breaks
// a rule (see thread.hpp) is an error that says which thread, where, and what; outputs are then worthless.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/core/thread_pool.hpp"
#include "coli/kernels/grid/host_fibers.hpp"
#include "coli/kernels/grid/host_thread.hpp"

namespace coli::grid {

using host::Planted;

enum class Scheduler : std::uint8_t { fibers, threads };

struct GridOptions {
  Scheduler scheduler = Scheduler::fibers;
  std::uint64_t seed = 1;     // of the order of threads and blocks
  bool check_races = false;   // log every access (fibers only; slow)
  Planted planted = Planted::nothing;
};

namespace host {

/// The first fault of a launch; any thread may report.
class FaultNote {
 public:
  void set(std::string text) {
    const std::lock_guard lock(mutex_);
    if (!text_) text_ = std::move(text);
  }
  std::optional<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(text_, std::nullopt);
  }

 private:
  std::mutex mutex_;
  std::optional<std::string> text_;
};

/// Small, seeded, the same everywhere: splitmix64.
class Shuffler {
 public:
  explicit Shuffler(std::uint64_t seed) : state_(seed) {}
  std::uint32_t below(std::uint32_t n) {
    std::uint64_t z = state_ += 0x9E37'79B9'7F4A'7C15u;
    z = (z ^ (z >> 30)) * 0xBF58'476D'1CE4'E5B9u;
    z = (z ^ (z >> 27)) * 0x94D0'49BB'1331'11EBu;
    return static_cast<std::uint32_t>(((z ^ (z >> 31)) >> 32) * n >> 32);
  }
  void shuffle(std::uint32_t* values, std::uint32_t n) {
    for (std::uint32_t i = n; i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }

 private:
  std::uint64_t state_;
};

/// Who is where: shared by both schedulers. A meeting is complete when all its members are there with the same verb at the
/// same line; one that can never complete is a divergent barrier.
struct Attendance {
  struct Place {
    Meeting meeting = Meeting::none;
    const char* what = "";
    Line line = 0;
    bool is_done = false;
  };
  std::vector<Place> places;
  std::vector<std::uint32_t> in_warp;
  std::uint32_t in_block = 0, n_waiting = 0, n_done = 0;

  void reset(std::uint32_t n_threads) {
    places.assign(n_threads, {});
    in_warp.assign(n_threads / kWarp, 0);
    in_block = n_waiting = n_done = 0;
  }
  /// Did this complete the meeting?
  bool arrive(std::uint32_t thread, Meeting meeting, const char* what, Line line) {
    places[thread] = {meeting, what, line, false};
    ++n_waiting;
    if (meeting == Meeting::warp) return ++in_warp[thread / kWarp] == kWarp;
    return ++in_block == places.size();
  }
  /// Clears the completed meeting of which `thread` is a member; members are [first, first + n). A sentence if they differ.
  std::optional<std::string> complete(std::uint32_t thread, Meeting meeting, std::uint32_t& first, std::uint32_t& n) {
    first = meeting == Meeting::warp ? thread / kWarp * kWarp : 0;
    n = meeting == Meeting::warp ? kWarp : static_cast<std::uint32_t>(places.size());
    std::optional<std::string> differ;
    for (std::uint32_t i = first; i < first + n; ++i) {
      if (!differ && (places[i].line != places[first].line || places[i].what != places[first].what)) differ = divergence(first, i);
      places[i].meeting = Meeting::none;
    }
    (meeting == Meeting::warp ? in_warp[thread / kWarp] : in_block) = 0;
    n_waiting -= n;
    return differ;
  }
  /// Nobody can go on: who waits, and who does not come?
  std::string stuck() const {
    std::uint32_t waiter = 0;
    while (places[waiter].meeting == Meeting::none) ++waiter;
    const bool warp = places[waiter].meeting == Meeting::warp;
    const std::uint32_t first = warp ? waiter / kWarp * kWarp : 0, n = warp ? kWarp : static_cast<std::uint32_t>(places.size());
    for (std::uint32_t i = first; i < first + n; ++i)
      if (places[i].meeting != places[waiter].meeting) return divergence(waiter, i);
    return divergence(waiter, waiter);
  }

 private:
  std::string at(std::uint32_t i) const {
    if (places[i].is_done) return "thread " + std::to_string(i) + " has returned";
    return "thread " + std::to_string(i) + " is at " + places[i].what + " (line " + std::to_string(places[i].line) + ")";
  }
  std::string divergence(std::uint32_t a, std::uint32_t b) const { return "divergent barrier: " + at(a) + ", " + at(b); }
};

/// A body without its type: one copy of the schedulers for all of them.
struct AnyBody {
  const void* body;
  void (*call)(const void* body, BlockRun& run, std::uint32_t thread);
  std::size_t shared_bytes;
  std::string_view name;
};

/// Runs one block after another on fibers of the calling CPU thread.
class FiberBlock final : public BlockRun {
 public:
  explicit FiberBlock(FaultNote& faults) : faults_(faults) {}

  /// False where the system refuses the stacks.
  [[nodiscard]] bool run(const AnyBody& body, std::uint64_t seed) {
    if (!fibers_.reserve(n_threads, &FiberBlock::live, this)) return false;
    body_ = &body;
    shuffler_ = Shuffler(seed);
    attendance_.reset(n_threads);
    results.assign(n_threads / kWarp + 1, {});
    ready_.clear(), next_ = 0;
    make_ready(0, n_threads);
    enter_from_here(home_);
    switch_context(home_, fibers_[take()]);
    if (attendance_.n_done != n_threads) {  // nobody is ready, somebody waits
      fault("block " + std::to_string(number) + ": " + attendance_.stuck());
      for (std::uint32_t i = 0; i < n_threads; ++i) fibers_.prepare(i);
    }
    return true;
  }

  void meet(std::uint32_t thread, Meeting meeting, const char* what, Line line) override {
    if (attendance_.arrive(thread, meeting, what, line)) {
      std::uint32_t first = 0, n = 0;
      if (auto differ = attendance_.complete(thread, meeting, first, n)) fault("block " + std::to_string(number) + ": " + *differ);
      make_ready(first, n);
    }
    leave(thread);
  }
  void fault(std::string text) override { faults_.set(std::move(text)); }

 private:
  static void live(void* self, std::uint32_t thread) {
    auto& block = *static_cast<FiberBlock*>(self);
    for (;;) {  // one turn a block
      block.body_->call(block.body_->body, block, thread);
      block.attendance_.places[thread].is_done = true;
      ++block.attendance_.n_done;
      block.leave(thread);
    }
  }

  void make_ready(std::uint32_t first, std::uint32_t n) {
    if (next_ == ready_.size()) ready_.clear(), next_ = 0;
    const std::size_t begin = ready_.size();
    ready_.resize(begin + n);
    std::iota(ready_.begin() + static_cast<std::ptrdiff_t>(begin), ready_.end(), first);
    shuffler_.shuffle(ready_.data() + begin, n);
  }
  std::uint32_t take() { return ready_[next_++]; }

  /// Hands the CPU to whoever is ready, or home.
  void leave(std::uint32_t thread) {
    if (next_ == ready_.size()) {
      switch_context(fibers_[thread], home_);
    } else if (const std::uint32_t other = take(); other != thread) {
      switch_context(fibers_[thread], fibers_[other]);
    } else if (attendance_.places[thread].is_done) {
      switch_context(fibers_[thread], home_);
    }
  }

  FaultNote& faults_;
  Fibers fibers_;
  Context home_;
  const AnyBody* body_ = nullptr;
  Shuffler shuffler_{0};
  Attendance attendance_;
  std::vector<std::uint32_t> ready_;
  std::size_t next_ = 0;
};

/// One std::thread a GPU thread. Meetings order memory, nothing else does: what a thread sanitizer needs to see.
class ThreadBlock final : public BlockRun {
 public:
  explicit ThreadBlock(FaultNote& faults) : faults_(faults) {}

  void start(std::uint32_t n) { attendance_.reset(n), generation_.assign(n, 0); }
  void meet(std::uint32_t thread, Meeting meeting, const char* what, Line line) override {
    std::unique_lock lock(mutex_);
    if (is_stuck_) return;
    const std::uint64_t mine = generation_[thread];
    if (attendance_.arrive(thread, meeting, what, line)) {
      std::uint32_t first = 0, n = 0;
      if (auto differ = attendance_.complete(thread, meeting, first, n)) fault("block " + std::to_string(number) + ": " + *differ);
      for (std::uint32_t i = first; i < first + n; ++i) ++generation_[i];
      moved_.notify_all();
    } else {
      check_stuck();
      moved_.wait(lock, [&] { return is_stuck_ || generation_[thread] != mine; });
    }
  }
  void done(std::uint32_t thread) {
    const std::lock_guard lock(mutex_);
    attendance_.places[thread].is_done = true;
    ++attendance_.n_done;
    check_stuck();
  }
  void fault(std::string text) override { faults_.set(std::move(text)); }

 private:
  void check_stuck() {
    if (is_stuck_ || attendance_.n_waiting == 0 || attendance_.n_waiting + attendance_.n_done != attendance_.places.size()) return;
    fault("block " + std::to_string(number) + ": " + attendance_.stuck());
    is_stuck_ = true;  // from here on nobody waits for anybody
    moved_.notify_all();
  }

  FaultNote& faults_;
  std::mutex mutex_;
  std::condition_variable moved_;
  Attendance attendance_;
  std::vector<std::uint64_t> generation_;
  bool is_stuck_ = false;
};

/// A block's shared memory, every byte 0xFF: NaN in any float.
struct alignas(128) SharedLine {
  std::byte bytes[128];
};
using SharedMemory = std::vector<SharedLine>;
inline std::byte* poisoned(SharedMemory& memory, std::size_t bytes) {
  memory.resize((bytes + sizeof(SharedLine) - 1) / sizeof(SharedLine));
  std::memset(memory.data(), 0xFF, memory.size() * sizeof(SharedLine));
  return memory.front().bytes;
}

}  // namespace host

/// The emulator of one device. One launch at a time; launches are done when they return.
class HostGrid {
 public:
  static constexpr FixedName name{"host grid"};

  /// `pool` spreads blocks over its workers and outlives the grid.
  explicit HostGrid(ThreadPool& pool, GridOptions options = {}) : pool_(&pool), options_(options), seed_(options.seed) {}

  /// Runs `body` for every thread of the shape. Errors: internal, naming the body: a rule of thread.hpp is broken.
  template <Body B>
  Result<void> launch(const B& body, LaunchShape shape) {
    static_assert(std::is_trivially_copyable_v<B> && std::is_trivially_destructible_v<typename B::Shared>);
    if (!takes<B>(shape)) return Error{Errc::internal, "is not to be launched as " + to_text(shape), "kernel " + std::string(B::name.view())};
    return launch({&body, &call<B>, sizeof(typename B::Shared), B::name.view()}, shape);
  }

 private:
  static constexpr std::uint32_t kMostThreads = LaunchShape::kMostThreads;

  template <class B>
  static void call(const void* body, host::BlockRun& run, std::uint32_t thread) {
    host::HostThread t(run, thread);
    (*static_cast<const B*>(body))(t, *reinterpret_cast<typename B::Shared*>(run.shared));
  }

  Result<void> launch(const host::AnyBody& body, const LaunchShape& shape) {
    const auto broken = [&](std::string what) { return Error{Errc::internal, std::move(what), "kernel " + std::string(body.name)}; };
    const std::uint64_t n_blocks = std::uint64_t{shape.blocks_x} * shape.blocks_y;
    if (n_blocks > UINT32_MAX) return broken(std::to_string(n_blocks) + " blocks are too many");
    if (options_.scheduler == Scheduler::threads) run_on_threads(body, shape, static_cast<std::uint32_t>(n_blocks));
    else run_on_fibers(body, shape, static_cast<std::uint32_t>(n_blocks));
    if (auto race = log_.judge(); race) faults_.set(std::move(*race));
    if (auto fault = faults_.take()) return broken(std::move(*fault));
    return {};
  }

  void describe(host::BlockRun& run, std::uint32_t block, const LaunchShape& shape, host::SharedMemory& shared, std::size_t shared_bytes) const {
    run.index = {block % shape.blocks_x, block / shape.blocks_x}, run.number = block;
    run.n_threads = shape.threads;
    run.shared = host::poisoned(shared, shared_bytes), run.shared_bytes = shared_bytes;
    run.deposits.resize(shape.threads);
    run.planted = options_.planted;
  }

  void run_on_fibers(const host::AnyBody& body, const LaunchShape& shape, std::uint32_t n_blocks) {
    order_.resize(n_blocks);
    std::iota(order_.begin(), order_.end(), 0U);
    host::Shuffler(++seed_).shuffle(order_.data(), n_blocks);
    while (workers_.size() < (options_.check_races ? 1 : pool_->n_workers())) workers_.push_back(std::make_unique<Worker>(faults_));
    const auto run = [&](std::size_t task, unsigned worker) {
      auto& [block, shared] = *workers_[worker];
      describe(block, order_[task], shape, shared, body.shared_bytes);
      block.log = options_.check_races ? &log_ : nullptr;
      if (options_.check_races) block.is_written.assign(body.shared_bytes, false);
      if (!block.run(body, seed_ ^ (std::uint64_t{order_[task]} << 32))) faults_.set("the system refused the stacks of a block");
    };
    if (options_.check_races || n_blocks == 1) {
      for (std::uint32_t task = 0; task < n_blocks; ++task) run(task, 0);
    } else {
      pool_->for_each(n_blocks, run);
    }
  }

  /// Blocks side by side, as many as make kMostThreads threads.
  void run_on_threads(const host::AnyBody& body, const LaunchShape& shape, std::uint32_t n_blocks) {
    const std::uint32_t together = std::max(kMostThreads / shape.threads, 1U);
    for (std::uint32_t first = 0; first < n_blocks; first += together) {
      const std::uint32_t n = std::min(together, n_blocks - first);
      std::vector<std::unique_ptr<host::ThreadBlock>> blocks;
      std::vector<host::SharedMemory> shared(n);
      for (std::uint32_t b = 0; b < n; ++b) {
        auto& block = *blocks.emplace_back(std::make_unique<host::ThreadBlock>(faults_));
        describe(block, first + b, shape, shared[b], body.shared_bytes);
        block.start(shape.threads);
      }
      std::vector<std::thread> threads;
      for (std::uint32_t i = 0; i < n * shape.threads; ++i)
        threads.emplace_back([&, i] {
          host::ThreadBlock& block = *blocks[i / shape.threads];
          body.call(body.body, block, i % shape.threads);
          block.done(i % shape.threads);
        });
      for (std::thread& t : threads) t.join();
    }
  }

  struct Worker {
    explicit Worker(host::FaultNote& faults) : block(faults) {}
    host::FiberBlock block;
    host::SharedMemory shared;
  };

  ThreadPool* pool_;
  GridOptions options_;
  std::uint64_t seed_;
  host::FaultNote faults_;
  host::AccessLog log_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::uint32_t> order_;
};

}  // namespace coli::grid
