// SPDX-License-Identifier: Apache-2.0
// The cache on real stores: right bytes to every thread, hits and misses as decided, errors told once, nothing hangs.
#include "coli/cache/expert_cache.hpp"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <thread>
#include <vector>

#include "coli/cache/eviction/lru.hpp"
#include "coli/store/memory_store.hpp"
#include "coli/store/pread_store.hpp"
#include "expert_files.hpp"

namespace coli {
namespace {

/// Takes everything from a lease with `n_threads` threads and checks every byte.
template <class L>
std::size_t drain(L& lease, const CacheGeometry& geometry, unsigned n_threads) {
  std::atomic<std::size_t> n_good{0};
  const auto work = [&] {
    for (;;) {
      auto ready = lease.next();
      if (!ready || !*ready) return;
      const ReadyExpert& expert = **ready;
      const auto down = lease.down(expert);
      if (!down) return;
      const LayerId layer = expert.key.layer;
      if (test::is_part(expert.part[0], geometry.slot_bytes(layer, Part::gate), expert.key, Part::gate) &&
          test::is_part(expert.part[1], geometry.slot_bytes(layer, Part::up), expert.key, Part::up) &&
          test::is_part(*down, geometry.slot_bytes(layer, Part::down), expert.key, Part::down)) {
        ++n_good;
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < n_threads; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return n_good;
}

template <class S>
void walk(S& store, const test::ExpertFiles& files, std::uint64_t budget, CacheOptions options, unsigned n_threads) {
  Accountant accountant;
  const CacheGeometry geometry = files.geometry();
  const SlotPlan plan = *plan_slots(geometry, Bytes{budget});
  auto cache = *ExpertCache<Lru, S>::open(accountant, store, geometry, plan, {}, options);
  test::Random random(7);
  for (int token = 0; token < 30; ++token) {
    for (std::uint32_t layer = 1; layer < geometry.n_layers(); ++layer) {
      const auto most = std::min(cache->max_group(LayerId{layer}), geometry.n_experts());
      const auto k = static_cast<std::uint32_t>(1 + random.below(most));
      const auto experts = random.experts(k, geometry.n_experts());
      auto lease = cache->acquire(LayerId{layer}, experts);
      BOOST_REQUIRE(lease);
      cache->prefetch(LayerId{layer + 1}, random.experts(2, geometry.n_experts()));
      BOOST_TEST(drain(*lease, geometry, n_threads) == k);
    }
  }
  const CacheStats stats = cache->stats(true);
  BOOST_TEST(stats.hits + stats.misses > 0);
  BOOST_TEST(stats.layers.size() == geometry.n_layers());
  if (options.zero_copy) {
    BOOST_TEST(stats.misses == 0);
  } else {
    BOOST_TEST(stats.bytes_read > 0);
  }
}

BOOST_AUTO_TEST_CASE(every_store_budget_and_thread_count_gives_the_right_bytes) {
  const test::ExpertFiles files(test::small_shape());
  for (const std::uint64_t budget : {14000U, 30000U, 60000U, 1000000U}) {
    for (const unsigned n_threads : {1U, 2U, 4U}) {
      for (const std::uint32_t buffers : {1U, 6U, 30U}) {
        MemoryStore memory(files.in_memory());
        walk(memory, files, budget, {.staging_buffers = buffers}, n_threads);
        auto direct = *PreadStore::open(files.index(), {.workers = 2});
        walk(*direct, files, budget, {.staging_buffers = buffers}, n_threads);
        auto buffered = *PreadStore::open(files.index(), {.workers = 2, .direct = false});
        walk(*buffered, files, budget, {.staging_buffers = buffers}, n_threads);
      }
    }
  }
  MemoryStore memory(files.in_memory());
  walk(memory, files, 100000, {.zero_copy = true}, 2);
}

BOOST_AUTO_TEST_CASE(a_resident_model_is_the_same_cache_with_every_slot_filled) {
  const test::ExpertFiles files(test::small_shape());
  const CacheGeometry geometry = files.geometry();
  const SlotPlan plan = *plan_slots(geometry, geometry.all_bytes());
  BOOST_TEST(plan.all_resident(geometry));
  auto store = *PreadStore::open(files.index(), {.cached_first = true});
  Accountant accountant;
  auto cache = *ExpertCache<Lru, PreadStore>::open(accountant, *store, geometry, plan);
  BOOST_TEST(accountant.held(MemoryClass::slots) == geometry.all_bytes());
  BOOST_REQUIRE(cache->fill_all(3));
  test::Random random(3);
  for (std::uint32_t layer = 1; layer < geometry.n_layers(); ++layer) {
    const auto experts = random.experts(8, 8);
    auto lease = *cache->acquire(LayerId{layer}, experts);
    BOOST_TEST(drain(lease, geometry, 2) == 8);
  }
  const CacheStats stats = cache->stats();
  BOOST_TEST(stats.misses == 0);
  BOOST_TEST(stats.hits == 32);
}

}  // namespace
}  // namespace coli

// Printing for BOOST_TEST.
namespace coli {
inline std::ostream& operator<<(std::ostream& out, Bytes bytes) { return out << bytes.value; }
}  // namespace coli
