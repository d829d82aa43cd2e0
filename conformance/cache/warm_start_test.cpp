// SPDX-License-Identifier: Apache-2.0
// A warm start is in nobody's way: it reads while nothing is demanded, takes slots that are free, and gives all of it up.
#include "coli/cache/warm_start.hpp"

#include <algorithm>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <thread>
#include <vector>

#include "coli/cache/eviction/lru.hpp"
#include "coli/cache/expert_cache.hpp"
#include "coli/store/any_store.hpp"
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
std::vector<ExpertKey> keys(std::initializer_list<std::uint32_t> values, LayerId layer = kLayer) {
  std::vector<ExpertKey> all;
  for (const std::uint32_t value : values) all.push_back({layer, ExpertId{value}});
  return all;
}

/// One class of `slots` slots over two layers of 8 experts, top 2; one thread, so that every step is known.
struct Bench {
  explicit Bench(std::uint32_t slots, std::uint32_t buffers = 12) {
    SlotPlan plan = least_slots(geometry);
    plan.slots[0] = slots;
    const SlotFiller filler = [this](ExpertKey key, Part part, FillPiece piece, std::span<const std::byte> raw, std::byte* to) {
      filled.push_back(key.expert.value);
      const std::size_t begin = raw.size() * piece.index / piece.count, end = raw.size() * (piece.index + 1) / piece.count;
      std::copy(raw.begin() + static_cast<std::ptrdiff_t>(begin), raw.begin() + static_cast<std::ptrdiff_t>(end), to + begin);
      if (on_filled) on_filled(key, part, piece);
    };
    cache = *Cache::open(accountant, store, geometry, plan, filler, {.staging_buffers = buffers, .fill_pieces = 2});
  }
  /// What the store has, in order, whole experts once.
  std::vector<std::uint32_t> asked(Urgency urgency) const {
    std::vector<std::uint32_t> experts;
    for (const auto& read : store.pending())
      if (read.urgency == urgency && (experts.empty() || experts.back() != read.key.expert.value)) experts.push_back(read.key.expert.value);
    return experts;
  }
  /// Demands one expert that has all the time in the world: the calling thread does what nobody asked for meanwhile.
  void demand_slowly(std::uint32_t expert, LayerId layer = kLayer) {
    auto lease = *cache->acquire(layer, ids({expert}));
    std::thread later([&] {
      for (int quiet = 0; quiet < 5; ++quiet) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      store.arrive(ExpertId{expert});
    });
    BOOST_TEST(test::drain(lease, geometry, 1).n_good == 1U);
    later.join();
  }
  std::size_t hits_of(std::initializer_list<std::uint32_t> experts, LayerId layer = kLayer) {
    const std::uint64_t before = cache->stats().hits;
    for (const std::uint32_t expert : experts) {
      auto lease = *cache->acquire(layer, ids({expert}));
      store.arrive(ExpertId{expert});
      BOOST_TEST(test::drain(lease, geometry, 1).n_good == 1U);
    }
    return cache->stats().hits - before;
  }
  WarmStats stats() const { return cache->stats().warm; }

  test::Watchdog watchdog{"a test of warm starts"};
  test::ExpertFiles files{{.n_experts = 8, .top_k = 2, .layers = {{0, 0, 0}, {100, 100, 300}, {100, 100, 300}}}};
  CacheGeometry geometry = files.geometry();
  test::ManualStore store{files.index()};
  Accountant accountant;
  std::vector<std::uint32_t> filled;
  std::function<void(ExpertKey, Part, FillPiece)> on_filled;
  std::unique_ptr<Cache> cache;
};

std::string list(const std::vector<std::uint32_t>& values) {
  std::string text;
  for (const std::uint32_t value : values) text += (text.empty() ? "" : " ") + std::to_string(value);
  return text;
}

BOOST_AUTO_TEST_SUITE(warm_start)

