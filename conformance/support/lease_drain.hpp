// SPDX-License-Identifier: Apache-2.0
// Takes everything from a lease with several threads, checks every byte, counts what was told.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "coli/cache/geometry.hpp"
#include "coli/cache/lease.hpp"
#include "expert_files.hpp"

namespace coli::test {

struct Drained {
  std::size_t n_good = 0;         // experts with the right bytes
  std::size_t n_bad = 0;          // with wrong ones
  std::size_t n_errors_told = 0;  // by next()
  std::size_t n_down_failed = 0;
  bool any_twice = false;
  std::optional<Error> error{};
};

template <class Lease>
Drained drain(Lease& lease, const CacheGeometry& geometry, unsigned n_threads) {
  Drained all;
  std::mutex mutex;
  std::set<std::uint32_t> seen;
  const auto work = [&] {
    for (;;) {
      auto ready = lease.next();
      if (!ready) {
        const std::lock_guard lock(mutex);
        ++all.n_errors_told;
        all.error = ready.error();
        continue;
      }
      if (!*ready) return;
      const ReadyExpert& expert = **ready;
      const LayerId layer = expert.key.layer;
      bool good = is_part(expert.part[0], geometry.slot_bytes(layer, Part::gate), expert.key, Part::gate) &&
                  is_part(expert.part[1], geometry.slot_bytes(layer, Part::up), expert.key, Part::up);
      const auto down = lease.down(expert);
      if (down) good = good && is_part(*down, geometry.slot_bytes(layer, Part::down), expert.key, Part::down);
      const std::lock_guard lock(mutex);
      if (!seen.insert(expert.index).second) all.any_twice = true;
      if (!down) ++all.n_down_failed;
      else ++(good ? all.n_good : all.n_bad);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < n_threads; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return all;
}

}  // namespace coli::test
