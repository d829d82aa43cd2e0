// SPDX-License-Identifier: Apache-2.0
// No schedule of delays, disorder and failures makes the cache hang, hand out wrong bytes, or lose a slot.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <thread>
#include <vector>

#include "coli/cache/eviction/lru.hpp"
#include "coli/cache/expert_cache.hpp"
#include "coli/store/any_store.hpp"
#include "coli/store/faulty_store.hpp"
#include "expert_files.hpp"
#include "lease_drain.hpp"
#include "watchdog.hpp"

namespace coli {
namespace {

struct Outcome {
  std::uint64_t hits = 0, misses = 0;
  std::size_t n_errors = 0, n_cancelled = 0;
  WarmStats warm{};
};

/// Tokens over all layers with several threads; some groups are cancelled, some leases dropped, some reads fail. With
/// `warms`, experts that nobody asks for are read beside it.
template <class S>
Outcome run(S& store, const test::ExpertFiles& files, std::uint64_t seed, bool cancels, bool warms = false) {
  const test::Watchdog watchdog("fault schedule, seed " + std::to_string(seed));
  Accountant accountant;
  const CacheGeometry geometry = files.geometry();
  const SlotPlan plan = *plan_slots(geometry, Bytes{25000 + seed * 3000});
  const auto buffers = static_cast<std::uint32_t>(1 + seed % 9);
  auto cache = *ExpertCache<Lru, S>::open(accountant, store, geometry, plan, {}, {.staging_buffers = buffers, .fill_pieces = static_cast<std::uint32_t>(1 + seed % 4)});
  test::Random random(99);   // the accesses are the same for every seed
  test::Random chaos(seed);  // what befalls them is not
  Outcome outcome;
  for (int token = 0; token < 10; ++token) {
    for (std::uint32_t layer = 1; layer < geometry.n_layers(); ++layer) {
      const auto experts = random.experts(2, geometry.n_experts());
      const auto guesses = random.experts(3, geometry.n_experts());
      if (warms && layer == 1) {
        std::vector<ExpertKey> likely;
        for (int i = 0; i < 20; ++i) likely.push_back({LayerId{static_cast<std::uint32_t>(chaos.below(geometry.n_layers()))}, ExpertId{static_cast<std::uint32_t>(chaos.below(geometry.n_experts()))}});
        cache->warm(likely);
      }
      std::atomic<bool> cancel{cancels && chaos.below(6) == 0};
      auto lease = cache->acquire(LayerId{layer}, experts, &cancel);
      BOOST_REQUIRE(lease);
      if (chaos.below(2) == 0) cache->prefetch(LayerId{layer + 1}, guesses);
      if (cancels && chaos.below(8) == 0) continue;  // dropped with everything under way
      std::thread canceller;
      if (cancels && chaos.below(4) == 0) {
        canceller = std::thread([&cancel] {
          std::this_thread::sleep_for(std::chrono::microseconds(300));
          cancel = true;
        });
      }
      const test::Drained drained = test::drain(*lease, geometry, static_cast<unsigned>(1 + chaos.below(3)));
      if (canceller.joinable()) canceller.join();
      BOOST_TEST(drained.n_bad == 0U);
      BOOST_TEST(!drained.any_twice);
      BOOST_TEST(drained.n_errors_told <= 1U);
      if (drained.error) {
        if (drained.error->code == Errc::interrupted) ++outcome.n_cancelled;
        else ++outcome.n_errors;
        BOOST_TEST(lease->error().has_value());
      } else if (!lease->error()) {
        BOOST_TEST(drained.n_good == experts.size());
      }
    }
  }
  const CacheStats stats = cache->stats();
  outcome.hits = stats.hits;
  outcome.misses = stats.misses;
  outcome.warm = stats.warm;
  // Every slot can still be had at once, in every layer.
  for (std::uint32_t layer = 1; layer < geometry.n_layers(); ++layer) {
    const auto all = random.experts(std::min(cache->max_group(LayerId{layer}), geometry.n_experts()), geometry.n_experts());
    auto lease = cache->acquire(LayerId{layer}, all);
    BOOST_REQUIRE(lease);
    BOOST_TEST(test::drain(*lease, geometry, 2).n_bad == 0U);
  }
  cache = nullptr;
  BOOST_TEST(accountant.total().value == 0U);
  return outcome;
}

test::Shape shape() {
  test::Shape shape = test::small_shape();
  shape.directory = "/dev/shm";
  return shape;
}

BOOST_AUTO_TEST_CASE(schedules_without_faults_change_no_count) {
  const test::ExpertFiles files(shape());
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    MemoryStore memory(files.in_memory());
    const Outcome expected = run(memory, files, seed, false);
    auto uring_or_pread = *AnyStore::open(files.index());
    FaultyStore delayed(*uring_or_pread, files.index(),
                        {.seed = seed, .longest_delay = std::chrono::microseconds(500), .reorder = true});
    const Outcome outcome = run(delayed, files, seed, false);
    BOOST_TEST(outcome.hits == expected.hits);
    BOOST_TEST(outcome.misses == expected.misses);
    BOOST_TEST(outcome.n_errors == 0U);
  }
}

BOOST_AUTO_TEST_CASE(whole_reads_may_fail_or_be_cancelled) {
  const test::ExpertFiles files(shape());
  std::size_t n_errors = 0;
  std::size_t n_cancelled = 0;
  for (std::uint64_t seed = 1; seed <= 16; ++seed) {
    const StoreFaults faults{.seed = seed,
                             .longest_delay = std::chrono::microseconds(seed % 4 * 300),
                             .reorder = seed % 2 == 0,
                             .fail_one_in = seed % 3 == 0 ? 0U : 30U};
    MemoryStore memory(files.in_memory());
    FaultyStore over_memory(memory, files.index(), faults);
    auto best = *AnyStore::open(files.index());
    FaultyStore over_best(*best, files.index(), faults);
    for (const Outcome& outcome : {run(over_memory, files, seed, true), run(over_best, files, seed, true)}) {
      n_errors += outcome.n_errors;
      n_cancelled += outcome.n_cancelled;
    }
  }
  BOOST_TEST(n_errors > 20U);
  BOOST_TEST(n_cancelled > 20U);
}

BOOST_AUTO_TEST_CASE(what_nobody_asked_for_harms_nobody) {
  const test::ExpertFiles files(shape());
  std::uint64_t issued = 0, useful = 0;
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    MemoryStore memory(files.in_memory());
    const Outcome expected = run(memory, files, seed, false);
    auto best = *AnyStore::open(files.index());
    FaultyStore store(*best, files.index(), {.seed = seed, .longest_delay = std::chrono::microseconds(seed % 4 * 100), .reorder = true, .fail_one_in = seed % 2 == 0 ? 0U : 30U});
    const Outcome outcome = run(store, files, seed, seed % 3 == 0, true);
    BOOST_TEST(outcome.hits + outcome.misses == expected.hits + expected.misses);
    BOOST_TEST(outcome.warm.issued >= outcome.warm.useful + outcome.warm.late + outcome.warm.wasted);
    if (seed % 2 == 0 && seed % 3 != 0) BOOST_TEST(outcome.n_errors == 0U);
    issued += outcome.warm.issued;
    useful += outcome.warm.useful;
  }
  BOOST_TEST(issued > 20U);
  BOOST_TEST(useful > 0U);
}

template <class Open>
void with_faulty_reads(const test::ExpertFiles& files, Open&& open) {
  std::size_t n_errors = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    auto mild = open(FaultyReads(ReadFaults{.seed = seed, .short_read = 3, .eintr = 5, .eagain = 40}));
    BOOST_TEST(run(*mild, files, seed, false).n_errors == 0U);
    auto refusing = open(FaultyReads(ReadFaults{.seed = seed, .short_read = 4, .refuse_direct = true}));
    BOOST_TEST(run(*refusing, files, seed, true).n_errors == 0U);
    auto failing = open(FaultyReads(ReadFaults{.seed = seed, .short_read = 4, .eintr = 9, .eio = 40}));
    n_errors += run(*failing, files, seed, true).n_errors;
    auto cut = open(FaultyReads(ReadFaults{.seed = seed, .cut_at = 40000}));
    n_errors += run(*cut, files, seed, seed % 2 == 0).n_errors;
  }
  BOOST_TEST(n_errors > 20U);
}

BOOST_AUTO_TEST_CASE(the_kernel_may_answer_anything) {
  const test::ExpertFiles files(test::small_shape());
  with_faulty_reads(files, [&](FaultyReads ops) { return *BasicPreadStore<FaultyReads>::open(files.index(), {.workers = 2}, ops); });
#ifdef COLI_HAVE_LIBURING
  if (auto probe = UringStore::open(files.index()); !probe) {
    BOOST_TEST_MESSAGE("SKIP: " + probe.error().line());
    return;
  }
  with_faulty_reads(files, [&](FaultyReads ops) { return *BasicUringStore<FaultyReads>::open(files.index(), {}, ops); });
#endif
}

BOOST_AUTO_TEST_CASE(a_cancel_returns_within_100_ms_whatever_the_disk_does) {
  const test::Watchdog watchdog("cancel");
  const test::ExpertFiles files(shape());
  auto best = *AnyStore::open(files.index());
  FaultyStore slow(*best, files.index(), {.seed = 3, .longest_delay = std::chrono::seconds(60)});
  Accountant accountant;
  auto cache = *ExpertCache<Lru, FaultyStore<AnyStore>>::open(accountant, slow, files.geometry(), least_slots(files.geometry()));
  for (int round = 0; round < 3; ++round) {
    std::atomic<bool> cancel{false};
    const std::vector<ExpertId> experts{ExpertId{3}, ExpertId{6}};
    auto lease = *cache->acquire(LayerId{2}, experts, &cancel);
    std::chrono::steady_clock::time_point asked;
    std::thread canceller([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      asked = std::chrono::steady_clock::now();
      cancel = true;
    });
    const test::Drained drained = test::drain(lease, files.geometry(), 2);
    canceller.join();
    BOOST_TEST((std::chrono::steady_clock::now() - asked < std::chrono::milliseconds(100)));
    BOOST_TEST(drained.n_errors_told == 1U);
    BOOST_TEST((drained.error->code == Errc::interrupted));
  }
}

}  // namespace
}  // namespace coli
