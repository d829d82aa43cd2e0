// SPDX-License-Identifier: Apache-2.0
// The README's profile of a host's own: composed of chosen policies, registered nowhere, as exact as the one that ships.
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "coli/cache/eviction/sieve.hpp"
#include "coli/engine.hpp"
#include "coli/planner.hpp"
#include "coli/profiles.hpp"

namespace {

struct AboutMine {  // optional: what a planner and people should know
  static constexpr coli::ProfileAbout about{.summary = "reference arithmetic, SIEVE, three formats", .most_core_rate = 0.4e9};
};
using mine = coli::profile<"mine", coli::ScalarBackend, coli::formats<coli::F32, coli::Q4_K, coli::Q6_K>, coli::Sieve, coli::KvFormat::f32, AboutMine>;

template <class P>
std::vector<float> logits_of(const coli::EngineOptions& options) {
  auto engine = coli::engine<P>::open(std::string(COLI_FIXTURES_DIR) + "/tiny_q4_k_m.gguf", options);
  BOOST_TEST_REQUIRE(engine.has_value(), (engine ? "" : engine.error().line()));
  const std::vector<coli::TokenId> prompt{coli::TokenId{1}, coli::TokenId{2}, coli::TokenId{3}};
  const auto logits = engine->prefill(prompt);
  BOOST_TEST_REQUIRE(logits.has_value());
  return {logits->begin(), logits->end()};
}

BOOST_AUTO_TEST_CASE(a_host_composes_its_own_profile) {
  const auto own = logits_of<mine>({.context = 64, .threads = 2});
  const auto shipped = logits_of<coli::profiles::scalar>({.context = 64, .threads = 1});
  BOOST_TEST(own.size() == shipped.size());
  BOOST_TEST((own == shipped));  // bit for bit: eviction and threads change nothing
  BOOST_TEST(coli::planned_profile<mine>({}).name == "mine");
  BOOST_TEST(coli::planned_profile<mine>({}).most_core_rate == 0.4e9);
}

}  // namespace
