// SPDX-License-Identifier: Apache-2.0
// Does a model decide what an independent oracle decided? Goldens, read and compared, with the oracle's own margins.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"
#include "coli/evaluation/case_set.hpp"
#include "coli/sample/greedy.hpp"

namespace coli::evaluation {

/// One prompt, and the decisions that must follow it.
struct GoldenCase {
  std::string id;
  std::vector<TokenId> prompt, expected;
  bool near_tie = false;
  // What the oracle measured: margins by step, and what activations of 8 bits do to logits. Empty, 0 where not said.
  std::vector<float> margins, route_margins;
  float prompt_route_margin = 0;
  float logit_error = 0, router_error = 0;

  /// Whether a lane with 8-bit activations may decide step `step` otherwise: marked beforehand, or a token or route
  /// margin of the oracle's (up to here: a route changes all that follows) lies within twice what 8 bits were seen to do.
  bool is_near_tie(std::size_t step) const {
    if (near_tie) return true;
    if (step < margins.size() && margins[step] < 2 * logit_error) return true;
    if (!route_margins.empty() && prompt_route_margin < 2 * router_error) return true;
    for (std::size_t s = 0; s <= step && s < route_margins.size(); ++s)
      if (route_margins[s] < 2 * router_error) return true;
    return false;
  }
};

/// Errors: bad_input, naming the field.
inline Result<std::vector<GoldenCase>> parse_goldens(std::string_view text, const std::string& path) {
  COLI_TRY(root, parse_root(text, path, "golden file"));
  const auto bad = [&](std::string field, std::string why) { return Error{Errc::bad_input, std::move(why), std::move(field), path}; };
  const auto numbers = [](const Json& entry, const char* key) {
    std::vector<float> values;
    if (entry.contains(key) && entry[key].is_array())
      for (const Json& value : entry[key]) values.push_back(value.is_number() ? value.get<float>() : std::numeric_limits<float>::infinity());
    return values;
  };
  // JSON has no word for infinity: null is a margin where there was nothing to choose from.
  const auto number = [](const Json& entry, const char* key) {
    if (entry.contains(key) && entry[key].is_null()) return std::numeric_limits<float>::infinity();
    return entry.contains(key) && entry[key].is_number() ? entry[key].get<float>() : 0.0F;
  };
  std::vector<GoldenCase> cases;
  for (const Json& entry : root["cases"]) {
    GoldenCase c;
    const std::string at = "cases[" + std::to_string(cases.size()) + "]";
    if (!entry.is_object() || !entry.contains("id") || !entry["id"].is_string()) return bad(at + ".id", "is not a string");
    c.id = entry["id"];
    for (const auto& [key, ids] : {std::pair{"prompt_ids", &c.prompt}, std::pair{"ids", &c.expected}})
      if (!read_ids(entry, key, *ids) || ids->empty()) return bad(at + "." + key, "is not a list of token ids");
    c.near_tie = entry.contains("near_tie") && entry["near_tie"] == true;
    c.margins = numbers(entry, "margins");
    c.route_margins = numbers(entry, "route_margins");
    c.prompt_route_margin = number(entry, "prompt_route_margin");
    c.logit_error = number(entry, "int8_logit_error");
    c.router_error = number(entry, "int8_router_error");
    cases.push_back(std::move(c));
  }
  return cases;
}

/// Is another decision excused at this step? Only where the oracle says it was close, and where it is close here as well:
/// `behind` is how far the expected token's logit lies below the chosen one's. A fault that moves logits further than 8
/// bits were seen to is no near tie, however close the oracle found it.
inline bool excused(const GoldenCase& c, std::size_t step, float behind) {
  return c.is_near_tie(step) && (c.logit_error == 0 || behind <= 2 * c.logit_error);
}

/// Decisions along the expected tokens: each is made after the oracle's own, so that one difference hides no other.
struct GoldenOutcome {
  std::size_t same = 0, near_ties = 0, differ = 0;
  std::size_t step = 0;  // of the first difference that nothing excuses
  std::int32_t expected = -1, got = -1;
  float least_margin = std::numeric_limits<float>::infinity();
};

/// -infinity for an id outside the vocabulary.
inline float expected_logit(std::span<const float> logits, TokenId id) {
  const auto at = static_cast<std::size_t>(id.value);
  return at < logits.size() ? logits[at] : -std::numeric_limits<float>::infinity();
}

/// Errors: usage, where the case does not fit the context; the engine's.
template <class Sequence>
Result<GoldenOutcome> follow(Sequence& sequence, const GoldenCase& c, bool excuses_near_ties) {
  GoldenOutcome outcome;
  if (c.prompt.size() + c.expected.size() - 1 > sequence.context())
    return Error{Errc::usage, "prompt '" + c.id + "' and its " + std::to_string(c.expected.size()) + " tokens do not fit the context of " + std::to_string(sequence.context())};
  COLI_CHECK(sequence.truncate(0));
  auto logits = sequence.prefill(c.prompt);
  for (std::size_t step = 0; step < c.expected.size(); ++step) {
    if (step != 0) logits = sequence.step(c.expected[step - 1]);
    if (!logits) return std::move(logits).error();
    COLI_TRY(top, top_two(*logits));
    outcome.least_margin = std::min(outcome.least_margin, top.margin());
    if (top.best == c.expected[step]) {
      ++outcome.same;
    } else if (const float behind = top.first - expected_logit(*logits, c.expected[step]); excuses_near_ties && excused(c, step, behind)) {
      ++outcome.near_ties;
    } else if (outcome.differ++ == 0) {
      outcome.step = step, outcome.expected = c.expected[step].value, outcome.got = top.best.value;
    }
  }
  return outcome;
}

}  // namespace coli::evaluation
