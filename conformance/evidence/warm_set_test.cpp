// SPDX-License-Identifier: Apache-2.0
// A warm set learns what runs use, one observation a run, and trusts no file that isn't its model's.
#include "coli/evidence/warm_set.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "planted_routes.hpp"

namespace coli {
namespace {

const std::string kModel(64, 'a');

BOOST_AUTO_TEST_CASE(a_run_is_one_observation_however_often_an_expert_fires) {
  WarmSet once(kModel, 1, 4), often(kModel, 1, 4);
  once.observe({{1, 0, 0, 1}});
  often.observe({{38, 0, 0, 38}});
  for (std::uint32_t e = 0; e < 4; ++e) BOOST_TEST(once.score({LayerId{0}, ExpertId{e}}) == often.score({LayerId{0}, ExpertId{e}}));
  BOOST_TEST(often.runs() == 1U);
}

BOOST_AUTO_TEST_CASE(scores_decay_and_never_saturate) {
  WarmSet set(kModel, 2, 3);
  for (int run = 0; run < 10000; ++run) set.observe({{100, 0, 0}, {0, 0, 0}});
  const ExpertKey old{LayerId{0}, ExpertId{0}}, fresh{LayerId{0}, ExpertId{2}};
  BOOST_TEST(set.score(old) <= 1.0);
  BOOST_TEST(set.score(old) > 0.999);
  int runs = 0;
  while (set.score(fresh) <= set.score(old)) set.observe({{0, 0, 5}, {}}), ++runs;
  BOOST_TEST(runs == 4);  // 0.8^3 > 0.5 > 0.8^4: what stopped being true is overtaken after four runs, not thousands
  BOOST_TEST((set.by_popularity() == std::vector{fresh, old}));
}

BOOST_AUTO_TEST_CASE(what_was_saved_is_loaded_and_nothing_else) {
  const test::ScratchFolder folder;
  WarmSet set(kModel, 2, 3);
  set.observe({{3, 1, 0}, {0, 0, 7}});
  BOOST_REQUIRE(set.save(folder / "w"));
  const WarmSet back = *WarmSet::load(folder / "w", kModel, 2, 3);
  BOOST_TEST(back.runs() == 1U);
  BOOST_TEST((back.by_popularity() == set.by_popularity()));
  BOOST_TEST((back.by_popularity() == std::vector{ExpertKey{LayerId{1}, ExpertId{2}}, ExpertKey{LayerId{0}, ExpertId{0}}, ExpertKey{LayerId{0}, ExpertId{1}}}));
  BOOST_TEST(WarmSet::load(folder / "none", kModel, 2, 3)->by_popularity().empty());
  BOOST_TEST(!std::filesystem::exists(folder / "none"));

  BOOST_TEST(WarmSet::load(folder / "w", std::string(64, 'b'), 2, 3).error().message == "was learned from another model");
  BOOST_TEST((WarmSet::load(folder / "w", kModel, 3, 3).error().code == Errc::bad_input));
  BOOST_TEST((WarmSet::load(folder / "w", kModel, 2, 4).error().code == Errc::bad_input));
  const std::string text = test::read_bytes(folder / "w");
  for (std::size_t n = 0; n + 2 < text.size(); ++n) {
    test::write_bytes(folder / "cut", text.substr(0, n));
    BOOST_TEST_REQUIRE(!WarmSet::load(folder / "cut", kModel, 2, 3), "cut to " << n);
  }
  for (const auto& [from, to] : {std::pair{"\"version\":1", "\"version\":2"}, std::pair{"coli warm set", "cold set"}, std::pair{"0.14", "1.5"}, std::pair{"0.14", "-0.14"}, std::pair{"0.14", "null"}}) {
    std::string damaged = text;
    const auto at = damaged.find(from);
    BOOST_REQUIRE(at != std::string::npos);
    std::size_t end = at + std::string(from).size();
    while (from[0] == '0' && damaged[end] >= '0' && damaged[end] <= '9') ++end;
    damaged.replace(at, end - at, to);
    test::write_bytes(folder / "damaged", damaged);
    BOOST_TEST(!WarmSet::load(folder / "damaged", kModel, 2, 3), to);
  }
  BOOST_TEST((set.save(folder / "no/such/folder").error().code == Errc::io));
}

}  // namespace
}  // namespace coli
