// SPDX-License-Identifier: Apache-2.0
// colidrv eval: does this model decide what the golden file says it must?
#include <algorithm>
#include <cstdio>
#include <limits>

#include "coli/sample/greedy.hpp"
#include "driver/commands.hpp"
#include "driver/json_output.hpp"
#include "driver/model_options.hpp"
#include "driver/text_input.hpp"

namespace colidrv {
namespace {

struct EvalOptions {
  ModelOptions model;
  std::string golden;
  std::string json;
};

/// One prompt, and the decisions that must follow it.
struct Case {
  std::string id;
  std::vector<coli::TokenId> prompt, expected;
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

std::vector<float> numbers(const Json& entry, const char* key) {
  std::vector<float> values;
  if (entry.contains(key) && entry[key].is_array())
    for (const Json& value : entry[key]) values.push_back(value.is_number() ? value.get<float>() : std::numeric_limits<float>::infinity());
  return values;
}
float number(const Json& entry, const char* key) { return entry.contains(key) && entry[key].is_number() ? entry[key].get<float>() : 0; }

/// Errors: bad_input, naming the field.
coli::Result<std::vector<Case>> read_cases(const std::string& path) {
  COLI_TRY(text, read_text_file(path));
  const auto bad = [&](std::string field, std::string why) { return coli::Error{coli::Errc::bad_input, std::move(why), std::move(field), path}; };
  const Json root = Json::parse(text, nullptr, false);
  if (root.is_discarded()) return bad("", "is not JSON");
  if (!root.is_object() || !root.contains("schema") || root["schema"] != 1) return bad("schema", "is not 1; this is no golden file that coli knows");
  if (!root.contains("cases") || !root["cases"].is_array()) return bad("cases", "the list of cases is missing");
  std::vector<Case> cases;
  for (const Json& entry : root["cases"]) {
    Case c;
    const std::string at = "cases[" + std::to_string(cases.size()) + "]";
    if (!entry.is_object() || !entry.contains("id") || !entry["id"].is_string()) return bad(at + ".id", "is not a string");
    c.id = entry["id"];
    for (const auto& [key, ids] : {std::pair{"prompt_ids", &c.prompt}, std::pair{"ids", &c.expected}}) {
      if (!entry.contains(key) || !entry[key].is_array() || entry[key].empty()) return bad(at + "." + key, "is not a list of token ids");
      for (const Json& id : entry[key]) {
        if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() > INT32_MAX) return bad(at + "." + key, "holds something that is not a token id");
        ids->push_back(coli::TokenId{id.get<std::int32_t>()});
      }
    }
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

/// Decisions along the expected tokens: each is made after the oracle's own, so that one difference hides no other.
struct Outcome {
  std::size_t same = 0, near_ties = 0, differ = 0;
  std::size_t step = 0;  // of the first difference that nothing excuses
  std::int32_t expected = -1, got = -1;
  float least_margin = std::numeric_limits<float>::infinity();
};

coli::Result<Outcome> run_case(Session& session, const Case& c, bool excuses_near_ties) {
  Outcome outcome;
  if (c.prompt.size() + c.expected.size() - 1 > session.context())
    return coli::Error{coli::Errc::usage, "prompt '" + c.id + "' and its " + std::to_string(c.expected.size()) + " tokens do not fit the context of " + std::to_string(session.context())};
  COLI_CHECK(session.truncate(0));
  auto logits = session.prefill(c.prompt);
  for (std::size_t step = 0; step < c.expected.size(); ++step) {
    if (step != 0) logits = session.step(c.expected[step - 1]);
    if (!logits) return std::move(logits).error();
    COLI_TRY(top, coli::top_two(*logits));
    outcome.least_margin = std::min(outcome.least_margin, top.margin());
    if (top.best == c.expected[step]) {
      ++outcome.same;
    } else if (excuses_near_ties && c.is_near_tie(step)) {
      ++outcome.near_ties;
    } else if (outcome.differ++ == 0) {
      outcome.step = step, outcome.expected = c.expected[step].value, outcome.got = top.best.value;
    }
  }
  return outcome;
}

coli::Result<void> eval(const EvalOptions& options) {
  COLI_CHECK(check_json_path(options.json));
  COLI_TRY(cases, read_cases(options.golden));
  if (cases.empty()) return coli::Error{coli::Errc::nothing_compared, "holds no cases: nothing was compared", "", options.golden};
  COLI_TRY(model, open_model(options.model));
  // The canonical lane computes in f32: nothing excuses it.
  const bool excuses_near_ties = model.profile->name != "scalar";
  Json results = Json::array();
  std::string first_failure;
  Outcome total;
  for (const Case& c : cases) {
    COLI_TRY(outcome, run_case(*model.session, c, excuses_near_ties));
    total.same += outcome.same, total.near_ties += outcome.near_ties, total.differ += outcome.differ;
    const std::string verdict = outcome.differ != 0 ? "DIFFERS" : outcome.near_ties != 0 ? "near-tie" : "same";
    Json result{{"id", c.id}, {"verdict", verdict}, {"same", outcome.same}, {"near_ties", outcome.near_ties}, {"differ", outcome.differ}, {"least_margin", json_number(outcome.least_margin)}};
    std::string detail = std::to_string(outcome.same) + " of " + std::to_string(c.expected.size()) + " decisions";
    if (outcome.differ != 0) {
      detail = "step " + std::to_string(outcome.step) + ": expected " + std::to_string(outcome.expected) + ", got " + std::to_string(outcome.got);
      result["step"] = outcome.step, result["expected"] = outcome.expected, result["got"] = outcome.got;
      if (first_failure.empty()) first_failure = "prompt '" + c.id + "', " + detail;
    }
    results.push_back(std::move(result));
    if (options.json != "-") std::printf("%-9s %-24s %s\n", verdict.c_str(), c.id.c_str(), detail.c_str());
  }
  const std::size_t n_decisions = total.same + total.near_ties + total.differ;
  if (options.json != "-") std::printf("%zu of %zu decisions same, %zu near-ties, %zu differ\n", total.same, n_decisions, total.near_ties, total.differ);
  if (!options.json.empty())
    COLI_CHECK(write_json(Json{{"profile", model.profile->name}, {"decisions", n_decisions}, {"same", total.same}, {"near_ties", total.near_ties}, {"differ", total.differ}, {"cases", std::move(results)}}, options.json));
  if (!first_failure.empty()) return coli::Error{coli::Errc::mismatch, first_failure, "", model.name};
  if (total.same == 0) return coli::Error{coli::Errc::nothing_compared, "every decision is a near-tie: nothing was compared", "", options.golden};
  return {};
}

}  // namespace

void add_eval(CLI::App& app, Action& action) {
  auto options = std::make_shared<EvalOptions>();
  CLI::App& command = *app.add_subcommand("eval", "compare a model's greedy decisions with goldens");
  options->model.add_to(command, true);
  command.add_option("--golden", options->golden, "golden file: prompts and the ids that must follow")->required();
  add_json_option(command, options->json);
  command.callback([&action, options] { action = [options] { return eval(*options); }; });
}

}  // namespace colidrv
