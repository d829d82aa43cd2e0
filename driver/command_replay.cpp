// SPDX-License-Identifier: Apache-2.0
// colidrv replay: what would other policies and other amounts of memory have hit?
#include <cstdio>

#include "coli/evidence/export_routes.hpp"
#include "coli/evidence/replay_output.hpp"
#include "driver/commands.hpp"
#include "driver/json_output.hpp"

namespace colidrv {
namespace {

struct ReplayOptions {
  std::string trace, policies = "all", budgets, grouping = "recorded", slots = "auto";
  std::string disk_rate, weights_rate;
  double prefetch_recall = 0;
  bool no_overlap = false, per_layer = false, check = false;
  std::string csv, html, exported, json;
};

/// "1.5G" a second. Errors: usage.
coli::Result<double> rate(const std::string& text, const char* option) {
  const auto bytes = coli::parse_bytes(text);
  if (!bytes || bytes->value == 0) return coli::Error{coli::Errc::usage, "'" + text + "' is not bytes a second; expected a number with K, M or G", option};
  return static_cast<double>(bytes->value);
}

coli::Result<void> replay(const ReplayOptions& options) {
  for (const std::string* path : {&options.csv, &options.html, &options.exported, &options.json}) COLI_CHECK(check_json_path(*path));
  coli::ReplayRequest request;
  COLI_TRY(policies, coli::parse_policies(options.policies));
  COLI_TRY(grouping, coli::parse_grouping(options.grouping));
  request.policies = std::move(policies);
  request.grouping = grouping;
  request.per_layer = options.per_layer;
  if (options.slots != "auto") request.slots = options.slots == "typed" ? coli::SlotKind::typed : coli::SlotKind::uniform;
  if (!options.budgets.empty()) {
    COLI_TRY(budgets, coli::parse_budgets(options.budgets));
    request.budgets = std::move(budgets);
  }
  double disk_rate = 0, weights_rate = 0;
  if (!options.disk_rate.empty()) {
    COLI_TRY(given, rate(options.disk_rate, "--disk-rate"));
    disk_rate = given;
  }
  if (!options.weights_rate.empty()) {
    COLI_TRY(given, rate(options.weights_rate, "--weights-rate"));
    weights_rate = given;
  }
  if (!options.exported.empty()) COLI_CHECK(coli::export_routes(options.trace, options.exported));
  COLI_TRY(routes, coli::load_routes(options.trace));
  if (request.budgets.empty()) {
    COLI_TRY(budgets, coli::parse_budgets(coli::recorded_slots(routes.header) ? "6.25%,12.5%,25%,37.5%,50%,75%,100%,recorded" : "6.25%,12.5%,25%,37.5%,50%,75%,100%"));
    request.budgets = std::move(budgets);
  }
  request.time = coli::measured_rates(routes);
  if (disk_rate > 0 || weights_rate > 0) request.time.origin = request.time.known() && !(disk_rate > 0 && weights_rate > 0) ? "given, and the trace's own run" : "given";
  if (disk_rate > 0) request.time.disk_rate = disk_rate;
  if (weights_rate > 0) request.time.weights_rate = weights_rate;
  request.time.overlap = !options.no_overlap;
  request.time.prefetch_recall = options.prefetch_recall;
  if ((disk_rate > 0 || weights_rate > 0 || options.no_overlap || options.prefetch_recall > 0) && !request.time.known())
    return coli::Error{coli::Errc::usage, "times need both rates: the trace measured neither or only one; give --disk-rate and --weights-rate"};

  if (options.check) {
    COLI_TRY(counts, coli::check_against_engine(routes));
    if (options.json != "-") std::printf("the engine's own counters: equal (%llu hits, %llu misses)\n", static_cast<unsigned long long>(counts.hits[0] + counts.hits[1]), static_cast<unsigned long long>(counts.misses[0] + counts.misses[1]));
  }
  COLI_TRY(report, coli::replay_all(routes, request));
  const coli::TraceStatistics statistics = coli::TraceStatistics::of(routes.accesses);
  const coli::ReplayOutput output{routes, request, report, statistics};
  for (const std::string& warning : output.warnings()) std::fprintf(stderr, "note: %s\n", warning.c_str());
  if (options.json != "-" && options.csv != "-" && options.html != "-") {
    std::printf("%s: %llu tokens, %llu decoded; %s leases; one token's experts take %s of %s\n", routes.header.model.c_str(), static_cast<unsigned long long>(routes.n_tokens), static_cast<unsigned long long>(routes.n_decoded), options.grouping.c_str(),
                coli::to_text(report.geometry.token_cycle()).c_str(), coli::to_text(report.geometry.all_bytes()).c_str());
    std::fputs(output.table().c_str(), stdout);
  }
  if (!options.csv.empty()) COLI_CHECK(write_text(output.csv(), options.csv));
  if (!options.html.empty()) COLI_CHECK(write_text(output.html(), options.html));
  return options.json.empty() ? coli::Result<void>{} : write_json(output.json(), options.json);
}

}  // namespace

void add_replay(CLI::App& app, Action& action) {
  auto options = std::make_shared<ReplayOptions>();
  CLI::App& command = *app.add_subcommand("replay", "cache policies over a route trace: hits by memory, Belady's bound, predicted time");
  command.add_option("TRACE", options->trace, "what run --trace wrote, its CSV or JSON, or a recorded route_trace CSV")->required();
  command.add_option("--policies", options->policies, "eviction policies, a,b or all")->capture_default_str();
  command.add_option("--budgets", options->budgets, "memory for experts: sizes (1G), shares of the experts (12.5%), or recorded: what the run had");
  command.add_option("--grouping", options->grouping, "how accesses are leased: recorded, token (each token's experts of a layer) or access (one by one)")->capture_default_str();
  command.add_option("--slots", options->slots, "typed: by size of expert, as the engine; uniform: any fits any; auto: uniform for shares, typed for sizes")->check(CLI::IsMember({"auto", "typed", "uniform"}))->capture_default_str();
  command.add_option("--disk-rate", options->disk_rate, "bytes a second that misses are read at, for predicted times; default: what the traced run measured");
  command.add_option("--weights-rate", options->weights_rate, "bytes of weights a second that computing takes; default: what the traced run measured");
  command.add_option("--prefetch-recall", options->prefetch_recall, "share of misses guessed a layer ahead and read while the disk idles")->check(CLI::Range(0.0, 1.0))->capture_default_str();
  command.add_flag("--no-overlap", options->no_overlap, "predict as if nothing were computed while reads run");
  command.add_flag("--per-layer", options->per_layer, "hits of each layer too");
  command.add_flag("--check", options->check, "replay the traced run itself, and fail where its engine counted otherwise");
  command.add_option("--csv", options->csv, "write the curves to a file, or - for standard output");
  command.add_option("--html", options->html, "write a page with charts to a file, or - for standard output");
  command.add_option("--export", options->exported, "write the trace itself to a file: as .csv, .json, or else in coli's binary form");
  add_json_option(command, options->json);
  command.callback([&action, options] { action = [options] { return replay(*options); }; });
}

}  // namespace colidrv
