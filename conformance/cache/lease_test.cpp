// SPDX-License-Identifier: Apache-2.0
// What a lease says when: order, parts, errors, cancelling, prefetch; with a store whose reads end on command.
#include "coli/cache/lease.hpp"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "coli/cache/eviction/lru.hpp"
#include "coli/cache/expert_cache.hpp"
#include "lease_drain.hpp"
#include "manual_store.hpp"
#include "watchdog.hpp"

namespace coli {
namespace {

using Cache = ExpertCache<Lru, test::ManualStore>;
constexpr LayerId kLayer{1};

std::vector<ExpertId> ids(std::initializer_list<std::uint32_t> values) {
  std::vector<ExpertId> experts;
  for (const std::uint32_t value : values) experts.push_back(ExpertId{value});
  return experts;
}

/// One class of `slots` slots over layers of 8 experts, top 2.
struct Bench {
  explicit Bench(std::uint32_t slots, std::uint32_t buffers = 64, SlotFiller filler = {}) {
    SlotPlan plan = least_slots(geometry);
    plan.slots[0] = slots;
    cache = *Cache::open(accountant, store, geometry, plan, std::move(filler), {.staging_buffers = buffers});
  }
  void make_resident(std::initializer_list<std::uint32_t> values, LayerId layer = kLayer) {
    auto lease = *cache->acquire(layer, ids(values));
    for (const std::uint32_t value : values) store.arrive(ExpertId{value});
    BOOST_TEST(test::drain(lease, geometry, 1).n_good == values.size());
  }
  std::uint32_t next(Cache::Lease& lease) {
    const auto ready = lease.next();
    BOOST_REQUIRE(ready);
    BOOST_REQUIRE(ready->has_value());
    return (*ready)->key.expert.value;
  }

  test::Watchdog watchdog{"a test of leases"};
  test::ExpertFiles files{{.n_experts = 8, .top_k = 2, .layers = {{0, 0, 0}, {100, 100, 300}, {100, 100, 300}}}};
  CacheGeometry geometry = files.geometry();
  test::ManualStore store{files.index()};
  Accountant accountant;
  std::unique_ptr<Cache> cache;
};

BOOST_AUTO_TEST_CASE(a_read_that_fails_while_everything_is_filled_is_told) {
  Bench bench(16);
  Result<void> filled;
  std::thread filler([&] { filled = bench.cache->fill_all(1); });
  while (bench.store.pending().empty()) std::this_thread::yield();
  bench.store.fail(ExpertId{0}, Part::gate);
  filler.join();
  BOOST_REQUIRE(!filled);
  BOOST_TEST((filled.error().code == Errc::io));
}

BOOST_AUTO_TEST_CASE(a_cancel_is_seen_while_down_is_awaited) {
  Bench bench(8);
  std::atomic<bool> cancel{false};
  auto lease = *bench.cache->acquire(kLayer, ids({0}), &cancel);
  bench.store.arrive(ExpertId{0}, Part::gate);
  bench.store.arrive(ExpertId{0}, Part::up);
  const auto ready = lease.next();
  BOOST_REQUIRE(ready);
  BOOST_REQUIRE(ready->has_value());
  cancel.store(true);
  const auto down = lease.down(**ready);  // it never comes
  BOOST_REQUIRE(!down);
  BOOST_TEST((down.error().code == Errc::interrupted));
}

BOOST_AUTO_TEST_CASE(resident_experts_come_first_then_the_others_as_they_arrive) {
  Bench bench(8);
  bench.make_resident({1, 5, 6});
  auto lease = *bench.cache->acquire(kLayer, ids({0, 6, 2, 1, 3}));
  BOOST_TEST(bench.store.pending().size() == 9U);  // all of the missing, at once, gate and up before down
  BOOST_TEST((bench.store.pending()[0].key.expert == ExpertId{0} && bench.store.pending()[0].part == Part::gate));
  BOOST_TEST(bench.next(lease) == 6U);
  BOOST_TEST(bench.next(lease) == 1U);
  bench.store.arrive(ExpertId{3});
  bench.store.arrive(ExpertId{0});
  BOOST_TEST(bench.next(lease) == 3U);
  BOOST_TEST(bench.next(lease) == 0U);
  bench.store.arrive(ExpertId{2});
  BOOST_TEST(bench.next(lease) == 2U);
  BOOST_TEST(!lease.next()->has_value());
  BOOST_TEST(bench.cache->stats().hits == 2U);
  BOOST_TEST(bench.cache->stats().misses == 6U);
}

BOOST_AUTO_TEST_CASE(gate_and_up_may_start_before_down_has_arrived) {
  Bench bench(8);
  auto lease = *bench.cache->acquire(kLayer, ids({4}));
  bench.store.arrive(ExpertId{4}, Part::up);
  bench.store.arrive(ExpertId{4}, Part::gate);
  const auto ready = **lease.next();
  BOOST_TEST(test::is_part(ready.part[0], 100, ready.key, Part::gate));
  BOOST_TEST(test::is_part(ready.part[1], 100, ready.key, Part::up));
  BOOST_TEST(ready.part[2] == nullptr);
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    bench.store.arrive(ExpertId{4}, Part::down);
  });
  const auto down = lease.down(ready);
  BOOST_REQUIRE(down);
  BOOST_TEST(test::is_part(*down, 300, ready.key, Part::down));
  later.join();
  BOOST_TEST(bench.cache->stats().wait_seconds > 0.02);
}