BOOST_AUTO_TEST_CASE(it_begins_at_once_with_the_first_and_takes_half_of_the_buffers) {
  Bench bench(8, 12);
  bench.cache->warm(keys({5, 2, 7, 1}));
  BOOST_TEST(list(bench.asked(Urgency::prefetch)) == "5 2");
  BOOST_TEST(bench.store.pending().size() == 6U);
  BOOST_TEST(bench.stats().issued == 2U);
  bench.store.arrive(ExpertId{5});
  bench.store.arrive(ExpertId{2});
  BOOST_TEST(bench.filled.empty());
  bench.demand_slowly(0);  // who waits for it puts both into slots
  BOOST_TEST(list(bench.asked(Urgency::prefetch)) == "7 1");  // and the next two were asked for when it had come
  BOOST_TEST(bench.cache->stats().misses == 1U);
  BOOST_TEST(bench.hits_of({5, 2}) == 2U);
  BOOST_TEST(bench.stats().useful == 2U);
  BOOST_TEST(bench.hits_of({5, 2}) == 2U);
  BOOST_TEST(bench.stats().useful == 2U);  // one expert is one success
}

BOOST_AUTO_TEST_CASE(nothing_is_begun_while_a_demand_waits_or_is_read) {
  Bench bench(16, 12);
  auto lease = *bench.cache->acquire(kLayer, ids({0, 1}));
  bench.cache->warm(keys({5, 6, 7}));
  BOOST_TEST(bench.asked(Urgency::prefetch).empty());
  bench.store.arrive(ExpertId{0});
  BOOST_REQUIRE(lease.next()->has_value());
  BOOST_TEST(bench.asked(Urgency::prefetch).empty());  // the other one is still being read
  bench.store.arrive(ExpertId{1});
  BOOST_REQUIRE(lease.next()->has_value());
  BOOST_TEST(list(bench.asked(Urgency::prefetch)) == "5 6");
  // A demand of 12 parts is asked for as far as there are buffers, though all that was asked for before is still out.
  auto more = *bench.cache->acquire(LayerId{2}, ids({0, 1, 2, 3}));
  BOOST_TEST(list(bench.asked(Urgency::demand)) == "0 1");
  for (const std::uint32_t expert : {5U, 6U}) bench.store.arrive(ExpertId{expert});
  std::vector<std::string> out;
  bench.on_filled = [&](ExpertKey key, Part part, FillPiece piece) {
    if (key.layer == kLayer && key.expert.value >= 5 && piece.index == 0) out.push_back(list(bench.asked(Urgency::demand)) + (part == Part::gate ? " gate" : ""));
    if (key.layer == kLayer && key.expert.value == 6 && part == Part::down && piece.index == 1)
      for (const std::uint32_t expert : {0U, 1U}) bench.store.arrive(ExpertId{expert});
    if (key.layer != kLayer)
      for (const std::uint32_t expert : {2U, 3U}) bench.store.arrive(ExpertId{expert});
  };
  BOOST_TEST(test::drain(more, bench.geometry, 1).n_good == 4U);
  BOOST_REQUIRE(out.size() == 6U);
  BOOST_TEST(out[0] == "0 1 gate");
  BOOST_TEST(out[1] == "0 1 2");  // a buffer that is free is the demand's, not the list's
  BOOST_TEST(out[3] == "0 1 2 gate");
  BOOST_TEST(out[4] == "0 1 2 3");
  BOOST_TEST(bench.stats().issued == 3U);  // 7 went last, when nothing was demanded any more
  BOOST_TEST(list(bench.asked(Urgency::prefetch)) == "7");
}

BOOST_AUTO_TEST_CASE(what_has_arrived_for_the_demand_goes_first) {
  Bench bench(16, 12);
  bench.cache->warm(keys({5, 6}));
  for (const std::uint32_t expert : {5U, 6U}) bench.store.arrive(ExpertId{expert});
  auto lease = *bench.cache->acquire(LayerId{2}, ids({0, 1}));
  bench.store.arrive(ExpertId{0});
  bench.on_filled = [&](ExpertKey key, Part part, FillPiece piece) {  // the demand's other half comes amidst
    if (key.layer == kLayer && part == Part::gate && piece.index == 1) bench.store.arrive(ExpertId{1});
  };
  BOOST_TEST(test::drain(lease, bench.geometry, 1).n_good == 2U);
  BOOST_TEST(list(bench.filled) == "0 0 0 0 0 0 5 5 1 1 1 1 1 1");  // two pieces of three parts each
  BOOST_TEST(bench.stats().useful == 0U);
}

