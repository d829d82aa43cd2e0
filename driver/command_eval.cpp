// SPDX-License-Identifier: Apache-2.0
// colidrv eval: does this model decide what the golden file says it must?
#include <cstdio>

#include "coli/generation.hpp"
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

struct Case {
  std::string id;
  std::vector<coli::TokenId> prompt, expected;
  bool near_tie;
};

/// Errors: bad_input, naming the field.
coli::Result<std::vector<Case>> read_cases(const std::string& path) {
  COLI_TRY(text, read_text_file(path));
  const auto bad = [&](std::string field, std::string why) { return coli::Error{coli::Errc::bad_input, std::move(why), std::move(field), path}; };
  const Json root = Json::parse(text, nullptr, false);
  if (root.is_discarded()) return bad("", "is not JSON");
  if (!root.is_object() || root.value("schema", 0) != 1) return bad("schema", "is not 1; this is no golden file that coli knows");
  if (!root.contains("cases") || !root["cases"].is_array()) return bad("cases", "the list of cases is missing");
  std::vector<Case> cases;
  for (const Json& entry : root["cases"]) {
    Case c{"", {}, {}, false};
    const std::string at = "cases[" + std::to_string(cases.size()) + "]";
    if (!entry.is_object() || !entry.contains("id") || !entry["id"].is_string()) return bad(at + ".id", "is not a string");
    c.id = entry["id"];
    for (const auto& [key, ids] : {std::pair{"prompt_ids", &c.prompt}, std::pair{"ids", &c.expected}}) {
      if (!entry.contains(key) || !entry[key].is_array()) return bad(at + "." + key, "is not a list of token ids");
      for (const Json& id : entry[key]) {
        if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() > INT32_MAX) return bad(at + "." + key, "holds something that is not a token id");
        ids->push_back(coli::TokenId{id.get<std::int32_t>()});
      }
    }
    // A case that expects nothing would pass whatever the model does.
    if (c.expected.empty()) return coli::Error{coli::Errc::nothing_compared, "expects no ids: nothing to compare", at + ".ids", path};
    if (c.prompt.empty()) return bad(at + ".prompt_ids", "is empty; a prompt has at least one token");
    c.near_tie = entry.contains("near_tie") && entry["near_tie"].is_boolean() && entry["near_tie"].get<bool>();
    cases.push_back(std::move(c));
  }
  return cases;
}

struct Outcome {
  std::size_t step = 0;  // of the first difference
  std::int32_t expected = -1, got = -1;
  float margin = 0;      // of our own decision there
  float least_margin = 0;
  bool same = true;
};

coli::Result<Outcome> run_case(Session& session, const Case& c) {
  coli::GenerationOptions options;
  options.sampling.temperature = 0;
  options.max_tokens = static_cast<std::uint32_t>(c.expected.size());
  options.stop_at_end_tokens = false;
  Outcome outcome;
  std::string tail;
  std::size_t step = 0;
  const auto stop = coli::generate(session, nullptr, c.prompt, options, tail, [&](const coli::GeneratedToken& token) {
             outcome.least_margin = step == 0 ? token.margin : std::min(outcome.least_margin, token.margin);
             if (token.id != c.expected[step]) {
               outcome = {step, c.expected[step].value, token.id.value, token.margin, outcome.least_margin, false};
               return false;
             }
             ++step;
             return true;
           });
  if (!stop) {
    coli::Error error = stop.error();
    error.subject = "prompt '" + c.id + "'" + (error.subject.empty() ? "" : ", " + error.subject);
    return error;
  }
  return outcome;
}

coli::Result<void> eval(const EvalOptions& options) {
  COLI_CHECK(check_json_path(options.json));
  COLI_TRY(cases, read_cases(options.golden));
  if (cases.empty()) return coli::Error{coli::Errc::nothing_compared, "holds no cases: nothing was compared", "", options.golden};
  COLI_TRY(model, open_model(options.model));
  Json results = Json::array();
  std::string first_failure;
  std::size_t n_same = 0, n_near_ties = 0;
  for (const Case& c : cases) {
    COLI_TRY(outcome, run_case(*model.session, c));
    // Only a near-tie that the oracle marked beforehand excuses a difference, and never in the canonical lane.
    const bool excused = !outcome.same && c.near_tie && model.profile->name != "scalar";
    n_same += outcome.same;
    n_near_ties += excused;
    const std::string verdict = outcome.same ? "same" : excused ? "near-tie" : "DIFFERS";
    Json result{{"id", c.id}, {"verdict", verdict}, {"tokens", c.expected.size()}, {"least_margin", json_number(outcome.least_margin)}};
    std::string detail;
    if (!outcome.same) {
      detail = "step " + std::to_string(outcome.step) + ": expected " + std::to_string(outcome.expected) + ", got " + std::to_string(outcome.got);
      result["step"] = outcome.step, result["expected"] = outcome.expected, result["got"] = outcome.got;
      if (!excused && first_failure.empty()) first_failure = "prompt '" + c.id + "', " + detail;
    }
    results.push_back(std::move(result));
    if (options.json != "-") std::printf("%-9s %-24s %s\n", verdict.c_str(), c.id.c_str(), detail.c_str());
  }
  if (options.json != "-") std::printf("%zu of %zu cases same, %zu near-ties excused\n", n_same, cases.size(), n_near_ties);
  if (!options.json.empty()) COLI_CHECK(write_json(Json{{"profile", model.profile->name}, {"cases", std::move(results)}}, options.json));
  if (!first_failure.empty()) return coli::Error{coli::Errc::mismatch, first_failure, "", model.name};
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
