// SPDX-License-Identifier: Apache-2.0
// Every policy obeys every law, and decides today as it did yesterday: counts of misses on made-up traces.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <iostream>
#include <set>
#include <vector>

#include "coli/cache/eviction/belady.hpp"
#include "coli/cache/eviction/expected_use.hpp"
#include "coli/cache/eviction/lfu_decay.hpp"
#include "coli/cache/eviction/lru.hpp"
#include "coli/cache/eviction/one_of.hpp"
#include "coli/cache/eviction/s3_fifo.hpp"
#include "coli/cache/eviction/sieve.hpp"
#include "eviction_laws.hpp"

namespace coli {
namespace {

/// The least that a policy can be: any slot that may go.
class Archetype {
 public:
  static constexpr FixedName name{"archetype"};
  explicit Archetype(EvictionShape shape) : resident_(shape.slots, false) {}
  void on_fill(SlotId slot, ExpertKey) noexcept { resident_[slot.value] = true; }
  void on_hit(SlotId, ExpertKey) noexcept {}
  void on_erase(SlotId slot, ExpertKey) noexcept { resident_[slot.value] = false; }
  std::optional<SlotId> victim(const Evictable& may_go, ExpertKey) noexcept {
    for (std::uint32_t s = 0; s < resident_.size(); ++s) {
      if (resident_[s] && may_go(SlotId{s})) return SlotId{s};
    }
    return std::nullopt;
  }
  void reset() noexcept { resident_.assign(resident_.size(), false); }

