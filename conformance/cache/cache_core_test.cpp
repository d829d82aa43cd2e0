// SPDX-License-Identifier: Apache-2.0
// Does the cache keep its leases though a policy or a caller breaks the rules?
#include "coli/cache/cache_core.hpp"

#include <array>
#include <boost/test/unit_test.hpp>
#include <optional>
#include <vector>

#include "coli/cache/eviction/lru.hpp"

namespace coli {
namespace {

/// Names the slot that it was told to, whatever may go.
struct Stubborn {
  static constexpr FixedName name{"stubborn"};
  static inline std::optional<SlotId> answer{};

  explicit Stubborn(EvictionShape) {}
  void on_fill(SlotId, ExpertKey) noexcept {}
  void on_hit(SlotId, ExpertKey) noexcept {}
  void on_erase(SlotId, ExpertKey) noexcept {}
  std::optional<SlotId> victim(const Evictable&, ExpertKey) noexcept { return answer; }
  void reset() noexcept {}
};

CacheGeometry geometry() { return *CacheGeometry::make(8, 1, {ExpertBytes{{64, 64, 64}, {64, 64, 64}}}); }

SlotPlan plan_of(std::uint32_t slots) {
  SlotPlan plan = least_slots(geometry());
  plan.slots[0] = slots;
  return plan;
}

template <class E>
SlotId take(CacheCore<E>& core, std::uint32_t expert) {
  const std::array experts{ExpertId{expert}};
  std::array<SlotGrant, 1> grants;
  BOOST_REQUIRE(core.acquire(LayerId{0}, experts, grants));
  return grants[0].slot;
}

BOOST_AUTO_TEST_CASE(a_policy_cannot_break_a_lease) {
  const std::vector<std::optional<SlotId>> answers{SlotId{0}, SlotId{1000}, std::nullopt};  // a leased slot, none of ours, no slot
  for (const auto& answer : answers) {
    CacheCore<Stubborn> core(geometry(), plan_of(2));
    Stubborn::answer = answer;
    const SlotId kept = take(core, 0), other = take(core, 1);
    BOOST_REQUIRE(kept.value == 0u);
    core.release(LayerId{0}, other);
    BOOST_TEST((take(core, 2) == other));
    BOOST_TEST(core.resident({LayerId{0}, ExpertId{0}}));
    BOOST_TEST(!core.resident({LayerId{0}, ExpertId{1}}));
    BOOST_TEST((core.slot_of({LayerId{0}, ExpertId{2}}) == other));
  }
}

BOOST_AUTO_TEST_CASE(an_expert_named_twice_has_one_slot_and_two_pins) {
  CacheCore<Lru> core(geometry(), plan_of(2));
  const std::array twice{ExpertId{3}, ExpertId{3}};
  std::array<SlotGrant, 2> grants;
  BOOST_REQUIRE(core.acquire(LayerId{0}, twice, grants));
  BOOST_TEST((grants[0].slot == grants[1].slot));
  BOOST_TEST(core.free_slots(0) == 1u);
  core.release(LayerId{0}, grants[0].slot);
  BOOST_TEST((take(core, 4) != grants[0].slot));
  std::array<SlotGrant, 1> none;
  BOOST_TEST(!core.acquire(LayerId{0}, std::array{ExpertId{5}}, none));  // both slots are still leased
  core.release(LayerId{0}, grants[1].slot);
  BOOST_TEST((take(core, 5) == grants[0].slot));
}

BOOST_AUTO_TEST_CASE(too_many_leases_of_one_expert_are_refused) {
  CacheCore<Lru> core(geometry(), plan_of(1));
  SlotId slot{};
  for (int i = 0; i < 255; ++i) slot = take(core, 6);
  std::array<SlotGrant, 1> grants;
  const auto refused = core.acquire(LayerId{0}, std::array{ExpertId{6}}, grants);
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().code == Errc::usage));
  BOOST_TEST(core.layer_stats()[0].hits == 254u);  // a refusal counts nothing
  for (int i = 0; i < 255; ++i) core.release(LayerId{0}, slot);
  BOOST_TEST((take(core, 7) == slot));  // no pin was left behind
}

}  // namespace
}  // namespace coli