BOOST_AUTO_TEST_CASE(it_evicts_nothing_and_ends_when_no_slot_is_free) {
  Bench bench(6, 24);
  BOOST_TEST(bench.hits_of({0, 1, 2, 3}) == 0U);
  bench.cache->warm(keys({0, 1, 4, 5, 6, 7}));  // two are there, two find room
  BOOST_TEST(list(bench.asked(Urgency::prefetch)) == "4 5");
  for (const std::uint32_t expert : {4U, 5U}) bench.store.arrive(ExpertId{expert});
  std::atomic<bool> cancel{false};
  {
    auto lease = *bench.cache->acquire(LayerId{2}, ids({0}), &cancel);  // takes the fifth slot: one of the two has none now
    BOOST_TEST(bench.stats().wasted == 1U);
    bench.on_filled = [&](ExpertKey, Part part, FillPiece) { if (part == Part::down) bench.store.arrive(ExpertId{0}); };
    BOOST_TEST(test::drain(lease, bench.geometry, 1).n_good == 1U);
  }
  bench.on_filled = nullptr;
  BOOST_TEST(bench.store.pending().empty());
  BOOST_TEST(bench.stats().issued == 2U);
  BOOST_TEST(bench.hits_of({0, 1, 2, 3, 4}) == 5U);
  BOOST_TEST(bench.hits_of({0}, LayerId{2}) == 1U);
  BOOST_TEST(bench.hits_of({6, 7}) == 0U);
  BOOST_TEST(bench.stats().useful == 1U);
}

BOOST_AUTO_TEST_CASE(a_demand_takes_over_what_is_on_its_way) {
  Bench bench(8, 24);
  bench.cache->warm(keys({1, 2, 3, 4}));
  bench.store.arrive(ExpertId{1}, Part::up);
  bench.store.arrive(ExpertId{2});
  auto lease = *bench.cache->acquire(kLayer, ids({1, 2}));
  BOOST_TEST(list(bench.asked(Urgency::demand)) == "1");
  BOOST_TEST(list(bench.asked(Urgency::prefetch)) == "3 4");
  BOOST_TEST(bench.cache->stats().misses == 2U);  // neither had its slot
  BOOST_TEST(bench.stats().late == 1U);
  BOOST_TEST(bench.stats().useful == 1U);
  bench.store.arrive(ExpertId{1});
  BOOST_TEST(bench.store.pending().size() == 6U);
  BOOST_TEST(test::drain(lease, bench.geometry, 1).n_good == 2U);
  BOOST_TEST(bench.cache->stats().bytes_read == 1000U);  // nothing twice
}

BOOST_AUTO_TEST_CASE(it_has_its_slot_when_all_of_it_has_arrived) {
  Bench bench(8, 12);
  bench.cache->warm(keys({5}));
  bench.store.arrive(ExpertId{5}, Part::gate);
  bench.store.arrive(ExpertId{5}, Part::up);
  bench.demand_slowly(0);
  BOOST_TEST(bench.hits_of({5}) == 0U);
  BOOST_TEST(bench.stats().late == 1U);
}

BOOST_AUTO_TEST_CASE(a_demand_joins_what_is_being_put_into_its_slot) {
  Bench bench(8, 12);
  bench.cache->warm(keys({5}));
  bench.store.arrive(ExpertId{5});
  auto first = *bench.cache->acquire(LayerId{2}, ids({0}));
  std::optional<Cache::Lease> second;
  bench.on_filled = [&](ExpertKey key, Part part, FillPiece piece) {
    if (key.expert.value != 5 || part != Part::gate || piece.index != 0) return;
    second.emplace(*bench.cache->acquire(kLayer, ids({5})));  // after a sixth of it
    BOOST_TEST(!bench.cache->acquire(LayerId{2}, ids({0, 1, 2, 3, 4, 5, 6, 7})).has_value());  // it is no longer there to be taken
    bench.store.arrive(ExpertId{0});
  };
  BOOST_TEST(test::drain(first, bench.geometry, 1).n_good == 1U);
  BOOST_REQUIRE(second.has_value());
  BOOST_TEST(!second->was_resident(0));
  BOOST_TEST(test::drain(*second, bench.geometry, 1).n_good == 1U);
  BOOST_TEST(bench.cache->stats().hits == 1U);
  BOOST_TEST(bench.stats().useful == 1U);
  BOOST_TEST(std::count(bench.filled.begin(), bench.filled.end(), 5U) == 6);
  BOOST_TEST(bench.cache->stats().bytes_read == 1000U);
}

