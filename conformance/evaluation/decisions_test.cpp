// SPDX-License-Identifier: Apache-2.0
// Are decisions, margins and hashes those of a model worked out by hand?
#include <boost/test/unit_test.hpp>

#include "coli/evaluation/decisions.hpp"
#include "made_up.hpp"

namespace coli::evaluation {
namespace {

BOOST_AUTO_TEST_SUITE(decisions)

BOOST_AUTO_TEST_CASE(by_hand) {
  test::MadeUpModel model;
  ExpertUse use;
  bool seen = false;
  model.observer().on_routing = [&](LayerId, std::uint32_t, const Routing&) { seen = true; };
  // 1, 0 -> 2 (margin 1.5) -> 3 (3) -> 1 (0.25) -> 0 (1)
  const auto d = decide(model, "a", test::ids({1, 0}), 4, 2, &use);
  BOOST_TEST_REQUIRE(d.has_value());
  BOOST_TEST((d->ids == test::ids({2, 3, 1, 0})));
  BOOST_TEST(d->token_count == 2U);
  BOOST_TEST(d->token_margin == 0.25F);
  BOOST_TEST(d->token_margin_step == 2U);
  BOOST_TEST(d->route_margin == 0.25F);  // of token 1: first at position 0, again at position 4
  BOOST_TEST(d->route_margin_position == 0U);
  BOOST_TEST(d->top_logits.size() == 4U);
  BOOST_TEST((d->top_logits[0].first == TokenId{1}));
  BOOST_TEST(use.layers()[0][0] == 2U);  // positions 1 and 2: tokens 0 and 2; positions 0, 3 and 4: 1, 3 and 1
  BOOST_TEST(use.layers()[0][1] == 3U);
  BOOST_TEST((use.total_and_unused() == std::pair<std::size_t, std::size_t>{2, 0}));
  // by Python: hashlib.sha256(struct.pack('<ii', 1, 0))
  BOOST_TEST(d->prompt_sha256 == "7c9fa136d4413fa6173637e883b6998d32e1d675f88cddff9dcbcf331820f4b8");
  BOOST_TEST(!seen);  // the host's observer is not called meanwhile ...
  (void)model.step(TokenId{1});
  BOOST_TEST(seen);  // ... and is back afterwards
}

BOOST_AUTO_TEST_CASE(hashes_see_every_bit_and_only_what_was_decided) {
  test::MadeUpModel model;
  const auto base = *decide(model, "a", test::ids({1, 0}), 4, 2);
  BOOST_TEST(hash_of(std::span(&base, 1)) == hash_of(std::span(&base, 1)));
  const auto again = *decide(model, "a", test::ids({1, 0}), 4, 2);
  BOOST_TEST(hash_of(std::span(&base, 1)) == hash_of(std::span(&again, 1)));
  model.table[2][1] = std::nextafter(1.0F, 2.0F);  // a logit that wins nothing
  const auto bit = *decide(model, "a", test::ids({1, 0}), 4, 2);
  BOOST_TEST((bit.ids == base.ids));
  BOOST_TEST(bit.route_ids_sha256 == base.route_ids_sha256);
  BOOST_TEST(bit.logits_sha256 != base.logits_sha256);
  BOOST_TEST(hash_of(std::span(&base, 1)) != hash_of(std::span(&bit, 1)));
}

BOOST_AUTO_TEST_CASE(the_hash_of_routes_is_of_ids_in_rank_order) {
  test::MadeUpModel model;
  model.more = {5, 7};
  const auto ranked = *decide(model, "a", test::ids({0}), 1, 8);
  // by Python: hashlib.sha256(struct.pack('<3H', 0, 5, 7))
  BOOST_TEST(ranked.route_ids_sha256 == "94bcf9ca70856b56492b9bd48be5b60f49caa9833e230d69f250ea8386783bf7");
  model.more = {7, 5};
  BOOST_TEST(decide(model, "a", test::ids({0}), 1, 8)->route_ids_sha256 != ranked.route_ids_sha256);
}

BOOST_AUTO_TEST_CASE(what_is_not_finite_names_its_step) {
  test::MadeUpModel model;
  model.table[2][0] = std::nanf("");
  const auto d = decide(model, "a", test::ids({0}), 3, 2);
  BOOST_TEST_REQUIRE(!d.has_value());
  BOOST_TEST(d.error().line() == "step 1: the logit of token 0 is not finite (nan)");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli::evaluation
