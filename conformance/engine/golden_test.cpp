// SPDX-License-Identifier: Apache-2.0
// Does every tiny model decide what the independent oracle decided: tokens, logits, routes, hidden states?
#include <cmath>

#include "support.hpp"

namespace coli::conformance {
namespace {

using scalar = profiles::scalar;

// The oracle keeps norms, softmax and rope in f32, we sum in f64: the difference seen is below 2e-5 of a logit's scale.
constexpr float kLogitTolerance = 1e-4F;

bool close(float got, float expected) { return std::fabs(got - expected) <= kLogitTolerance * std::max(1.0F, std::fabs(expected)); }

BOOST_AUTO_TEST_CASE(greedy_tokens_and_top_logits_are_the_oracles) {
  for (const auto& [stem, file] : golden_models()) {
    auto engine = open_fixture<scalar>(file);
    for (const GoldenCase& c : read_goldens(stem)) {
      BOOST_TEST_CONTEXT(stem << " " << c.id) {
        const Decisions got = decide(engine, c.prompt, c.ids.size(), true);
        COLI_CHECK_SAME_IDS(got.ids, c.ids);
        BOOST_REQUIRE_EQUAL(got.logits.size(), c.top_logits.size());
        for (std::size_t step = 0; step < got.logits.size(); ++step)
          for (const auto& [id, logit] : c.top_logits[step])
            BOOST_CHECK_MESSAGE(close(got.logits[step][static_cast<std::size_t>(id)], logit), "step " << step << " token " << id << ": " << got.logits[step][static_cast<std::size_t>(id)] << " is not " << logit);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(routes_are_the_oracles) {
  std::size_t compared = 0;
  for (const auto& [stem, file] : golden_models()) {
    auto engine = open_fixture<scalar>(file);
    std::vector<std::vector<std::vector<std::uint32_t>>> seen;  // [position][MoE layer] ids
    engine.observer().on_routing = [&](LayerId, std::uint32_t first, const Routing& routing, const LeaseNotes&) {
      if (seen.size() < first + routing.n_tokens) seen.resize(first + routing.n_tokens);
      for (std::uint32_t t = 0; t < routing.n_tokens; ++t) {
        auto& ids = seen[first + t].emplace_back();
        for (const ExpertId id : routing.ids_of(t)) ids.push_back(id.value);
      }
    };
    for (const GoldenCase& c : read_goldens(stem)) {
      seen.clear();
      BOOST_REQUIRE(engine.truncate(0));
      decide(engine, c.prompt, c.ids.size());
      for (const auto& [position, layers] : c.routes) {
        BOOST_REQUIRE_LT(position, seen.size());
        BOOST_CHECK_MESSAGE(seen[position] == layers, stem << " " << c.id << ": other experts at position " << position);
        ++compared;
      }
    }
  }
  BOOST_CHECK_GT(compared, 100);
}

BOOST_AUTO_TEST_CASE(hidden_states_are_the_oracles_after_every_layer) {
  for (const std::string stem : {"tiny_f32", "tiny_q4_k_m", "tiny_dense1"}) {
    const auto golden = read_json(fixture("goldens/" + stem + ".hidden.json"));
    auto engine = open_fixture<scalar>(stem + ".gguf");
    const std::size_t hidden = engine.hyperparams().hidden;
    engine.observer().on_hidden = [&](LayerId layer, std::uint32_t first, std::span<const float> states) {
      for (std::size_t p = 0; p < golden["positions"].size(); ++p) {
        const std::size_t at = golden["positions"][p].get<std::size_t>() - first;
        const auto& expected = golden["layers"][layer.value][p];
        BOOST_REQUIRE_EQUAL(expected.size(), hidden);
        float worst = 0;
        for (std::size_t i = 0; i < hidden; ++i) worst = std::max(worst, std::fabs(states[at * hidden + i] - expected[i].get<float>()));
        BOOST_CHECK_MESSAGE(worst <= 2e-5F * 10, stem << " layer " << layer.value << " position " << golden["positions"][p] << " is off by " << worst);
      }
    };
    const auto prompt = token_ids(golden["prompt_ids"]);
    const auto logits = engine.prefill(prompt);
    require_ok(logits);
    BOOST_REQUIRE_EQUAL(golden["last_logits"].size(), logits->size());
    for (std::size_t i = 0; i < logits->size(); ++i)
      if (golden["last_logits"][i].is_number() && std::isfinite((*logits)[i])) BOOST_CHECK(close((*logits)[i], golden["last_logits"][i].get<float>()));
  }
}

BOOST_AUTO_TEST_CASE(padding_ids_are_never_candidates) {
  auto engine = open_fixture<scalar>("tiny_f32.gguf");
  const Tokenizer* tokenizer = *engine.tokenizer();
  const auto logits = engine.step(TokenId{1});
  BOOST_REQUIRE(logits);
  std::size_t n_padding = 0;
  for (std::size_t id = 0; id < logits->size(); ++id) {
    const bool padding = !tokenizer->vocabulary().is_sampleable(TokenId{static_cast<std::int32_t>(id)});
    n_padding += padding;
    BOOST_CHECK_EQUAL(padding, std::isinf((*logits)[id]));
  }
  BOOST_CHECK_GT(n_padding, 0);
}

}  // namespace
}  // namespace coli::conformance
