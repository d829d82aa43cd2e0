// SPDX-License-Identifier: Apache-2.0
// colidrv eval: does this model decide what goldens or a lane say it must, and how surprised is it by a text?
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>

#include "coli/evaluation/case_set.hpp"
#include "coli/evaluation/compare.hpp"
#include "coli/evaluation/decisions.hpp"
#include "coli/evaluation/golden.hpp"
#include "coli/evaluation/lane.hpp"
#include "coli/evaluation/perplexity.hpp"
#include "coli/gguf/model_hash.hpp"
#include "coli/model/kv_cache.hpp"
#include "driver/build_info.hpp"
#include "driver/commands.hpp"
#include "driver/json_output.hpp"
#include "driver/model_options.hpp"
#include "driver/text_input.hpp"

namespace colidrv {
namespace {

namespace ev = coli::evaluation;

struct EvalOptions {
  ModelOptions model;
  std::string golden, cases, perplexity;  // one of them
  std::string lanes, snapshot, snapshot_out;
  bool report = false;
  unsigned determinism_runs = 1;
  std::optional<double> token_floor, route_floor;
  std::optional<std::uint32_t> window, stride;
  std::string json;

  bool prints() const { return json != "-"; }
};

coli::Result<void> eval_golden(const EvalOptions& options) {
  COLI_TRY(text, read_text_file(options.golden));
  COLI_TRY(cases, ev::parse_goldens(text, options.golden));
  if (cases.empty()) return coli::Error{coli::Errc::nothing_compared, "holds no cases: nothing was compared", "", options.golden};
  COLI_TRY(model, open_model(options.model));
  // The canonical lane computes in f32: nothing excuses it.
  const bool excuses_near_ties = model.profile->name != "scalar";
  Json results = Json::array();
  std::string first_failure;
  ev::GoldenOutcome total;
  for (const ev::GoldenCase& c : cases) {
    COLI_TRY(outcome, ev::follow(*model.session, c, excuses_near_ties));
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
    if (options.prints()) std::printf("%-9s %-24s %s\n", verdict.c_str(), c.id.c_str(), detail.c_str());
  }
  const std::size_t n_decisions = total.same + total.near_ties + total.differ;
  if (options.prints()) std::printf("%zu of %zu decisions same, %zu near-ties, %zu differ\n", total.same, n_decisions, total.near_ties, total.differ);
  if (!options.json.empty())
    COLI_CHECK(write_json(Json{{"profile", model.profile->name}, {"decisions", n_decisions}, {"same", total.same}, {"near_ties", total.near_ties}, {"differ", total.differ}, {"cases", std::move(results)}}, options.json));
  if (!first_failure.empty()) return coli::Error{coli::Errc::mismatch, first_failure, "", model.name};
  if (total.same == 0) return coli::Error{coli::Errc::nothing_compared, "every decision is a near-tie: nothing was compared", "", options.golden};
  return {};
}

/// Errors: usage, naming the case.
coli::Result<void> fits(const std::string& id, std::size_t prompt_tokens, std::uint32_t n_tokens, std::uint32_t context) {
  if (prompt_tokens <= context && n_tokens - 1 <= context - prompt_tokens) return {};
  return coli::Error{coli::Errc::usage, "prompt '" + id + "' and its " + std::to_string(n_tokens) + " tokens do not fit the context of " + std::to_string(context)};
}

/// The ids of a case. Errors: the tokenizer's; mismatch, where text and ids of the case are not the same to it.
coli::Result<std::vector<coli::TokenId>> prompt_of(const ev::EvalCase& c, Session& session) {
  if (!c.text) return c.prompt;
  const auto tokenizer = session.tokenizer();
  if (!tokenizer && !c.prompt.empty()) return c.prompt;
  if (!tokenizer) return tokenizer.error();
  COLI_TRY(ids, (*tokenizer)->encode(*c.text));
  if (!c.prompt.empty() && ids != c.prompt)
    return coli::Error{coli::Errc::mismatch, "the text gives " + std::to_string(ids.size()) + " ids by this model's tokenizer, not the " + std::to_string(c.prompt.size()) + " of the case"};
  return ids;
}

/// The lane to compare with: the path given, else the profile's own file, else none. Never another's by accident.
coli::Result<std::optional<ev::Lane>> find_lane(const EvalOptions& options, const ev::LaneKey& key, std::string& path) {
  const bool given = !options.snapshot.empty();
  path = given ? options.snapshot : ev::lane_path(options.lanes.empty() ? ev::lanes_folder_of(options.cases) : options.lanes, key.profile, key.isa);
  std::error_code unknown;
  if (!given && !std::filesystem::exists(path, unknown)) return std::optional<ev::Lane>();
  COLI_TRY(text, read_text_file(path));
  COLI_TRY(lane, ev::parse_lane(text, path));
  if (!given && (lane.key.profile != key.profile || lane.key.isa != key.isa))
    return coli::Error{coli::Errc::bad_input, "is a lane of " + lane.key.profile + " on " + lane.key.isa + ", under the name of another", "key", path};
  return std::optional<ev::Lane>(std::move(lane));
}

/// Says which tags and how many experts the cases reach.
Json coverage(const ev::CaseSet& set, const ev::ExpertUse& use, bool prints) {
  std::map<std::string, std::size_t> tags;
  for (const ev::EvalCase& c : set.cases)
    for (const std::string& tag : c.tags) ++tags[tag];
  const auto [total, unused] = use.total_and_unused();
  if (prints) {
    std::string text;
    for (const auto& [tag, n] : tags) text += (text.empty() ? "" : ", ") + tag + " " + std::to_string(n);
    std::printf("coverage: %zu cases; tags: %s; %zu of %zu experts chosen\n", set.cases.size(), text.empty() ? "none" : text.c_str(), total - unused, total);
  }
  Json layers = Json::array();
  for (const auto& uses : use.layers()) layers.push_back(uses);
  return {{"tags", tags}, {"experts", total}, {"experts_chosen", total - unused}, {"uses_by_layer", std::move(layers)}};
}

coli::Result<void> eval_cases(const EvalOptions& options) {
  COLI_TRY(text, read_text_file(options.cases));
  COLI_TRY(set, ev::parse_case_set(text, options.cases));
  if (set.cases.empty()) return coli::Error{coli::Errc::nothing_compared, "holds no cases: nothing was compared", "", options.cases};
  COLI_TRY(model, open_model(options.model));
  Session& session = *model.session;
  COLI_TRY(model_hash, coli::gguf::hash_of(session.file()));
  ev::Run run{{model_hash, set.sha256, std::string(model.profile->name), session.isa(), std::string(model.profile->about->activations),
               std::string(coli::name_of(session.kv_format()))}, {}};
  std::string lane_path;
  std::optional<ev::Lane> lane;
  if (!options.report) {
    COLI_TRY(found, find_lane(options, run.key, lane_path));
    lane = std::move(found);
  }

  std::vector<ev::Failure> failures;
  ev::ExpertUse use;
  std::vector<ev::CaseDecisions> decided;
  for (unsigned n = 0; n < options.determinism_runs; ++n) {
    for (std::size_t i = 0; i < set.cases.size(); ++i) {
      const ev::EvalCase& c = set.cases[i];
      if (n != 0 && !run.cases[i].second) continue;
      const auto decide = [&]() -> coli::Result<ev::CaseDecisions> {
        COLI_TRY(prompt, prompt_of(c, session));
        COLI_CHECK(fits(c.id, prompt.size(), c.n_tokens, session.context()));
        return ev::decide(session, c.id, prompt, c.n_tokens, session.hyperparams().n_experts, n == 0 ? &use : nullptr);
      };
      auto got = decide();
      if (n == 0) {
        if (got) decided.push_back(*got);
        run.cases.emplace_back(c.id, std::move(got));
      } else if (!got || ev::hash_of({&*got, 1}) != ev::hash_of({&*run.cases[i].second, 1})) {
        failures.push_back({ev::Cause::unstable, c.id, "run " + std::to_string(n + 1) + " of " + std::to_string(options.determinism_runs) + (got ? " gave other ids, routes or bits than the first" : ": " + got.error().line())});
      }
    }
  }

  ev::Comparison comparison;
  if (lane) {
    ev::Floors floors = lane->floors;
    const coli::MarginFloors& own = model.profile->about->floors;
    if (own.token > 0) floors.token = own.token;
    if (own.route > 0) floors.route = own.route;
    if (options.token_floor) floors.token = *options.token_floor;
    if (options.route_floor) floors.route = *options.route_floor;
    comparison = ev::compare(run, *lane, floors);
  } else {
    for (const auto& [id, got] : run.cases)
      if (!got) comparison.failures.push_back({got.error().code == coli::Errc::mismatch ? ev::Cause::inputs : ev::Cause::refused, id, got.error().line()});
  }
  comparison.failures.insert(comparison.failures.end(), failures.begin(), failures.end());
  std::stable_sort(comparison.failures.begin(), comparison.failures.end(), [](const auto& a, const auto& b) { return a.cause < b.cause; });

  const std::string hash = ev::hash_of(decided);
  const ev::Floors floors = ev::floors_under(decided);
  if (options.prints())
    for (const ev::CaseDecisions& d : decided)
      std::printf("%-24s %3u + %3zu tokens  margin %-9.4g at step %-3u  route %-9.3g at %u, layer %u  ids %.8s  routes %.8s  logits %.8s\n", d.id.c_str(), d.token_count, d.ids.size(),
                  static_cast<double>(d.token_margin), d.token_margin_step, static_cast<double>(d.route_margin), d.route_margin_position, d.route_margin_layer,
                  coli::hash_of_ids(d.ids).c_str(), d.route_ids_sha256.c_str(), d.logits_sha256.c_str());
  Json covered = coverage(set, use, options.prints());
  ev::Lane own{run.key, floors, decided, Json{{"commit", build_commit()}, {"compiler", build_compiler()}, {"processor", cpu_model()}, {"maker", "colidrv eval --snapshot-out"}}};
  if (options.prints()) {
    std::printf("floors by this run: token %s, route %s\nhash of all decisions: %s\n", ev::to_json(floors)["token"].dump().c_str(), ev::to_json(floors)["route"].dump().c_str(), hash.c_str());
    for (const ev::Failure& f : comparison.failures) std::printf("FAILED %s\n", f.line().c_str());
    if (lane)
      std::printf("%zu of %zu cases compared with %s: %s\n", comparison.n_compared, set.cases.size(), lane_path.c_str(),
                  comparison.same_key ? "ids, routes, bits and margins" : "ids and margins only, for it is of another key");
  }
  if (!options.json.empty()) {
    Json out = ev::to_json(own), list = Json::array();
    for (const ev::Failure& f : comparison.failures) list.push_back({{"cause", ev::name_of(f.cause)}, {"case", f.case_id}, {"what", f.what}});
    out["kind"] = "eval";
    out["hash"] = hash, out["coverage"] = std::move(covered), out["lane"] = lane ? Json(lane_path) : Json();
    out["compared"] = comparison.n_compared, out["same_key"] = comparison.same_key, out["failures"] = std::move(list);
    COLI_CHECK(write_json(out, options.json));
  }
  // A snapshot of a run that went wrong would make the fault the lane.
  if (!options.snapshot_out.empty()) {
    if (decided.size() != set.cases.size() || !failures.empty())
      return coli::Error{coli::Errc::mismatch, "no snapshot was written: " + comparison.failures.front().line(), "--snapshot-out", options.snapshot_out};
    COLI_CHECK(write_json(ev::to_json(own), options.snapshot_out));
  }
  if (!comparison.failures.empty()) {
    const std::size_t more = comparison.failures.size() - 1;
    return coli::Error{coli::Errc::mismatch, comparison.failures.front().line() + (more == 0 ? "" : " (and " + std::to_string(more) + " more)"), "", model.name};
  }
  if (options.report || !options.snapshot_out.empty()) return {};
  if (!lane) return coli::Error{coli::Errc::nothing_compared, "there is no lane of profile " + run.key.profile + " on " + run.key.isa + ": nothing was compared (--report only prints, --snapshot-out makes one)", "", lane_path};
  if (comparison.n_compared == 0) return coli::Error{coli::Errc::nothing_compared, "no case of the lane was met: nothing was compared", "", lane_path};
  return {};
}

coli::Result<void> eval_perplexity(const EvalOptions& options) {
  COLI_TRY(text, read_text_file(options.perplexity));
  COLI_TRY(model, open_model(options.model));
  Session& session = *model.session;
  COLI_TRY(tokenizer, session.tokenizer());
  COLI_TRY(ids, tokenizer->encode(text));
  ev::PerplexityOptions how;
  how.window = options.window.value_or(std::min(how.window, session.context()));
  how.stride = options.stride.value_or(std::max(how.window / 2, 1U));
  COLI_TRY(result, ev::perplexity(session, ids, text.size(), how));
  if (options.prints())
    std::printf("%.6f bits per byte, %.6f nats per token (%llu bytes, %zu tokens, %llu predicted, window %u, stride %u)\n", result.bits_per_byte(), result.nats_per_token(),
                static_cast<unsigned long long>(result.n_bytes), ids.size(), static_cast<unsigned long long>(result.n_predicted), how.window, how.stride);
  if (options.json.empty()) return {};
  return write_json(Json{{"profile", model.profile->name}, {"isa", session.isa()}, {"bits_per_byte", result.bits_per_byte()}, {"nats_per_token", result.nats_per_token()},
                         {"nats", result.nats}, {"bytes", result.n_bytes}, {"tokens", ids.size()}, {"predicted", result.n_predicted}, {"window", how.window}, {"stride", how.stride}},
                    options.json);
}

coli::Result<void> eval(const EvalOptions& options) {
  COLI_CHECK(check_json_path(options.json));
  COLI_CHECK(check_json_path(options.snapshot_out, "--snapshot-out"));
  const auto count = !options.golden.empty() + !options.cases.empty() + !options.perplexity.empty();
  if (count != 1) return coli::Error{coli::Errc::usage, "one of --cases, --golden and --perplexity says what to compare with (colidrv eval --help)"};
  if (!options.golden.empty()) return eval_golden(options);
  return options.cases.empty() ? eval_perplexity(options) : eval_cases(options);
}

}  // namespace

void add_eval(CLI::App& app, Action& action) {
  auto options = std::make_shared<EvalOptions>();
  CLI::App& command = *app.add_subcommand("eval", "compare a model's greedy decisions with goldens or a lane; measure its surprise at a text");
  options->model.add_to(command, true);
  auto* golden = command.add_option("--golden", options->golden, "golden file: prompts and the ids that must follow, by an independent oracle");
  auto* cases = command.add_option("--cases", options->cases, "file of cases: prompts whose decisions are compared with a lane");
  auto* text = command.add_option("--perplexity", options->perplexity, "text: nats a token and bits a byte");
  golden->excludes(cases)->excludes(text);
  cases->excludes(text);
  auto* snapshot = command.add_option("--snapshot", options->snapshot, "the lane to compare with; default: <profile>.<isa>.json of --lanes")->needs(cases);
  command.add_option("--lanes", options->lanes, "folder of lanes; default: x.lanes beside x.cases.json")->needs(cases)->excludes(snapshot);
  command.add_option("--snapshot-out", options->snapshot_out, "write this run's decisions as a lane")->needs(cases);
  command.add_flag("--report", options->report, "print, compare with nothing")->needs(cases)->excludes(snapshot);
  command.add_option("--determinism-runs", options->determinism_runs, "run every case so often; all must give the same bits")->check(CLI::Range(1U, 1000U))->needs(cases)->capture_default_str();
  command.add_option("--min-token-margin", options->token_floor, "floor of token margins, instead of the lane's; 0 is none")->check(CLI::NonNegativeNumber)->needs(cases);
  command.add_option("--min-route-margin", options->route_floor, "floor of route margins, instead of the lane's; 0 is none")->check(CLI::NonNegativeNumber)->needs(cases);
  command.add_option("--window", options->window, "tokens of one window; default 512, or the context")->check(CLI::Range(1U, 1U << 30))->needs(text);
  command.add_option("--stride", options->stride, "tokens from one window to the next; default half a window")->check(CLI::Range(1U, 1U << 30))->needs(text);
  add_json_option(command, options->json);
  command.callback([&action, options] { action = [options] { return eval(*options); }; });
}

}  // namespace colidrv
