// SPDX-License-Identifier: Apache-2.0
// The most likely token, the margin that it won by, and the laws of the contract.
#include "coli/sample/greedy.hpp"

#include <boost/test/unit_test.hpp>
#include <vector>

#include "laws_sampler.hpp"

namespace coli {
namespace {

using test::kNever;

/// The least that the contract asks for: no more than next().
struct FirstCandidate {
  Result<TokenId> next(std::span<const float> logits) {
    COLI_TRY(top, top_two(logits));
    (void)top;
    std::int32_t id = 0;
    while (logits[static_cast<std::size_t>(id)] == kNever) ++id;
    return TokenId{id};
  }
};

BOOST_AUTO_TEST_SUITE(greedy)

BOOST_AUTO_TEST_CASE(laws) {
  test::check_sampler_laws<Greedy>([](std::uint64_t) { return Greedy{}; });
  test::check_is_greedy<Greedy>([] { return Greedy{}; });
  test::check_sampler_laws<FirstCandidate>([](std::uint64_t) { return FirstCandidate{}; });
}

BOOST_AUTO_TEST_CASE(margins) {
  const auto top = [](std::vector<float> logits) { return *top_two(logits); };
  BOOST_TEST(top({1, 4, 2.5F}).margin() == 1.5F);
  BOOST_TEST(top({4, 1, 2.5F}).second == 2.5F);
  BOOST_TEST(top({1, 2.5F, 4}).second == 2.5F);
  BOOST_TEST(top({4, 4}).margin() == 0);
  BOOST_TEST(top({4, 4}).best.value == 0);
  BOOST_TEST(top({-2, kNever, -5}).margin() == 3);
  BOOST_TEST(top({kNever, 7, kNever}).second == kNever);
  BOOST_TEST(std::isinf(top({7}).margin()));
}

BOOST_AUTO_TEST_CASE(errors_name_the_token) {
  const auto error = [](std::vector<float> logits) { return top_two(logits).error().line(); };
  BOOST_TEST(error({1, 2, std::numeric_limits<float>::quiet_NaN()}) == "logits: the logit of token 2 is not finite (nan)");
  BOOST_TEST(error({1, std::numeric_limits<float>::infinity()}) == "logits: the logit of token 1 is not finite (inf)");
  BOOST_TEST(error({kNever, kNever}) == "logits: no token has a finite logit");
  BOOST_TEST(error({}) == "logits: no token has a finite logit");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli
