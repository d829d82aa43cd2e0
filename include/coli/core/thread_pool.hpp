// SPDX-License-Identifier: Apache-2.0
// Who computes? A small fork-join pool: one region at a time, the caller is worker 0.
//
// A decode step opens some 250 regions of 10-500 microseconds each, so workers spin briefly before they sleep: a
// futex wake alone costs as much as a small region. A region ends when its work is done, not when every worker has
// been there: on a machine with less time than workers, waiting for a thread that isn't scheduled costs milliseconds a
// region. Regions may not nest and must not throw.
// Results never depend on who takes part: tasks write to places of their own.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace coli {

/// Tells the core that this is a spin loop.
inline void spin_pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class ThreadPool {
 public:
  explicit ThreadPool(unsigned n_workers) : n_workers_(std::max(n_workers, 1U)) {
    threads_.reserve(n_workers_ - 1);
    for (unsigned worker = 1; worker < n_workers_; ++worker) threads_.emplace_back([this, worker] { serve(worker); });
  }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool() {
    stop_.store(true, std::memory_order_relaxed);
    open_region(0);
    for (std::thread& thread : threads_) thread.join();
  }

  unsigned n_workers() const noexcept { return n_workers_; }

  /// Calls `fn(worker)` on the caller, worker 0, and once on each other worker (below n_workers()) that comes before the
  /// caller's call returns; returns when all these have returned. Whoever comes must find what is left to do: the
  /// caller alone may have to do all of it.
  template <class Fn>
  void run(Fn&& fn) {
    if (n_workers_ == 1) {
      fn(0U);
      return;
    }
    context_ = const_cast<void*>(static_cast<const void*>(std::addressof(fn)));
    call_ = [](void* context, unsigned worker) { (*static_cast<std::remove_reference_t<Fn>*>(context))(worker); };
    open_region(kOpen);
    fn(0U);
    state_.fetch_and(~kOpen, std::memory_order_relaxed);
    for (unsigned spins = 0; (state_.load(std::memory_order_acquire) & kInside) != 0; ++spins) {
      if (spins < kSpins) spin_pause();
      else std::this_thread::yield();
    }
  }

  /// Calls `fn(task, worker)` for each 0 <= task < n_tasks; idle workers take the next one.
  template <class Fn>
  void for_each(std::size_t n_tasks, Fn&& fn) {
    if (n_workers_ == 1 || n_tasks <= 1) {
      for (std::size_t task = 0; task < n_tasks; ++task) fn(task, 0U);
      return;
    }
    std::atomic<std::size_t> next{0};
    run([&](unsigned worker) {
      for (std::size_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < n_tasks;) fn(task, worker);
    });
  }

 private:
  static constexpr unsigned kSpins = 20'000;  // about 0.2-0.5 ms: longer than the serial parts between two regions

  // One word says it all: may workers enter, how many are inside, and which region this is. The region's number wraps;
  // a worker that slept through exactly 65,536 regions misses one more, which is allowed.
  static constexpr std::uint32_t kOpen = 1;
  static constexpr std::uint32_t kOneInside = 2;
  static constexpr std::uint32_t kInside = 0xFFFE;
  static constexpr std::uint32_t kGeneration = 0xFFFF'0000;
  static constexpr std::uint32_t next_generation(std::uint32_t state) { return (state & kGeneration) + 0x1'0000; }

  /// Sequentially consistent, because notify_all() looks for sleepers after it: with a weaker store that look may come
  /// first, miss one who is about to sleep on the old value, and leave him asleep for good.
  void open_region(std::uint32_t flags) {
    state_.store(next_generation(state_.load(std::memory_order_relaxed)) | flags, std::memory_order_seq_cst);
    state_.notify_all();
  }

  void serve(unsigned worker) {
    std::uint32_t seen = 0;  // generation of the last region that this worker entered or missed
    for (;;) {
      std::uint32_t state = state_.load(std::memory_order_acquire);
      for (unsigned spins = 0; (state & kGeneration) == seen; ++spins) {
        if (spins < kSpins) spin_pause();
        else state_.wait(state, std::memory_order_acquire);
        state = state_.load(std::memory_order_acquire);
      }
      if (stop_.load(std::memory_order_relaxed)) return;
      while ((state & kOpen) != 0 && !state_.compare_exchange_weak(state, state + kOneInside, std::memory_order_acquire)) {
      }
      seen = state & kGeneration;
      if ((state & kOpen) == 0) continue;  // the others have done it
      call_(context_, worker);
      state_.fetch_sub(kOneInside, std::memory_order_release);
    }
  }

  const unsigned n_workers_;
  std::vector<std::thread> threads_;
  alignas(64) std::atomic<std::uint32_t> state_{0};
  std::atomic<bool> stop_{false};
  void (*call_)(void*, unsigned) = nullptr;
  void* context_ = nullptr;
};

}  // namespace coli