 private:
  std::vector<bool> resident_;
};

BOOST_AUTO_TEST_CASE(every_policy_obeys_the_laws) {
  test::check_eviction_laws<Archetype>();
  test::check_eviction_laws<Lru>();
  test::check_eviction_laws<LfuDecay>();
  test::check_eviction_laws<S3Fifo>();
  test::check_eviction_laws<Sieve>();
  test::check_eviction_laws<ExpectedUse>();
  test::check_eviction_laws<Belady>();
  test::check_eviction_laws<OneOf<Sieve, Lru>>();
}

BOOST_AUTO_TEST_CASE(the_ranking_answers_like_a_sorted_list) {
  test::Random random(4);
  for (int round = 0; round < 20; ++round) {
    const auto n = static_cast<std::uint32_t>(1 + random.below(30));
    SlotRanking ranking(n);
    std::vector<std::optional<std::uint64_t>> ranks(n);
    std::vector<std::uint8_t> pinned(n, 0);
    for (int step = 0; step < 400; ++step) {
      const SlotId slot{static_cast<std::uint32_t>(random.below(n))};
      switch (random.below(4)) {
        case 0:
          ranking.remove(slot);
          ranks[slot.value].reset();
          break;
        case 1:
          pinned[slot.value] ^= 1;
          break;
        default: {
          const std::uint64_t rank = random.below(12);
          ranking.set(slot, rank);
          ranks[slot.value] = rank;
        }
      }
      std::optional<SlotId> expected;
      for (std::uint32_t s = 0; s < n; ++s) {
        if (ranks[s] && pinned[s] == 0 && (!expected || *ranks[s] < *ranks[expected->value])) expected = SlotId{s};
      }
      BOOST_TEST((ranking.first(Evictable{pinned.data()}) == expected));
    }
  }
}

/// One that behaves like P, whichever of several it is.
template <class P>
struct Chosen : OneOf<ExpectedUse, Lru, LfuDecay, S3Fifo, Sieve> {
  explicit Chosen(EvictionShape shape) : OneOf(shape, P::name.view()) {}
};

template <class P>
void chosen_decides_like(const AccessTrace& trace) {
  for (const std::uint32_t n_slots : {4U, 20U, 50U}) {
    const CacheGeometry geometry = test::flat_geometry(4, 16, 3);
    const auto direct = replay<P>(trace, geometry, test::slots(n_slots), Grouping::recorded);
    const auto chosen = replay<Chosen<P>>(trace, geometry, test::slots(n_slots), Grouping::recorded);
    BOOST_TEST(direct->misses == chosen->misses, boost::test_tools::per_element());
  }
  BOOST_TEST(Chosen<P>(EvictionShape{4, 4, 16, 3, 12}).chosen() == P::name.view());
}

BOOST_AUTO_TEST_CASE(one_of_several_is_the_one_that_was_named) {
  using Several = OneOf<ExpectedUse, Lru, LfuDecay, S3Fifo, Sieve>;
  static_assert(ChosenByName<Several> && !ChosenByName<Lru>);
  const AccessTrace trace = test::made_up_trace(4, 16, 3, 100, 9);
  chosen_decides_like<ExpectedUse>(trace);
  chosen_decides_like<Lru>(trace);
  chosen_decides_like<LfuDecay>(trace);
  chosen_decides_like<S3Fifo>(trace);
  chosen_decides_like<Sieve>(trace);
  BOOST_TEST(Several(EvictionShape{4, 4, 16, 3, 12}).chosen() == "expected-use");
  BOOST_TEST(Several::holds("sieve"));
  BOOST_TEST(!Several::holds("belady"));
  BOOST_TEST(!Several::holds("siev"));
  BOOST_TEST(!Several::holds(""));
}

/// The policy's victim order when three experts were used as given and a fourth comes, all of layer 0.
template <class P>
std::vector<std::uint32_t> order_of(std::initializer_list<std::uint32_t> uses) {
  const EvictionShape shape{3, 1, 8, 1, 1};
  P policy(shape);
  std::set<std::uint32_t> present;
  if constexpr (ObservesTick<P>) policy.on_tick();
  for (const std::uint32_t e : uses) {
    const ExpertKey key{LayerId{0}, ExpertId{e}};
    if (present.insert(e).second)
      policy.on_fill(SlotId{e}, key);
    else
      policy.on_hit(SlotId{e}, key);
    if constexpr (ObservesTick<P>) policy.on_tick();
  }
  std::vector<std::uint8_t> pinned(3, 0);
  std::vector<std::uint32_t> order;
  for (int i = 0; i < 3; ++i) {
    const SlotId victim = *policy.victim(Evictable{pinned.data()}, {LayerId{0}, ExpertId{7}});
    order.push_back(victim.value);
    pinned[victim.value] = 1;
  }
  return order;
}

BOOST_AUTO_TEST_CASE(textbook_orders) {
  using Order = std::vector<std::uint32_t>;
  BOOST_TEST((order_of<Lru>({0, 1, 2, 0}) == Order{1, 2, 0}));
  BOOST_TEST((order_of<LfuDecay>({0, 0, 0, 1, 1, 2}) == Order{2, 1, 0}));
  BOOST_TEST((order_of<LfuDecay>({0, 0, 1, 2, 2, 1}) == Order{0, 1, 2} ||
              order_of<LfuDecay>({0, 0, 1, 2, 2, 1}) == Order{0, 2, 1}));
  BOOST_TEST((order_of<Sieve>({0, 1, 2, 0}) == Order{1, 2, 0}));
  BOOST_TEST((order_of<ExpectedUse>({0, 1, 2, 0, 1, 0, 1, 0}) == Order{2, 1, 0}));
}

/// Misses of a policy on three made-up traces at four sizes.
template <class P>
std::vector<std::uint64_t> misses() {
  std::vector<std::uint64_t> counts;
  for (const std::uint64_t seed : {1U, 2U}) {
    const AccessTrace trace = test::made_up_trace(6, 32, 4, 150, seed);
    for (const std::uint32_t n_slots : {12U, 30U, 60U, 120U}) {
      counts.push_back(replay<P>(trace, test::flat_geometry(6, 32, 4), test::slots(n_slots), Grouping::recorded)
                           ->misses_in(Phase::decode));
    }
  }
  return counts;
}

BOOST_AUTO_TEST_CASE(golden_counts_of_misses) {
  // Printed by this test when they differ. A change here is a change of a policy's decisions, for better or worse.
  const auto check = [](std::string_view name, const std::vector<std::uint64_t>& found,
                        const std::vector<std::uint64_t>& golden) {
    BOOST_TEST(found == golden, boost::test_tools::per_element());
    if (found == golden) return;
    std::cout << name << ":";
    for (const std::uint64_t count : found) std::cout << " " << count << ",";
    std::cout << "\n";
  };
  check("lru", misses<Lru>(), {3600, 1866, 1287, 422, 3600, 1856, 1250, 423});
  check("lfu-decay", misses<LfuDecay>(), {3067, 2291, 1439, 416, 2989, 2254, 1402, 424});
  check("s3-fifo", misses<S3Fifo>(), {3558, 2285, 1426, 410, 3469, 2248, 1420, 417});
  check("sieve", misses<Sieve>(), {3600, 2927, 1900, 443, 3600, 2957, 1970, 444});
  check("expected-use", misses<ExpectedUse>(), {2898, 1859, 1160, 403, 2831, 1816, 1170, 404});
  check("belady", misses<Belady>(), {2259, 1202, 644, 211, 2256, 1173, 645, 209});
}

template <class P>
double cyclic_hit_rate(std::uint32_t n_slots) {
  AccessTrace trace(12, 16, 4);
  for (std::uint32_t token = 0; token < 40; ++token) {
    for (std::uint32_t layer = 0; layer < 12; ++layer) {
      std::vector<ExpertId> experts;
      for (std::uint32_t e = 0; e < 4; ++e) experts.push_back(ExpertId{(layer + 3 * e) % 16});
      trace.add(LayerId{layer}, token, token * 12 + layer, Phase::decode, experts);
    }
  }
  return replay<P>(trace, test::flat_geometry(12, 16, 4), test::slots(n_slots), Grouping::recorded)
      ->hit_rate(Phase::decode);
}

BOOST_AUTO_TEST_CASE(below_one_token_cycle_hits_remain) {
  // One token touches 48 slots. LRU falls off the cliff; expected use keeps what it can, nearly as well as Belady.
  for (const std::uint32_t n_slots : {8U, 24U, 40U, 47U}) {
    if (n_slots <= 40) BOOST_TEST(cyclic_hit_rate<Lru>(n_slots) == 0.0);
    const double best = cyclic_hit_rate<Belady>(n_slots);
    BOOST_TEST(cyclic_hit_rate<ExpectedUse>(n_slots) > 0.9 * best - 0.01);
    BOOST_TEST(cyclic_hit_rate<ExpectedUse>(n_slots) > 0.05);
  }
  BOOST_TEST(cyclic_hit_rate<Lru>(48) > 0.9);
  BOOST_TEST(cyclic_hit_rate<ExpectedUse>(48) > 0.9);
  // With the least slots there is nothing to keep, and nothing breaks.
  BOOST_TEST(cyclic_hit_rate<ExpectedUse>(4) == 0.0);
}

}  // namespace
}  // namespace coli