BOOST_AUTO_TEST_CASE(who_finds_nothing_to_compute_fills_what_another_will_want) {
  std::atomic<std::thread::id> who_filled_down{};
  const SlotFiller filler = [&](ExpertKey, Part part, FillPiece, std::span<const std::byte> raw, std::byte* to) {
    if (part == Part::down) who_filled_down = std::this_thread::get_id();
    std::memcpy(to, raw.data(), raw.size());
  };
  Bench bench(8, 64, filler);
  auto lease = *bench.cache->acquire(kLayer, ids({4}));
  bench.store.arrive(ExpertId{4}, Part::gate);
  bench.store.arrive(ExpertId{4}, Part::up);
  const auto ready = **lease.next();  // computes gate and up from here on
  BOOST_TEST(ready.part[2] == nullptr);
  std::atomic<bool> left{false};
  bool found_nothing = false;
  std::thread idle([&] {
    const auto none = lease.next();
    found_nothing = none && !*none;
    left = true;
  });
  const std::thread::id idle_id = idle.get_id();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  BOOST_TEST(!left);  // down is still to come
  bench.store.arrive(ExpertId{4}, Part::down);
  idle.join();
  BOOST_TEST(found_nothing);
  BOOST_TEST((who_filled_down.load() == idle_id));
  BOOST_TEST(bench.cache->stats().wait_seconds < 0.02);  // compute hid it
  const auto down = lease.down(ready);
  BOOST_REQUIRE(down);
  BOOST_TEST(test::is_part(*down, 300, ready.key, Part::down));
}

BOOST_AUTO_TEST_CASE(who_waits_to_fill_what_another_will_want_hears_that_it_failed_or_was_cancelled) {
  for (const bool by_cancel : {false, true}) {
    Bench bench(8);
    std::atomic<bool> cancel{false};
    auto lease = *bench.cache->acquire(kLayer, ids({4}), &cancel);
    bench.store.arrive(ExpertId{4}, Part::gate);
    bench.store.arrive(ExpertId{4}, Part::up);
    const auto ready = **lease.next();
    std::optional<Error> told;
    std::thread idle([&] {
      const auto none = lease.next();
      if (!none) told = none.error();
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (by_cancel)
      cancel = true;
    else
      bench.store.fail(ExpertId{4}, Part::down);
    idle.join();
    BOOST_REQUIRE(told);
    BOOST_TEST((told->code == (by_cancel ? Errc::interrupted : Errc::io)));
    const auto down = lease.down(ready);
    BOOST_REQUIRE(!down);
    BOOST_TEST((down.error().code == told->code));
  }
}

BOOST_AUTO_TEST_CASE(hits_are_never_evicted_by_misses_of_their_own_group) {
  Bench bench(4);
  bench.make_resident({0, 1, 2, 3});
  // 0 is the least recently used: a miss would take it, were it not leased first.
  auto lease = *bench.cache->acquire(kLayer, ids({4, 5, 0}));
  BOOST_TEST(bench.next(lease) == 0U);
  bench.store.arrive(ExpertId{4});
  bench.store.arrive(ExpertId{5});
  BOOST_TEST(test::drain(lease, bench.geometry, 1).n_good == 2U);
  BOOST_TEST(bench.cache->stats().hits == 1U);
}

BOOST_AUTO_TEST_CASE(groups_that_do_not_fit_are_refused_and_leave_no_trace) {
  Bench bench(4);
  BOOST_TEST(bench.cache->max_group(kLayer) == 4U);
  const auto too_many = bench.cache->acquire(kLayer, ids({0, 1, 2, 3, 4}));
  BOOST_REQUIRE(!too_many);
  BOOST_TEST((too_many.error().code == Errc::usage));
  {
    auto first = *bench.cache->acquire(kLayer, ids({0, 1, 2}));
    BOOST_TEST(!bench.cache->acquire(kLayer, ids({3, 4})).has_value());  // two slots wanted, one free
    auto second = *bench.cache->acquire(kLayer, ids({3, 0}));            // 0 is shared while it is being read
    for (const std::uint32_t e : {3U, 2U, 1U, 0U}) bench.store.arrive(ExpertId{e});
    BOOST_TEST(test::drain(second, bench.geometry, 2).n_good == 2U);
    BOOST_TEST(test::drain(first, bench.geometry, 2).n_good == 3U);
  }
  auto all = *bench.cache->acquire(kLayer, ids({3, 2, 1, 0}));
  BOOST_TEST(test::drain(all, bench.geometry, 1).n_good == 4U);
  BOOST_TEST(!bench.cache->acquire(kLayer, ids({8})).has_value());
  BOOST_TEST(!bench.cache->acquire(LayerId{0}, ids({1})).has_value());
  BOOST_TEST(!bench.cache->acquire(LayerId{3}, ids({1})).has_value());
}

BOOST_AUTO_TEST_CASE(an_error_is_told_once_and_the_cache_goes_on) {
  Bench bench(4);
  bench.make_resident({7});
  {
    auto lease = *bench.cache->acquire(kLayer, ids({7, 0, 1}));
    bench.store.arrive(ExpertId{0}, Part::gate);
    bench.store.arrive(ExpertId{0}, Part::up);
    const auto seven = **lease.next();
    const auto zero = **lease.next();
    BOOST_TEST((zero.key.expert == ExpertId{0}));
    bench.store.fail(ExpertId{0}, Part::down);
    const auto down = lease.down(zero);
    BOOST_REQUIRE(!down);
    BOOST_TEST(down.error().line() == "the file: layer 1 expert 0 down: made to fail");
    const auto told = lease.next();
    BOOST_REQUIRE(!told);
    BOOST_TEST((told.error().code == Errc::io));
    BOOST_TEST(!lease.next()->has_value());
    BOOST_TEST(lease.error().has_value());
    BOOST_TEST(lease.down(seven).has_value());
  }
  // Nothing is lost but the experts that were being read; their slots are free again.
  auto lease = *bench.cache->acquire(kLayer, ids({7, 0, 1, 2}));
  for (const std::uint32_t e : {0U, 1U, 2U}) bench.store.arrive(ExpertId{e});
  BOOST_TEST(test::drain(lease, bench.geometry, 2).n_good == 4U);
  BOOST_TEST(bench.cache->stats().hits == 2U);
}

BOOST_AUTO_TEST_CASE(a_cancel_returns_soon_though_reads_never_end) {
  Bench bench(4);
  std::atomic<bool> cancel{false};
  auto lease = *bench.cache->acquire(kLayer, ids({0, 1}), &cancel);
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    cancel = true;
  });
  std::vector<std::thread> waiting;
  std::atomic<int> n_told{0};
  const auto before = std::chrono::steady_clock::now();
  for (int i = 0; i < 3; ++i) {
    waiting.emplace_back([&] {
      const auto ready = lease.next();
      if (!ready && ready.error().code == Errc::interrupted) ++n_told;
    });
  }
  for (std::thread& thread : waiting) thread.join();
  BOOST_TEST((std::chrono::steady_clock::now() - before < std::chrono::milliseconds(150)));
  BOOST_TEST(n_told == 1);
  later.join();
}

