// SPDX-License-Identifier: Apache-2.0
// What did the cache do? Plain counters, copied out under the cache's lock.
#pragma once

#include <cstdint>
#include <vector>

namespace coli {

/// Speculative reads: every issued one ends up in exactly one of the other three.
struct PrefetchStats {
  std::uint64_t issued = 0;
  std::uint64_t useful = 0;  // demanded, its bytes were there
  std::uint64_t late = 0;    // demanded while still under way
  std::uint64_t wasted = 0;  // never demanded, failed or cancelled
};

/// Reads of a warm start, by expert: every issued one ends up in at most one of the other three; the rest is still on its
/// way, or lies in its slot and was not asked for yet.
struct WarmStats {
  std::uint64_t issued = 0;
  std::uint64_t useful = 0;  // demanded, its bytes were there: a hit where it had its slot, else a miss that reads nothing
  std::uint64_t late = 0;    // demanded while still under way: a miss that takes the read over
  std::uint64_t wasted = 0;  // evicted unused, failed, or left without a free slot
};

struct LayerStats {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
};

/// A hit is an expert that had its slot when it was acquired; whether prefetch had its bytes at hand doesn't matter,
/// so that a replay counts the same. A warm start's experts get their slots when all of their bytes are there, so one
/// that is still being read is a miss; which ones those are depends on the disk, and no replay counts the same.
struct CacheStats {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t bytes_read = 0;  // of expert parts that arrived, without the blocks around them
  double read_seconds = 0;       // wall time with at least one read under way
  double wait_seconds = 0;       // wall time with at least one thread blocked on reads: what compute did not hide
  double fill_seconds = 0;       // thread time spent turning raw bytes into slots
  PrefetchStats prefetch{};
  WarmStats warm{};
  std::vector<LayerStats> layers{};  // by LayerId; empty unless asked for

  double hit_rate() const noexcept {
    const std::uint64_t all = hits + misses;
    return all == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(all);
  }
};

}  // namespace coli
