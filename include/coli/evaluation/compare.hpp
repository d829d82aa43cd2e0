// SPDX-License-Identifier: Apache-2.0
// Does a run agree with its lane? Every difference, first causes first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/evaluation/case_set.hpp"
#include "coli/evaluation/decisions.hpp"
#include "coli/evaluation/lane.hpp"

namespace coli::evaluation {

/// Why a check failed, in the order in which causes explain one another: other inputs make other tokens, other tokens
/// other routes, and so on.
enum class Cause : std::uint8_t { inputs, missing, refused, unstable, token_ids, route_ids, token_margin, route_margin, logits };

constexpr std::string_view name_of(Cause cause) {
  switch (cause) {
    case Cause::inputs: return "inputs";
    case Cause::missing: return "missing case";
    case Cause::refused: return "refused";
    case Cause::unstable: return "not repeatable";
    case Cause::token_ids: return "token ids";
    case Cause::route_ids: return "route ids";
    case Cause::token_margin: return "token margin";
    case Cause::route_margin: return "route margin";
    case Cause::logits: return "logits";
  }
  __builtin_unreachable();
}

struct Failure {
  Cause cause;
  std::string case_id;  // empty: of the whole run
  std::string what;
  std::string line() const { return (case_id.empty() ? "" : "case '" + case_id + "': ") + std::string(name_of(cause)) + ": " + what; }
};

/// What a run gave: decisions by case, or why there are none.
struct Run {
  LaneKey key;
  std::vector<std::pair<std::string, Result<CaseDecisions>>> cases;
};

struct Comparison {
  bool same_key = false;      // routes and bits are compared only then
  std::size_t n_compared = 0;  // cases
  std::vector<Failure> failures;  // first causes first; of one cause in the order of the cases
};

namespace detail {

inline std::string shortened(const std::string& hash) { return hash.substr(0, 12); }

inline void compare_case(const CaseDecisions& got, const CaseDecisions& expected, bool same_key, const auto& fail) {
  if (got.prompt_sha256 != expected.prompt_sha256)
    fail(Cause::inputs, "the prompt's ids hash to " + shortened(got.prompt_sha256) + ", the lane's to " + shortened(expected.prompt_sha256));
  if (got.token_count != expected.token_count)
    fail(Cause::inputs, "the prompt has " + std::to_string(got.token_count) + " tokens, the lane's " + std::to_string(expected.token_count));
  if (got.ids.size() != expected.ids.size()) {
    fail(Cause::token_ids, std::to_string(got.ids.size()) + " tokens were decided, the lane has " + std::to_string(expected.ids.size()));
  } else if (const auto at = std::mismatch(got.ids.begin(), got.ids.end(), expected.ids.begin()); at.first != got.ids.end()) {
    fail(Cause::token_ids, "step " + std::to_string(at.first - got.ids.begin()) + ": expected " + std::to_string(at.second->value) + ", got " + std::to_string(at.first->value));
  }
  if (!same_key) return;
  if (got.route_ids_sha256 != expected.route_ids_sha256)
    fail(Cause::route_ids, "hash to " + shortened(got.route_ids_sha256) + ", the lane's to " + shortened(expected.route_ids_sha256));
  if (got.logits_sha256 != expected.logits_sha256)
    fail(Cause::logits, "bits hash to " + shortened(got.logits_sha256) + ", the lane's to " + shortened(expected.logits_sha256));
}

}  // namespace detail

/// Margins that came closer than the floors. Compared also where the lane's key is another.
inline void check_floors(const CaseDecisions& got, const Floors& floors, const auto& fail) {
  if (floors.token && got.token_margin < *floors.token)
    fail(Cause::token_margin, std::to_string(got.token_margin) + " at step " + std::to_string(got.token_margin_step) + " is below the floor of " + std::to_string(*floors.token));
  if (floors.route && got.route_margin < *floors.route)
    fail(Cause::route_margin, std::to_string(got.route_margin) + " at position " + std::to_string(got.route_margin_position) + ", layer " +
                                  std::to_string(got.route_margin_layer) + " is below the floor of " + std::to_string(*floors.route));
}

/// Compared exactly: prompt hash, token count, token ids; where the whole key is the lane's, routes and bits too; by
/// floor: margins. A case that only one of both has is a failure.
inline Comparison compare(const Run& run, const Lane& lane, const Floors& floors) {
  Comparison result;
  result.same_key = run.key == lane.key;
  const auto fail = [&](Cause cause, std::string id, std::string what) { result.failures.push_back({cause, std::move(id), std::move(what)}); };
  if (run.key.model_sha256 != lane.key.model_sha256)
    fail(Cause::inputs, "", "the model is " + detail::shortened(run.key.model_sha256) + ", the lane's is " + detail::shortened(lane.key.model_sha256));
  if (run.key.cases_sha256 != lane.key.cases_sha256)
    fail(Cause::inputs, "", "the cases hash to " + detail::shortened(run.key.cases_sha256) + ", the lane's to " + detail::shortened(lane.key.cases_sha256));
  for (const auto& [id, got] : run.cases) {
    const CaseDecisions* expected = lane.find(id);
    if (!got) {
      fail(Cause::refused, id, got.error().line());
    } else if (expected == nullptr) {
      fail(Cause::missing, id, "the lane does not have it: nothing says what it must decide");
    } else {
      ++result.n_compared;
      const auto in_case = [&, &name = id](Cause cause, std::string what) { fail(cause, name, std::move(what)); };
      detail::compare_case(*got, *expected, result.same_key, in_case);
      check_floors(*got, floors, in_case);
    }
  }
  for (const CaseDecisions& expected : lane.cases)
    if (std::none_of(run.cases.begin(), run.cases.end(), [&](const auto& c) { return c.first == expected.id; }))
      fail(Cause::missing, expected.id, "the lane has it, the file of cases does not");
  std::stable_sort(result.failures.begin(), result.failures.end(), [](const Failure& a, const Failure& b) { return a.cause < b.cause; });
  return result;
}

}  // namespace coli::evaluation