BOOST_AUTO_TEST_CASE(a_lease_may_end_while_everything_is_under_way) {
  Bench bench(4, 6);
  for (int round = 0; round < 5; ++round) {
    auto lease = *bench.cache->acquire(kLayer, ids({0, 1, 2, 3}));
    bench.store.arrive(ExpertId{1}, Part::gate);
    BOOST_TEST(bench.cache->stats().misses == 4U * static_cast<unsigned>(round + 1));
  }
  auto lease = *bench.cache->acquire(kLayer, ids({0, 1, 2, 3}));
  std::thread feeder([&] {
    for (int i = 0; i < 12; ++i) {
      for (std::uint32_t e = 0; e < 4; ++e) bench.store.arrive(ExpertId{e});
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  BOOST_TEST(test::drain(lease, bench.geometry, 2).n_good == 4U);
  feeder.join();
}

BOOST_AUTO_TEST_CASE(prefetch_is_counted_and_takes_no_slot) {
  Bench bench(4, 24);
  bench.make_resident({0, 1, 2, 3});
  bench.cache->prefetch(LayerId{2}, ids({0, 1, 2, 3, 4, 5}));
  BOOST_TEST(bench.store.pending().size() == 12U);  // four experts: half of the buffers
  BOOST_TEST((bench.store.pending()[0].urgency == Urgency::prefetch));
  bench.store.arrive(ExpertId{0});
  bench.store.arrive(ExpertId{1}, Part::up);
  {
    auto lease = *bench.cache->acquire(kLayer, ids({0, 1, 2, 3}));  // still all there
    BOOST_TEST(test::drain(lease, bench.geometry, 1).n_good == 4U);
  }
  auto lease = *bench.cache->acquire(LayerId{2}, ids({0, 1, 7}));
  const auto pending = bench.store.pending();
  for (const auto& read : pending) {
    if (read.key.expert == ExpertId{1}) BOOST_TEST((read.urgency == Urgency::demand));
  }
  BOOST_TEST(bench.next(lease) == 0U);
  bench.store.arrive(ExpertId{7});
  bench.store.arrive(ExpertId{1});
  BOOST_TEST(test::drain(lease, bench.geometry, 1).n_good == 2U);
  PrefetchStats stats = bench.cache->stats().prefetch;
  BOOST_TEST(stats.issued == 4U);
  BOOST_TEST(stats.useful == 1U);
  BOOST_TEST(stats.late == 1U);
  bench.cache->prefetch(kLayer, ids({4}));  // the guesses left over can't come true any more
  stats = bench.cache->stats().prefetch;
  BOOST_TEST(stats.wasted == 2U);
  BOOST_TEST(bench.cache->stats().hits == 4U);
  BOOST_TEST(bench.cache->stats().misses == 7U);
}

BOOST_AUTO_TEST_CASE(demand_takes_the_buffers_of_guesses) {
  Bench bench(8, 6);  // a prefetched expert takes half of the buffers
  bench.cache->prefetch(LayerId{2}, ids({6}));
  bench.store.arrive(ExpertId{6});
  auto lease = *bench.cache->acquire(kLayer, ids({0, 1}));
  std::thread feeder([&] {
    for (int i = 0; i < 20; ++i) {
      bench.store.arrive(ExpertId{0});
      bench.store.arrive(ExpertId{1});
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  BOOST_TEST(test::drain(lease, bench.geometry, 2).n_good == 2U);
  feeder.join();
  BOOST_TEST(bench.cache->stats().prefetch.wasted == 1U);
}

}  // namespace
}  // namespace coli
