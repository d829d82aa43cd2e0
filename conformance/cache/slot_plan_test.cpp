// SPDX-License-Identifier: Apache-2.0
// What a byte budget buys: the least, the proportion, the whole budget, and never less for more.
#include "coli/cache/slot_plan.hpp"

#include <boost/test/unit_test.hpp>
#include <optional>
#include <vector>

#include "coli/cache/geometry.hpp"
#include "coli/core/bytes.hpp"

namespace coli {
namespace {

CacheGeometry geometry(std::uint32_t n_experts, std::uint32_t top_k, std::vector<std::uint64_t> down_bytes) {
  std::vector<std::optional<ExpertBytes>> layers;
  for (const std::uint64_t down : down_bytes) {
    layers.emplace_back();
    if (down != 0) layers.back() = ExpertBytes{{640, 640, down}, {640, 640, down}};
  }
  return *CacheGeometry::make(n_experts, top_k, std::move(layers));
}

BOOST_AUTO_TEST_CASE(layers_of_equal_bytes_share_a_class) {
  const CacheGeometry g = geometry(8, 2, {0, 640, 1280, 640, 0, 1280, 650});
  BOOST_TEST(g.classes().size() == 3U);
  BOOST_TEST(g.class_of(LayerId{1}) == g.class_of(LayerId{3}));
  BOOST_TEST(g.classes()[0].slot_bytes == 1920U);
  BOOST_TEST(g.classes()[1].slot_bytes == 2560U);
  BOOST_TEST(g.classes()[2].slot_bytes == 1984U);  // rounded up to 64
  BOOST_TEST(!g.has_experts(LayerId{0}));
  BOOST_TEST(!g.has_experts(LayerId{7}));
  BOOST_TEST(g.part_offset(LayerId{6}, Part::down) == 1280U);
  BOOST_TEST(g.experts_in_class(0) == 16U);
  BOOST_TEST(g.all_bytes().value == 16U * 1920 + 16 * 2560 + 8 * 1984);
  BOOST_TEST(g.token_cycle().value == g.all_bytes().value / 4);
  BOOST_TEST(g.largest_raw_part() == 1280U);
}

BOOST_AUTO_TEST_CASE(nonsense_is_refused) {
  BOOST_TEST(!CacheGeometry::make(8, 0, {}).has_value());
  BOOST_TEST(!CacheGeometry::make(8, 9, {}).has_value());
  BOOST_TEST(!CacheGeometry::make(8, 2, {ExpertBytes{{1, 0, 1}, {1, 1, 1}}}).has_value());
  BOOST_TEST(CacheGeometry::make(8, 8, {std::nullopt}).has_value());
}

BOOST_AUTO_TEST_CASE(the_least_is_top_k_slots_in_each_class_and_less_is_refused_with_the_arithmetic) {
  const CacheGeometry g = geometry(8, 2, {640, 1280, 640, 1280});
  const SlotPlan least = least_slots(g);
  BOOST_TEST(least.bytes.value == 2U * 1920 + 2 * 2560);
  BOOST_TEST(plan_slots(g, least.bytes)->slots == least.slots);
  const auto refused = plan_slots(g, Bytes{least.bytes.value - 1});
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().code == Errc::over_budget));
  BOOST_TEST(refused.error().message.find("8960") != std::string::npos);
  BOOST_TEST(refused.error().message.find("8959") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(more_bytes_never_mean_fewer_slots_and_none_are_left_idle) {
  for (const CacheGeometry& g : {geometry(8, 2, {640, 1280, 640, 1280, 650}), geometry(16, 4, {640}),
                                 geometry(5, 5, {64, 6400, 640, 640, 640})}) {
    SlotPlan last = least_slots(g);
    for (std::uint64_t budget = last.bytes.value; budget < g.all_bytes().value + 5000; budget += 37) {
      const SlotPlan plan = *plan_slots(g, Bytes{budget});
      BOOST_REQUIRE(plan.bytes.value <= budget);
      std::uint64_t sum = 0;
      std::uint64_t largest = 0;
      for (std::size_t c = 0; c < plan.slots.size(); ++c) {
        BOOST_REQUIRE(plan.slots[c] >= last.slots[c]);
        BOOST_REQUIRE(plan.slots[c] <= g.experts_in_class(static_cast<std::uint32_t>(c)));
        sum += plan.slots[c] * g.classes()[c].slot_bytes;
        largest = std::max(largest, g.classes()[c].slot_bytes);
      }
      BOOST_REQUIRE(sum == plan.bytes.value);
      if (!plan.all_resident(g)) BOOST_REQUIRE(budget - plan.bytes.value < largest);
      last = plan;
    }
    BOOST_TEST(last.all_resident(g));
    BOOST_TEST(last.bytes.value == g.all_bytes().value);
  }
}

BOOST_AUTO_TEST_CASE(classes_get_their_share) {
  // The shape of Qwen3-30B-A3B in Q4_K_M: half of the layers hold larger experts. 60 % of the bytes is 60 % of each.
  std::vector<std::optional<ExpertBytes>> layers;
  for (int l = 0; l < 48; ++l) {
    const std::uint64_t down = l % 2 == 0 ? 1290240 : 884736;
    layers.push_back(ExpertBytes{{884736, 884736, down}, {884736, 884736, down}});
  }
  const CacheGeometry g = *CacheGeometry::make(128, 8, std::move(layers));
  BOOST_TEST(g.all_bytes().value == 17553162240U);
  const SlotPlan plan = *plan_slots(g, Bytes{g.all_bytes().value / 10 * 6});
  BOOST_TEST(plan.slots[0] == plan.slots[1]);
  BOOST_TEST(plan.slots[0] == 1843U);  // of 3072
}

}  // namespace
}  // namespace coli
