// SPDX-License-Identifier: Apache-2.0
// Is surprise the negative log of the softmax, over windows that count every prediction once?
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "coli/evaluation/perplexity.hpp"
#include "made_up.hpp"

namespace coli::evaluation {
namespace {

const double kClose = 1e-12;

double by_hand(const test::MadeUpModel& model, std::span<const TokenId> tokens) {
  double nats = 0;
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    const auto& row = model.table[static_cast<std::size_t>(tokens[i].value)];
    double sum = 0;
    for (const float l : row) sum += std::exp(double{l});
    nats -= std::log(std::exp(double{row[static_cast<std::size_t>(tokens[i + 1].value)]}) / sum);
  }
  return nats;
}

BOOST_AUTO_TEST_SUITE(perplexities)

BOOST_AUTO_TEST_CASE(every_prediction_counts_once_whatever_the_window) {
  test::MadeUpModel model;  // logits depend on the last token only, so every cut must give the same
  std::vector<TokenId> tokens;
  for (int i = 0; i < 61; ++i) tokens.push_back(TokenId{i * i % 4 == 1 ? i % 3 : 3 - i % 4});
  const double expected = by_hand(model, tokens);
  for (const auto& [window, stride] : {std::pair{16U, 8U}, std::pair{16U, 16U}, std::pair{16U, 1U}, std::pair{2U, 1U}, std::pair{1U, 1U}, std::pair{7U, 3U}, std::pair{15U, 4U}}) {
    const auto p = perplexity(model, tokens, 100, {window, stride});
    BOOST_TEST_REQUIRE(p.has_value());
    BOOST_TEST(p->n_predicted == 60U, "window " << window << ", stride " << stride);
    BOOST_TEST(std::fabs(p->nats - expected) < 1e-9);
    BOOST_TEST(std::fabs(p->nats_per_token() - expected / 60) < kClose * 100);
    BOOST_TEST(std::fabs(p->bits_per_byte() - expected / std::log(2.0) / 100) < kClose * 100);
  }
}

BOOST_AUTO_TEST_CASE(surprise_by_hand) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> even{1, 1, -inf, 1, 1};
  BOOST_TEST(std::fabs(*surprise(even, TokenId{0}) - std::log(4.0)) < kClose);
  const std::vector<float> large{1000, 1000 - 1, -inf};
  BOOST_TEST(std::fabs(*surprise(large, TokenId{0}) - std::log1p(std::exp(-1.0))) < kClose);
  BOOST_TEST(!surprise(even, TokenId{2}));
  BOOST_TEST(!surprise(std::vector<float>{0, std::nanf("")}, TokenId{0}));
}

BOOST_AUTO_TEST_CASE(what_can_not_be_is_refused) {
  test::MadeUpModel model;
  const auto code = [&](std::span<const TokenId> tokens, PerplexityOptions options) { return perplexity(model, tokens, 1, options).error().code; };
  const auto some = test::ids({0, 1, 2});
  BOOST_TEST((code(some, {17, 8}) == Errc::usage));  // the context is 16
  BOOST_TEST((code(some, {8, 9}) == Errc::usage));
  BOOST_TEST((code(some, {8, 0}) == Errc::usage));
  BOOST_TEST((code(test::ids({0}), {8, 4}) == Errc::nothing_compared));
  BOOST_TEST((code({}, {8, 4}) == Errc::nothing_compared));
  model.table[1][2] = -std::numeric_limits<float>::infinity();
  BOOST_TEST((code(some, {8, 4}) == Errc::internal));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli::evaluation