BOOST_AUTO_TEST_CASE(slots_that_are_being_filled_unasked_are_the_demands) {
  Bench bench(4, 24);
  bench.cache->warm(keys({5, 6}));
  for (const std::uint32_t expert : {5U, 6U}) bench.store.arrive(ExpertId{expert});
  {
    auto lease = *bench.cache->acquire(LayerId{2}, ids({0}));
    bench.on_filled = [&](ExpertKey key, Part part, FillPiece) { if (key.expert.value == 5 && part == Part::up) bench.store.arrive(ExpertId{0}); };
    BOOST_TEST(test::drain(lease, bench.geometry, 1).n_good == 1U);
  }
  bench.on_filled = nullptr;
  BOOST_REQUIRE(std::count(bench.filled.begin(), bench.filled.end(), 5U) < 6);  // half done, and then left
  auto all = *bench.cache->acquire(LayerId{2}, ids({0, 1, 2, 3}));
  for (const std::uint32_t expert : {1U, 2U, 3U}) bench.store.arrive(ExpertId{expert});
  BOOST_TEST(test::drain(all, bench.geometry, 1).n_good == 4U);
  BOOST_TEST(bench.stats().wasted == 2U);
  BOOST_TEST(bench.stats().useful == 0U);
}

// The same while a thread of another lease is in the middle of it: acquire waits for the piece, and no longer.
BOOST_AUTO_TEST_CASE(a_piece_being_written_is_waited_for) {
  Bench bench(4, 24);
  bench.cache->warm(keys({5}));
  bench.store.arrive(ExpertId{5});
  auto first = *bench.cache->acquire(LayerId{2}, ids({0}));
  std::atomic<bool> writing{false}, asked{false};
  std::atomic<bool> written{false};
  bench.on_filled = [&](ExpertKey key, Part, FillPiece) {
    if (key.expert.value != 5 || writing.exchange(true)) return;
    while (!asked.load()) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    written = true;
    bench.store.arrive(ExpertId{0});
  };
  std::size_t n_good = 0;
  std::thread waiting([&] { n_good = test::drain(first, bench.geometry, 1).n_good; });  // checked here: assertions belong to one thread
  while (!writing.load()) std::this_thread::yield();
  asked = true;
  {
    auto others = *bench.cache->acquire(LayerId{2}, ids({1, 2, 3}));
    BOOST_TEST(written.load());
    waiting.join();
    BOOST_TEST(n_good == 1U);
    bench.on_filled = nullptr;
    for (const std::uint32_t expert : {1U, 2U, 3U}) bench.store.arrive(ExpertId{expert});
    BOOST_TEST(test::drain(others, bench.geometry, 1).n_good == 3U);
  }
  BOOST_TEST(bench.stats().wasted == 1U);
}

BOOST_AUTO_TEST_CASE(a_read_that_fails_is_nobodys_error_until_it_is_demanded) {
  Bench bench(8, 12);
  bench.cache->warm(keys({5, 6}));
  bench.store.fail(ExpertId{5}, Part::up);
  bench.store.arrive(ExpertId{6});
  bench.demand_slowly(0);
  BOOST_TEST(bench.stats().wasted == 1U);
  BOOST_TEST(bench.hits_of({6}) == 1U);
  auto lease = *bench.cache->acquire(kLayer, ids({5}));
  BOOST_TEST(list(bench.asked(Urgency::demand)) == "5");
  bench.store.fail(ExpertId{5}, Part::up);
  const auto told = lease.next();
  BOOST_REQUIRE(!told);
  BOOST_TEST((told.error().code == Errc::io));
}

BOOST_AUTO_TEST_CASE(what_is_evicted_unused_was_for_nothing) {
  Bench bench(4, 24);
  bench.cache->warm(keys({5, 6}));
  for (const std::uint32_t expert : {5U, 6U}) bench.store.arrive(ExpertId{expert});
  bench.demand_slowly(0);
  BOOST_TEST(bench.hits_of({6}) == 1U);
  BOOST_TEST(bench.hits_of({1, 2, 3}) == 0U);  // the least recently used goes: 5, which nobody asked for, among them
  BOOST_TEST(bench.stats().useful == 1U);
  BOOST_TEST(bench.stats().wasted == 1U);
  bench.cache->reset_stats();
  BOOST_TEST(bench.stats().issued == 0U);
}

