// SPDX-License-Identifier: Apache-2.0
// Who takes the page faults of memory that will be filled while somebody waits? A thread of low priority, beforehand.
//
// The first touch of a page is a fault and a page of zeros: under a hypervisor that has yet to find the memory itself,
// one to three milliseconds for the slot of an expert, each time a free slot is filled. The memory was charged when it
// was taken; touching it early changes when it is resident, not how much may be.
#pragma once

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace coli {

/// Touches memory, all parts from their starts on, without changing a byte, whoever writes to it meanwhile, until all is touched or this
/// object ends. Does nothing where the system can't (Linux before 5.14).
class PageToucher {
 public:
  PageToucher() = default;
  explicit PageToucher(std::vector<std::span<const std::byte>> memory) : state_(std::make_unique<State>()) {
    state_->thread = std::thread([&stop = state_->stop, memory = std::move(memory)] { touch(memory, stop); });
  }
  PageToucher(PageToucher&&) noexcept = default;
  PageToucher& operator=(PageToucher&&) noexcept = default;

  /// Until all is touched.
  void wait() {
    if (state_ && state_->thread.joinable()) state_->thread.join();
  }

 private:
  struct State {
    std::atomic<bool> stop{false};
    std::thread thread;
    ~State() {
      stop.store(true, std::memory_order_relaxed);
      if (thread.joinable()) thread.join();
    }
  };

  static void touch(const std::vector<std::span<const std::byte>>& memory, const std::atomic<bool>& stop) {
    constexpr std::uintptr_t kStep = 2 << 20;  // a huge page: what the kernel does at once while it holds the address space
    constexpr int kLowest = 19;
    (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kLowest);
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    std::vector<std::uintptr_t> at;
    for (const std::span<const std::byte> part : memory) at.push_back(reinterpret_cast<std::uintptr_t>(part.data()) / page * page);
    constexpr std::size_t kShares = 256;  // all parts side by side, a share of each at a time
    for (std::size_t share = 1; share <= kShares; ++share)
      for (std::size_t i = 0; i < memory.size(); ++i) {
        const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(memory[i].data()) + memory[i].size() / kShares * share + (share == kShares ? memory[i].size() % kShares : 0);
        while (at[i] < end) {
          if (stop.load(std::memory_order_relaxed)) return;
          const std::uintptr_t next = std::min((end + page - 1) / page * page, at[i] / kStep * kStep + kStep);
          if (populate(at[i], next - at[i]) != 0 && errno != EINTR && errno != EAGAIN) return;
          at[i] = next;
        }
      }
  }
  static int populate(std::uintptr_t at, std::size_t bytes) {
#ifdef MADV_POPULATE_WRITE
    return ::madvise(reinterpret_cast<void*>(at), bytes, MADV_POPULATE_WRITE);
#else
    constexpr int kPopulateWrite = 23;  // the kernel's number; the C library's header is older
    return ::madvise(reinterpret_cast<void*>(at), bytes, kPopulateWrite);
#endif
  }

  std::unique_ptr<State> state_;
};

}  // namespace coli
