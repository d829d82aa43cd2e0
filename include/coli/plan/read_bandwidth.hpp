// SPDX-License-Identifier: Apache-2.0
// How fast can this machine read memory? The limit that decode of a quantised model is measured against.
//
// The best of several loops (streams a thread, prefetch) over memory with huge pages and without: one alone may miss
// what the machine can do, and a limit that is too low flatters what is held against it.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "coli/core/thread_pool.hpp"

namespace coli {

/// Reads all of [from, from + bytes) (a multiple of 512) and returns something that depends on all of it.
using ReadLoop = std::uint32_t (*)(const std::byte* from, std::size_t bytes);

namespace detail {

/// Vector extensions: one line of source, the loads that the compiler's target has.
template <std::size_t kStreams>
std::uint32_t read_streams(const std::byte* from, std::size_t bytes) {
  using Words = std::uint32_t __attribute__((vector_size(64)));
  std::array<Words, kStreams> sum{};
  const std::size_t stretch = bytes / kStreams / 64 * 64;
  for (std::size_t at = 0; at < stretch; at += 64)
    for (std::size_t s = 0; s < kStreams; ++s) {
      Words words;
      std::memcpy(&words, from + s * stretch + at, sizeof words);
      sum[s] += words;
    }
  std::uint32_t total = 0;
  for (const Words& words : sum)
    for (std::size_t lane = 0; lane < 16; ++lane) total += words[lane];
  return total;
}

}  // namespace detail

/// For a build or a backend without kernels of an instruction set: 1, 2, 4 and 8 streams.
inline constexpr std::array<ReadLoop, 4> kPortableReadLoops{detail::read_streams<1>, detail::read_streams<2>, detail::read_streams<4>,
                                                            detail::read_streams<8>};

/// Anonymous memory that has been written to, with the pages asked for; empty where the system refuses. Move-only.
class PagedMemory {
 public:
  PagedMemory(std::size_t bytes, bool huge_pages) {
    void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return;
    (void)::madvise(at, bytes, huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    memory_ = {static_cast<std::byte*>(at), bytes};
    for (std::size_t page = 0; page < bytes; page += 4096) memory_[page] = static_cast<std::byte>(page >> 12);
  }
  PagedMemory(PagedMemory&& other) noexcept : memory_(std::exchange(other.memory_, {})) {}
  PagedMemory& operator=(PagedMemory&& other) noexcept {
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~PagedMemory() {
    if (!memory_.empty()) ::munmap(memory_.data(), memory_.size());
  }
  std::span<std::byte> bytes() const noexcept { return memory_; }

 private:
  std::span<std::byte> memory_;
};

/// Bytes a second of one loop with all of the pool's workers, over `least_bytes` of `memory` (its start, or all of it
/// several times). 0 where memory is shorter than a piece of 4 MiB.
inline double measure_read_rate(std::span<const std::span<const std::byte>> memory, ReadLoop loop, ThreadPool& pool, std::uint64_t least_bytes) {
  constexpr std::size_t kPiece = 4U << 20;
  std::vector<const std::byte*> pieces;
  for (const auto& span : memory)
    for (std::size_t at = 0; at + kPiece <= span.size(); at += kPiece) pieces.push_back(span.data() + at);
  if (pieces.empty()) return 0;
  const std::size_t n_tasks = (least_bytes + kPiece - 1) / kPiece;
  std::vector<std::uint32_t> sums(pool.n_workers());
  const auto start = std::chrono::steady_clock::now();
  pool.for_each(n_tasks, [&](std::size_t task, unsigned worker) { sums[worker] += loop(pieces[task % pieces.size()], kPiece); });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  asm volatile("" : : "r"(sums.data()) : "memory");  // the sums must be used, or the loops may be removed
  return static_cast<double>(n_tasks * kPiece) / seconds;
}

/// What each loop reached, arm by arm; an arm is a loop over one kind of memory.
class ReadBandwidth {
 public:
  struct Arm {
    std::string name;  // "4 streams, huge pages"
    ReadLoop loop;
    std::vector<std::span<const std::byte>> memory;
    double best = 0;  // bytes a second
  };

  /// Adds each of `loops` (1, 2, 4, 8 streams; from the fifth on the same with prefetch) over `memory`.
  void add(std::span<const ReadLoop> loops, std::vector<std::span<const std::byte>> memory, const std::string& pages) {
    for (std::size_t i = 0; i < loops.size(); ++i)
      arms_.push_back({std::to_string(1U << i % 4) + (i % 4 == 0 ? " stream" : " streams") + (i < 4 ? ", " : ", prefetch, ") + pages, loops[i], memory});
  }

  /// Runs every arm once over `least_bytes`; returns the best rate of this round.
  double measure(ThreadPool& pool, std::uint64_t least_bytes) {
    double best = 0;
    for (Arm& arm : arms_) {
      const double rate = measure_read_rate(arm.memory, arm.loop, pool, least_bytes);
      arm.best = std::max(arm.best, rate);
      best = std::max(best, rate);
    }
    return best;
  }

  std::span<const Arm> arms() const noexcept { return arms_; }

 private:
  std::vector<Arm> arms_;
};

}  // namespace coli