BOOST_AUTO_TEST_CASE(a_place_unasked_is_a_free_slot_or_none) {
  const Bench bench(8);
  SlotPlan plan = least_slots(bench.geometry);
  plan.slots[0] = 3;
  CacheCore<Lru> core(bench.geometry, plan);
  std::vector<SlotGrant> grants(3);
  BOOST_REQUIRE(core.acquire(kLayer, ids({0, 1}), grants));
  const auto slot = core.place_free({kLayer, ExpertId{2}});
  BOOST_REQUIRE(slot.has_value());
  BOOST_TEST(core.resident({kLayer, ExpertId{2}}));
  core.release(kLayer, grants[0].slot);
  core.release(kLayer, grants[1].slot);
  BOOST_TEST(!core.place_free({kLayer, ExpertId{3}}).has_value());  // two could be evicted, and are not
  BOOST_TEST(core.resident({kLayer, ExpertId{0}}));
  BOOST_TEST(!core.acquire(kLayer, ids({4, 5, 6}), grants).has_value());  // its slot is pinned
  core.release(kLayer, *slot);
  BOOST_TEST(core.acquire(kLayer, ids({4, 5, 6}), grants).has_value());
  BOOST_TEST(core.layer_stats()[1].misses == 5U);
}

BOOST_AUTO_TEST_CASE(guesses_of_the_next_layer_go_before_it_and_name_no_expert_twice) {
  Bench bench(16, 12);
  bench.cache->prefetch(LayerId{2}, ids({3}));
  bench.cache->warm(keys({3, 4}, LayerId{2}));
  BOOST_TEST(list(bench.asked(Urgency::prefetch)) == "3 4");
  bench.cache->prefetch(LayerId{2}, ids({4, 3, 6}));  // 4 is on its way, and half of the buffers are taken
  BOOST_TEST(bench.store.pending().size() == 6U);
  BOOST_TEST(bench.stats().issued == 1U);
  BOOST_TEST(bench.cache->stats().prefetch.issued == 2U);
}

BOOST_AUTO_TEST_CASE(keys_of_no_expert_are_passed_over) {
  Bench bench(8, 24);
  bench.cache->warm({{LayerId{0}, ExpertId{1}}, {LayerId{9}, ExpertId{1}}, {kLayer, ExpertId{8}}, {kLayer, ExpertId{7}}});
  BOOST_TEST(list(bench.asked(Urgency::prefetch)) == "7");
}

BOOST_AUTO_TEST_CASE(a_cache_closes_with_reads_outstanding) {
  {
    Bench bench(8, 24);
    bench.cache->warm(keys({1, 2, 3, 4, 5}));
    bench.store.arrive(ExpertId{2});
    bench.cache = nullptr;
    BOOST_TEST(bench.accountant.total().value == 0U);
    BOOST_TEST(bench.store.pending().empty());
  }
  test::Shape shape = test::small_shape();
  shape.directory = "/dev/shm";
  const test::ExpertFiles files(shape);
  std::vector<ExpertKey> all;
  for (std::uint32_t layer = 1; layer < files.geometry().n_layers(); ++layer)
    for (std::uint32_t expert = 0; expert < files.geometry().n_experts(); ++expert) all.push_back({LayerId{layer}, ExpertId{expert}});
  for (const StoreKind kind : {StoreKind::best, StoreKind::pread, StoreKind::mmap}) {
    auto store = *AnyStore::open(files.index(), {.kind = kind});
    for (int round = 0; round < 20; ++round) {
      Accountant accountant;
      auto cache = *ExpertCache<Lru, AnyStore>::open(accountant, *store, files.geometry(), *plan_slots(files.geometry(), Bytes{60000}));
      cache->warm(all);
      BOOST_TEST((cache->stats().warm.issued != 0) == (kind != StoreKind::mmap));
      if (round % 2 != 0) (void)cache->acquire(LayerId{2}, ids({1, 2}));
      cache = nullptr;
      BOOST_TEST(accountant.total().value == 0U);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli
