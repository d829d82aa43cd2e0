// SPDX-License-Identifier: Apache-2.0
// Which experts, in which order, weighed how? Judged by a sort and by f64 softmax, and by hand where it is exact.
#include "coli/moe/routing.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace coli {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Choice {
  bool finite;
  std::vector<std::uint32_t> ids;
  std::vector<float> weights;
  float gap = -1;
};

Choice choose(const std::vector<float>& logits, std::uint32_t k, bool renormalise = true, float scale = 1) {
  const RouterRules rules{static_cast<std::uint32_t>(logits.size()), k, renormalise, scale};
  std::vector<ExpertId> ids(k);
  Choice choice{false, std::vector<std::uint32_t>(k), std::vector<float>(k)};
  choice.finite = route_token(rules, logits, ids, choice.weights, choice.gap);
  std::transform(ids.begin(), ids.end(), choice.ids.begin(), [](ExpertId id) { return id.value; });
  return choice;
}
using Ids = std::vector<std::uint32_t>;
using Weights = std::vector<float>;

BOOST_AUTO_TEST_SUITE(routing)

BOOST_AUTO_TEST_CASE(best_first_and_ties_to_the_lower_id) {
  BOOST_TEST((choose({1, 4, 2, 3}, 2).ids == Ids{1, 3}));
  BOOST_TEST((choose({1, 4, 2, 3}, 4).ids == Ids{1, 3, 2, 0}));
  BOOST_TEST((choose({5, 5, 5, 5}, 3).ids == Ids{0, 1, 2}));
  BOOST_TEST((choose({1, 5, 1, 5}, 3).ids == Ids{1, 3, 0}));
  BOOST_TEST((choose({0.0F, -0.0F, 0.0F}, 2).ids == Ids{0, 1}));
  BOOST_TEST((choose({-0.0F, 0.0F}, 1).ids == Ids{0}));
  BOOST_TEST((choose({1, 2, std::nextafter(2.0F, 3.0F)}, 2).ids == Ids{2, 1}));
}

BOOST_AUTO_TEST_CASE(gaps_are_exact) {
  BOOST_TEST(choose({1, 4, 2.5F, 3}, 1).gap == 1);
  BOOST_TEST(choose({1, 4, 2.5F, 3}, 2).gap == 0.5F);
  BOOST_TEST(choose({1, 4, 2.5F, 3}, 3).gap == 1.5F);
  BOOST_TEST(choose({1, 4, 2.5F, 3}, 4).gap == kInfinity);  // every expert is chosen
  BOOST_TEST(choose({4, 4, 1}, 1).gap == 0);
  BOOST_TEST(choose({4, 3, 2, 1}, 2).gap == 1);  // the next best stands at the end ...
  BOOST_TEST(choose({1, 2, 3, 4}, 2).gap == 1);  // ... or was pushed out on the way
  BOOST_TEST(choose({2, 4, 3, 1}, 2).gap == 1);
  BOOST_TEST(choose({-7}, 1).gap == kInfinity);
}

BOOST_AUTO_TEST_CASE(weights_that_are_exact) {
  BOOST_TEST((choose({2, 2, 2, 2}, 2).weights == Weights{0.5F, 0.5F}));
  BOOST_TEST((choose({2, 2, 2, 2}, 2, false).weights == Weights{0.25F, 0.25F}));  // the softmax over all, not logits
  BOOST_TEST((choose({2, 2, 2, 2}, 4, false).weights == choose({2, 2, 2, 2}, 4).weights));
  BOOST_TEST((choose({1, 9, 3}, 1).weights == Weights{1}));
  BOOST_TEST((choose({1, 9, 3}, 1, true, 2.5F).weights == Weights{2.5F}));
  BOOST_TEST((choose({2, 2, 2, 2}, 2, true, 3).weights == Weights{1.5F, 1.5F}));
  BOOST_TEST((choose({2, 2, 2, 2}, 2, false, 3).weights == Weights{0.75F, 0.75F}));
  // Far apart: the exponentials under- but never overflow.
  for (const bool renormalise : {true, false}) {
    BOOST_TEST((choose({1e30F, 0, -1e30F}, 3, renormalise).weights == Weights{1, 0, 0}));
    BOOST_TEST((choose({3.4e38F, -3.4e38F}, 2, renormalise).weights == Weights{1, 0}));
    BOOST_TEST((choose({-3.4e38F, -3.4e38F}, 2, renormalise).weights == Weights{0.5F, 0.5F}));
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_finite_is_no_choice) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity})
    for (const std::size_t at : {0U, 2U, 4U}) {
      std::vector<float> logits{1, 2, 3, 4, 5};
      logits[at] = bad;
      BOOST_TEST(!choose(logits, 2).finite);
      BOOST_TEST(!choose(logits, 5, false).finite);
    }
  BOOST_TEST(choose({1, 2, 3, 4, 5}, 2).finite);
}

// Few distinct values, so that ties are everywhere; and all distinct ones.
BOOST_AUTO_TEST_CASE(equals_a_sort) {
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    const std::size_t n = round % 10 == 0 ? 512 : 1 + random() % 130;
    const auto k = static_cast<std::uint32_t>(round % 7 == 0 ? n : 1 + random() % std::min<std::size_t>(n, 16));
    const bool renormalise = round % 2 == 0;
    const float scale = round % 3 == 0 ? 2.5F : 1;
    std::vector<float> logits(n);
    for (float& logit : logits)
      logit = round % 4 == 0 ? static_cast<float>(random() % 5) : static_cast<float>(random()) / 2e8F - 10;
    std::vector<std::uint32_t> order(n);
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return logits[a] > logits[b]; });

    const Choice choice = choose(logits, k, renormalise, scale);
    BOOST_TEST_REQUIRE(choice.finite);
    BOOST_TEST_REQUIRE((choice.ids == Ids(order.begin(), order.begin() + k)));
    BOOST_TEST_REQUIRE(choice.gap == (k < n ? logits[order[k - 1]] - logits[order[k]] : kInfinity));
    long double all = 0;
    for (std::size_t i = 0; i < (renormalise ? k : n); ++i)
      all += std::exp(static_cast<long double>(logits[order[i]]) - static_cast<long double>(logits[order[0]]));
    double sum = 0;
    for (std::uint32_t rank = 0; rank < k; ++rank) {
      const long double exact = std::exp(static_cast<long double>(logits[order[rank]]) - static_cast<long double>(logits[order[0]])) / all *
                                static_cast<long double>(scale);
      BOOST_TEST_REQUIRE(std::abs(static_cast<long double>(choice.weights[rank]) - exact) <= exact * 0x1.000001p-24L);  // one rounding to f32
      if (rank > 0) BOOST_TEST_REQUIRE(choice.weights[rank] <= choice.weights[rank - 1]);
      sum += static_cast<double>(choice.weights[rank]);
    }
    if (renormalise) BOOST_TEST_REQUIRE(std::abs(sum - static_cast<double>(scale)) <= 1e-6);
  }
}

BOOST_AUTO_TEST_CASE(many_tokens_are_each_routed_alone) {
  const RouterRules rules{4, 2, true, 1};
  const std::vector<float> logits{1, 2, 3, 4, /**/ 4, 3, 2, 1, /**/ 0, 0, 0, 0};
  Routing routing;
  routing.resize(9, 7);  // what was there before does not show
  BOOST_TEST(!route(rules, logits.data(), 3, routing).has_value());
  BOOST_TEST(routing.n_tokens == 3U);
  BOOST_TEST(routing.top_k == 2U);
  BOOST_TEST(routing.ids.size() == 6U);
  BOOST_TEST(routing.gaps.size() == 3U);
  for (std::uint32_t t = 0; t < 3; ++t) {
    const Choice alone = choose({logits.begin() + 4 * t, logits.begin() + 4 * t + 4}, 2);
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      BOOST_TEST(routing.ids_of(t)[rank].value == alone.ids[rank]);
      BOOST_TEST(routing.weights_of(t)[rank] == alone.weights[rank]);
    }
    BOOST_TEST(routing.gaps[t] == alone.gap);
  }
  BOOST_TEST(!route(rules, logits.data(), 0, routing).has_value());
  BOOST_TEST(routing.ids.empty());
}

BOOST_AUTO_TEST_CASE(the_first_token_that_is_not_finite_is_named) {
  std::vector<float> logits(5 * 3, 1);
  logits[3 * 3 + 1] = std::numeric_limits<float>::quiet_NaN();
  logits[4 * 3 + 2] = kInfinity;
  Routing routing;
  BOOST_TEST(route({3, 1, true, 1}, logits.data(), 5, routing).value() == 3U);
  BOOST_TEST(!route({3, 1, true, 1}, logits.data(), 3, routing).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(expert_batches)

BOOST_AUTO_TEST_CASE(experts_in_order_of_first_use) {
  Routing routing;
  routing.resize(3, 2);
  for (std::size_t i = 0; const std::uint32_t id : {5U, 2U, 2U, 7U, 0U, 5U}) routing.ids[i++] = ExpertId{id};
  ExpertBatches batches;
  batches.group(routing, 8);
  BOOST_TEST((std::vector<ExpertId>(batches.experts().begin(), batches.experts().end()) ==
              std::vector<ExpertId>{ExpertId{5}, ExpertId{2}, ExpertId{7}, ExpertId{0}}));
  const auto uses = [&](std::uint32_t e) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> list;
    for (const auto& use : batches.uses_of(ExpertId{e})) list.emplace_back(use.token, use.row);
    return list;
  };
  using Uses = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
  BOOST_TEST((uses(5) == Uses{{0, 0}, {2, 5}}));
  BOOST_TEST((uses(2) == Uses{{0, 1}, {1, 2}}));
  BOOST_TEST((uses(7) == Uses{{1, 3}}));
  BOOST_TEST((uses(0) == Uses{{2, 4}}));
  for (const std::uint32_t unused : {1U, 3U, 4U, 6U}) BOOST_TEST(batches.uses_of(ExpertId{unused}).empty());
}

BOOST_AUTO_TEST_CASE(every_use_once) {
  std::mt19937 random(5);
  ExpertBatches batches;  // one object, regrouped: nothing of the last pass may remain
  for (int round = 0; round < 300; ++round) {
    const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
    const std::uint32_t n_experts = 1 + below(60), k = 1 + below(n_experts), n_tokens = below(40);
    Routing routing;
    routing.resize(n_tokens, k);
    for (std::uint32_t t = 0; t < n_tokens; ++t) {
      std::vector<std::uint32_t> all(n_experts);
      std::iota(all.begin(), all.end(), 0U);
      std::shuffle(all.begin(), all.end(), random);
      for (std::uint32_t r = 0; r < k; ++r) routing.ids[std::size_t{t} * k + r] = ExpertId{all[r]};
    }
    batches.group(routing, n_experts);
    std::vector<ExpertId> in_order;
    for (const ExpertId id : routing.ids)
      if (std::find(in_order.begin(), in_order.end(), id) == in_order.end()) in_order.push_back(id);
    BOOST_TEST_REQUIRE((std::vector<ExpertId>(batches.experts().begin(), batches.experts().end()) == in_order));
    std::set<std::uint32_t> rows;
    for (std::uint32_t e = 0; e < n_experts; ++e) {
      std::uint32_t last = 0;
      for (const auto& use : batches.uses_of(ExpertId{e})) {
        BOOST_TEST_REQUIRE(use.row < routing.ids.size());
        BOOST_TEST_REQUIRE(rows.insert(use.row).second);
        BOOST_TEST_REQUIRE(routing.ids[use.row].value == e);
        BOOST_TEST_REQUIRE(use.token == use.row / k);
        BOOST_TEST_REQUIRE(use.row >= last);
        last = use.row;
      }
    }
    BOOST_TEST_REQUIRE(rows.size() == routing.ids.size());
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli
