// SPDX-License-Identifier: Apache-2.0
// The cache on real stores: the right bytes to every thread, counts that depend on nothing but the accesses.
#include "coli/cache/expert_cache.hpp"

#include <array>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#include "coli/cache/eviction/lru.hpp"
#include "coli/store/any_store.hpp"
#include "expert_files.hpp"
#include "lease_drain.hpp"
#include "watchdog.hpp"

namespace coli {
namespace {

/// The same accesses each time; returns what the cache counted.
template <class S>
CacheStats walk(S& store, const test::ExpertFiles& files, std::uint64_t budget, CacheOptions options,
                unsigned n_threads, bool prefetch) {
  const test::Watchdog watchdog("a walk over the cache");
  Accountant accountant;
  const CacheGeometry geometry = files.geometry();
  const SlotPlan plan = *plan_slots(geometry, Bytes{budget});
  auto cache = *ExpertCache<Lru, S>::open(accountant, store, geometry, plan, {}, options);
  test::Random random(7);
  for (int token = 0; token < 12; ++token) {
    for (std::uint32_t layer = 1; layer < geometry.n_layers(); ++layer) {
      const auto k = static_cast<std::uint32_t>(1 + random.below(geometry.n_experts()));
      auto experts = random.experts(k, geometry.n_experts());
      const auto guesses = random.experts(2, geometry.n_experts());
      for (std::span<ExpertId> rest = experts; !rest.empty();) {
        const auto wave = rest.first(std::min<std::size_t>(rest.size(), cache->max_group(LayerId{layer})));
        auto lease = cache->acquire(LayerId{layer}, wave);
        BOOST_REQUIRE(lease);
        if (prefetch) cache->prefetch(LayerId{layer + 1}, guesses);
        const test::Drained drained = test::drain(*lease, geometry, n_threads);
        BOOST_TEST(drained.n_good == wave.size());
        BOOST_TEST(!drained.any_twice);
        BOOST_TEST(drained.n_errors_told == 0U);
        rest = rest.subspan(wave.size());
      }
    }
  }
  const CacheStats stats = cache->stats(true);
  BOOST_TEST(stats.layers.size() == geometry.n_layers());
  if (!prefetch) BOOST_TEST(stats.prefetch.issued == 0U);
  cache = nullptr;
  BOOST_TEST(accountant.total().value == 0U);
  return stats;
}

BOOST_AUTO_TEST_CASE(store_threads_buffers_and_prefetch_change_neither_bytes_nor_counts) {
  test::Shape shape = test::small_shape();
  shape.directory = "/dev/shm";  // the laws of stores are tested on disks
  const test::ExpertFiles files(shape);
  for (const std::uint64_t budget : {14000U, 30000U, 60000U, 1000000U}) {
    MemoryStore memory(files.in_memory());
    const CacheStats expected = walk(memory, files, budget, {}, 1, false);
    BOOST_TEST(expected.misses > 0U);
    for (const unsigned n_threads : {1U, 3U}) {
      for (const std::uint32_t buffers : {1U, 7U, 30U}) {
        for (const StoreOptions& options :
             {StoreOptions{.kind = StoreKind::best}, StoreOptions{.kind = StoreKind::pread, .depth = 2},
              StoreOptions{.kind = StoreKind::pread, .direct = false}, StoreOptions{.kind = StoreKind::mmap}}) {
          auto store = *AnyStore::open(files.index(), options);
          const CacheStats stats = walk(*store, files, budget, {.staging_buffers = buffers, .fill_pieces = 1 + buffers % 5}, n_threads, buffers != 7);
          BOOST_TEST(stats.hits == expected.hits);
          BOOST_TEST(stats.misses == expected.misses);
          if (buffers == 7) BOOST_TEST(stats.bytes_read == expected.bytes_read);
          BOOST_TEST(stats.prefetch.issued >= stats.prefetch.useful + stats.prefetch.late + stats.prefetch.wasted);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(without_slots_the_stores_own_bytes_are_handed_out) {
  const test::ExpertFiles files(test::small_shape());
  MemoryStore memory(files.in_memory());
  const CacheStats stats = walk(memory, files, 100000, {.zero_copy = true}, 2, true);
  BOOST_TEST(stats.misses == 0U);
  BOOST_TEST(stats.bytes_read == 0U);
  auto pread = *PreadStore::open(files.index());
  Accountant accountant;
  const SlotPlan plan = least_slots(files.geometry());
  const auto refused = ExpertCache<Lru, PreadStore>::open(accountant, *pread, files.geometry(), plan, {}, {.zero_copy = true});
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().code == Errc::usage));
}

BOOST_AUTO_TEST_CASE(a_resident_model_is_the_same_cache_with_every_slot_filled) {
  const test::ExpertFiles files(test::small_shape());
  const CacheGeometry geometry = files.geometry();
  const SlotPlan plan = *plan_slots(geometry, geometry.all_bytes());
  BOOST_TEST(plan.all_resident(geometry));
  for (const StoreOptions& options : {StoreOptions{.read_once = true}, StoreOptions{}, StoreOptions{.kind = StoreKind::mmap}}) {
    auto store = *AnyStore::open(files.index(), options);
    Accountant accountant;
    auto cache = *ExpertCache<Lru, AnyStore>::open(accountant, *store, geometry, plan);
    BOOST_TEST(accountant.held(MemoryClass::slots).value == geometry.all_bytes().value);
    BOOST_REQUIRE(cache->fill_all(3));
    const std::uint64_t read = cache->stats().bytes_read;
    test::Random random(3);
    for (std::uint32_t layer = 1; layer < geometry.n_layers(); ++layer) {
      const auto experts = random.experts(8, 8);
      auto lease = *cache->acquire(LayerId{layer}, experts);
      BOOST_TEST(test::drain(lease, geometry, 2).n_good == 8U);
    }
    const CacheStats stats = cache->stats();
    BOOST_TEST(stats.misses == 0U);
    BOOST_TEST(stats.hits == 32U);
    BOOST_TEST(stats.bytes_read == read);
    BOOST_TEST(read == 8U * (3500 + 3000) * 2);
  }
}

BOOST_AUTO_TEST_CASE(a_filler_gets_every_part_once_and_slots_may_be_larger_than_the_file) {
  const test::ExpertFiles files(test::small_shape());
  const auto padded = [&](LayerId layer, Part part) { return files.index().part_bytes(layer, part) + 40; };
  const CacheGeometry geometry = *geometry_of(files.index(), 2, padded);
  auto store = *AnyStore::open(files.index());
  Accountant accountant;
  std::atomic<int> n_filled{0};
  const SlotFiller reverse = [&](ExpertKey, Part, FillPiece, std::span<const std::byte> raw, std::byte* to) {
    for (std::size_t i = 0; i < raw.size(); ++i) to[i] = raw[raw.size() - 1 - i];
    for (std::size_t i = 0; i < 40; ++i) to[raw.size() + i] = std::byte{7};
    ++n_filled;
  };
  auto cache = *ExpertCache<Lru, AnyStore>::open(accountant, *store, geometry, *plan_slots(geometry, Bytes{40000}), reverse);
  const std::vector<ExpertId> experts{ExpertId{5}, ExpertId{2}};
  auto lease = *cache->acquire(LayerId{3}, experts);
  for (int i = 0; i < 2; ++i) {
    const auto ready = *lease.next();
    BOOST_REQUIRE(ready.has_value());
    const std::byte* const down = *lease.down(*ready);
    BOOST_TEST((down[1499] == test::expert_byte(ready->key, Part::down, 0)));
    BOOST_TEST((down[1500] == std::byte{7} && down[1539] == std::byte{7}));
    BOOST_TEST((ready->part[0][0] == test::expert_byte(ready->key, Part::gate, 999)));
    BOOST_TEST(reinterpret_cast<std::uintptr_t>(down) % CacheGeometry::kPartAlignment == 0U);
  }
  BOOST_TEST(n_filled == 6);
}

BOOST_AUTO_TEST_CASE(pieces_of_a_part_are_filled_once_each_and_nothing_is_handed_out_before_all_are) {
  const test::ExpertFiles files(test::small_shape());
  const CacheGeometry geometry = files.geometry();
  auto store = *AnyStore::open(files.index());
  Accountant accountant;
  std::mutex mutex;
  std::map<std::tuple<std::uint32_t, std::size_t, std::uint32_t>, int> seen;  // by expert, part and piece
  const SlotFiller slow = [&](ExpertKey key, Part part, FillPiece piece, std::span<const std::byte> raw, std::byte* to) {
    if (piece.index == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the others must be waited for
    const std::size_t begin = raw.size() * piece.index / piece.count, end = raw.size() * (piece.index + 1) / piece.count;
    std::memcpy(to + begin, raw.data() + begin, end - begin);
    const std::lock_guard lock(mutex);
    BOOST_TEST(piece.count == 3U);
    ++seen[{key.expert.value, static_cast<std::size_t>(part), piece.index}];
  };
  auto cache = *ExpertCache<Lru, AnyStore>::open(accountant, *store, geometry, *plan_slots(geometry, Bytes{40000}), slow, {.fill_pieces = 3});
  const std::vector<ExpertId> experts{ExpertId{5}, ExpertId{2}};
  std::atomic<int> n_wrong{0};  // bytes handed out before they were there
  auto lease = *cache->acquire(LayerId{3}, experts);
  const auto work = [&] {
    for (;;) {
      const auto ready = *lease.next();
      if (!ready) return;
      const std::array<const std::byte*, kParts> at{ready->part[0], ready->part[1], *lease.down(*ready)};
      for (std::size_t p = 0; p < kParts; ++p)
        for (std::uint64_t i = 0; i < files.index().part_bytes(LayerId{3}, static_cast<Part>(p)); ++i)
          if (at[p][i] != test::expert_byte(ready->key, static_cast<Part>(p), i)) ++n_wrong;
    }
  };
  std::thread other(work);
  work();
  other.join();
  BOOST_TEST(n_wrong == 0);
  BOOST_TEST(seen.size() == 2U * kParts * 3U);
  for (const auto& [piece, times] : seen) BOOST_TEST(times == 1);
}

BOOST_AUTO_TEST_CASE(memory_that_the_accountant_refuses_is_an_error) {
  const test::ExpertFiles files(test::small_shape());
  const CacheGeometry geometry = files.geometry();
  auto store = *PreadStore::open(files.index());
  Accountant accountant(Bytes{50000});
  const auto cache = ExpertCache<Lru, PreadStore>::open(accountant, *store, geometry, *plan_slots(geometry, Bytes{45000}));
  BOOST_REQUIRE(!cache);
  BOOST_TEST((cache.error().code == Errc::over_budget));
  BOOST_TEST(accountant.total().value == 0U);
}

}  // namespace
}  // namespace coli
