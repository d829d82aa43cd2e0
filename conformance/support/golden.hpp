// SPDX-License-Identifier: Apache-2.0
// What the oracle decided: fixtures/goldens/*.json as values. Tests fail where a file or field is missing.
#pragma once

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"

namespace coli::conformance {

/// Fails the test with the error's line.
template <class T>
void require_ok(const Result<T>& result) {
  BOOST_REQUIRE_MESSAGE(result.has_value(), (result ? std::string() : result.error().line()));
}

inline std::string fixture(const std::string& name) { return std::string(COLI_FIXTURES_DIR) + "/" + name; }

inline std::vector<TokenId> token_ids(const nlohmann::json& list) {
  std::vector<TokenId> ids;
  for (const auto& id : list) ids.push_back(TokenId{id.get<std::int32_t>()});
  return ids;
}

inline nlohmann::json read_json(const std::string& path) {
  std::ifstream file(path);
  BOOST_REQUIRE_MESSAGE(file.good(), "cannot open " << path);
  return nlohmann::json::parse(file);
}

struct GoldenCase {
  std::string id;
  std::vector<TokenId> prompt, ids;
  bool near_tie = false;
  std::vector<float> margins, route_margins;
  float prompt_route_margin = 0, logit_error = 0, router_error = 0;

  /// May a lane with 8-bit activations decide otherwise? By the oracle's own margins, and what 8 bits did to its logits:
  /// a token margin at this step, or a route margin up to here, within twice that.
  bool is_near_tie(std::size_t step) const {
    if (near_tie || margins.at(step) < 2 * logit_error || prompt_route_margin < 2 * router_error) return true;
    for (std::size_t s = 0; s <= step; ++s)
      if (route_margins.at(s) < 2 * router_error) return true;
    return false;
  }

  std::vector<std::vector<std::pair<std::int32_t, float>>> top_logits;        // by step
  std::vector<std::pair<std::uint32_t, std::vector<std::vector<std::uint32_t>>>> routes;  // (position, ids by MoE layer, rank order)
};

inline std::vector<GoldenCase> read_goldens(const std::string& stem) {
  std::vector<GoldenCase> cases;
  const nlohmann::json golden = read_json(fixture("goldens/" + stem + ".json"));
  for (const auto& entry : golden.at("cases")) {
    GoldenCase c;
    c.id = entry.at("id");
    c.prompt = token_ids(entry.at("prompt_ids"));
    c.ids = token_ids(entry.at("ids"));
    c.near_tie = entry.at("near_tie");
    const auto number = [](const nlohmann::json& value) { return value.is_number() ? value.get<float>() : std::numeric_limits<float>::infinity(); };
    for (const auto& margin : entry.at("margins")) c.margins.push_back(number(margin));
    for (const auto& margin : entry.at("route_margins")) c.route_margins.push_back(number(margin));
    c.prompt_route_margin = number(entry.at("prompt_route_margin"));
    c.logit_error = entry.at("int8_logit_error");
    c.router_error = entry.at("int8_router_error");
    for (const auto& step : entry.at("top_logits")) {
      auto& top = c.top_logits.emplace_back();
      for (const auto& pair : step) top.emplace_back(pair[0].get<std::int32_t>(), pair[1].get<float>());
    }
    for (const auto& route : entry.at("routes")) {
      auto& layers = c.routes.emplace_back(route.at("pos"), std::vector<std::vector<std::uint32_t>>{}).second;
      for (const auto& ids : route.at("layers"))
        if (!ids.is_null()) layers.push_back(ids);  // null: a dense layer
    }
    cases.push_back(std::move(c));
  }
  BOOST_REQUIRE_MESSAGE(!cases.empty(), stem << " has no goldens");
  return cases;
}

/// Models with goldens: (stem of the golden file, file to open). A split set is opened by a shard that is not the first.
inline const std::vector<std::pair<std::string, std::string>>& golden_models() {
  static const std::vector<std::pair<std::string, std::string>> models{
      {"tiny_f32", "tiny_f32.gguf"},       {"tiny_f16", "tiny_f16.gguf"},       {"tiny_bf16", "tiny_bf16.gguf"},
      {"tiny_q8_0", "tiny_q8_0.gguf"},     {"tiny_q4_k_m", "tiny_q4_k_m.gguf"}, {"tiny_mixed", "tiny_mixed.gguf"},
      {"tiny_dense1", "tiny_dense1.gguf"}, {"tiny_top1", "tiny_top1.gguf"},     {"tiny_topall", "tiny_topall.gguf"},
      {"tiny_split", "tiny_split-00002-of-00003.gguf"}};
  return models;
}

}  // namespace coli::conformance
