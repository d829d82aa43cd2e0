// SPDX-License-Identifier: Apache-2.0
// colidrv experiment run and colidrv receipt check: is one value of one option better, and does the proof hold?
#include <cstdio>

#include "coli/core/bounded_json.hpp"
#include "coli/evidence/arm_process.hpp"
#include "coli/evidence/experiment.hpp"
#include "coli/evidence/process_usage.hpp"
#include "coli/gguf/fingerprint.hpp"
#include "coli/model/tensors.hpp"
#include "driver/build_info.hpp"
#include "driver/commands.hpp"
#include "driver/json_output.hpp"
#include "driver/model_options.hpp"
#include "driver/text_input.hpp"

namespace colidrv {
namespace {

struct ExperimentOptions {
  std::string file, receipt, json;
};

/// Errors: io; bad_input, where it is no JSON.
coli::Result<Json> read_json(const std::string& path) {
  COLI_TRY(text, read_text_file(path));
  Json json = coli::parse_bounded_json(text);
  if (json.is_discarded()) return coli::Error{coli::Errc::bad_input, "is not JSON (or nests deeper than 64 levels)", "", path};
  return json;
}

coli::Result<void> run(const ExperimentOptions& options) {
  for (const std::string* path : {&options.receipt, &options.json}) COLI_CHECK(check_json_path(*path));
  COLI_TRY(manifest_json, read_json(options.file));
  auto manifest = coli::Manifest::from_json(manifest_json);
  if (!manifest) return std::move(manifest).error().in_file(options.file);
  const bool is_embedded = manifest->command.size() < 2 || manifest->command[1].starts_with("-");
  if (is_embedded && manifest->cold) return coli::Error{coli::Errc::usage, "the embedded model lies in this program: its cache can't be cold", "cache"};
  const std::string path = is_embedded ? "" : manifest->command[1];
  COLI_TRY(model, open_file(path));
  COLI_TRY(hyperparams, coli::Hyperparams::read(model.metadata()));
  COLI_TRY(tensors, coli::ModelTensors::bind(model, hyperparams, coli::FormatSet::all()));
  COLI_TRY(fingerprint, coli::gguf::fingerprint(model));
  std::vector<std::string> files;
  std::uint64_t bytes = 0;
  for (const auto& shard : model.shards()) {
    bytes += shard.size;
    if (shard.memory.empty()) files.push_back(shard.path);
  }
  const auto moe_layers = static_cast<std::uint64_t>(std::count_if(tensors.layers.begin(), tensors.layers.end(), [](const coli::LayerTensors& t) { return t.is_moe(); }));
  const std::string commit = build_commit();
  const coli::Surroundings around{coli::machine_state(path),
                                  {{"commit", commit}, {"dirty", commit.find("+changes") != std::string::npos}, {"compiler", build_compiler()}},
                                  {{"name", is_embedded ? "embedded model" : path.substr(path.find_last_of('/') + 1)}, {"bytes", bytes}, {"fingerprint_sha256", fingerprint}}};
  std::error_code no_link;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", no_link);
  if (no_link) return coli::Error{coli::Errc::unavailable, "this system doesn't say where this program lies (/proc/self/exe)"};
  COLI_TRY(receipt, coli::run_experiment(
                        manifest_json, around,
                        [&](std::size_t, const std::vector<std::string>& command) -> coli::Result<Json> {
                          if (manifest->cold) COLI_CHECK(coli::drop_cached(files));
                          std::optional<coli::LimitedGroup> group;  // one a run: nothing of the run before is charged to it
                          if (manifest->memory_limit) {
                            COLI_TRY(made, coli::LimitedGroup::create(*manifest->memory_limit));
                            group.emplace(std::move(made));
                          }
                          int exit_code = 0;
                          COLI_TRY(result, coli::run_program(program, command, group ? &*group : nullptr, exit_code));
                          COLI_TRY(sample, coli::sample_of(result, manifest->metric, exit_code, moe_layers, hyperparams.top_k));
                          if (group) sample["memory_limit"] = group->usage();
                          return sample;
                        },
                        [&](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }));
  if (!options.receipt.empty()) COLI_CHECK(write_json(receipt, options.receipt));
  if (options.json != "-" && options.receipt != "-") {
    for (const char* arm : {"baseline", "candidate"}) {
      const Json& a = receipt["arms"][arm];
      std::printf("%-9s %s: median %.3f (%.3f to %.3f), n = %d\n", arm, manifest->metric.c_str(), a["median"].get<double>(), a["min"].get<double>(), a["max"].get<double>(), a["n"].get<int>());
    }
    std::printf("%s: %+.1f %%, %s\n", receipt["verdict"]["outcome"].get<std::string>().c_str(), 100 * receipt["verdict"]["improvement"].get<double>(), receipt["verdict"]["reason"].get<std::string>().c_str());
  }
  return options.json.empty() ? coli::Result<void>{} : write_json(receipt, options.json);
}

coli::Result<void> check(const ExperimentOptions& options) {
  COLI_CHECK(check_json_path(options.json));
  COLI_TRY(receipt, read_json(options.file));
  const coli::ReceiptCheck result = coli::check_receipt(receipt);
  if (!options.json.empty()) {
    Json findings = Json::array();
    for (const coli::ReceiptFinding& f : result.findings) findings.push_back({{"rule", f.rule}, {"message", f.message}});
    COLI_CHECK(write_json({{"holds", result.holds()}, {"outcome", std::string(name_of(result.derived.outcome))}, {"improvement", result.derived.improvement}, {"reason", result.derived.reason}, {"findings", findings}}, options.json));
  }
  if (!result.holds()) {
    std::string message = result.findings.front().message;
    if (result.findings.size() > 1) message += " (and " + std::to_string(result.findings.size() - 1) + " more)";
    for (std::size_t i = 1; i < result.findings.size(); ++i) std::fprintf(stderr, "also: %s: %s\n", result.findings[i].rule.c_str(), result.findings[i].message.c_str());
    return coli::Error{coli::Errc::mismatch, message, result.findings.front().rule, options.file};
  }
  if (options.json != "-") std::printf("the receipt holds: %s, %+.1f %%: %s\n", std::string(name_of(result.derived.outcome)).c_str(), 100 * result.derived.improvement, result.derived.reason.c_str());
  return {};
}

}  // namespace

void add_experiment(CLI::App& app, Action& action) {
  auto options = std::make_shared<ExperimentOptions>();
  CLI::App& command = *app.add_subcommand("experiment", "is one value of an option better than another? interleaved runs, and a receipt");
  command.require_subcommand(1);
  CLI::App& runs = *command.add_subcommand("run", "run a manifest");
  runs.add_option("MANIFEST", options->file, "JSON: command, variable with its two values, metric, n")->required();
  runs.add_option("--receipt", options->receipt, "write the receipt to a file, or - for standard output");
  add_json_option(runs, options->json);
  runs.callback([&action, options] { action = [options] { return run(*options); }; });
}

void add_receipt(CLI::App& app, Action& action) {
  auto options = std::make_shared<ExperimentOptions>();
  CLI::App& command = *app.add_subcommand("receipt", "does a receipt hold?");
  command.require_subcommand(1);
  CLI::App& checks = *command.add_subcommand("check", "derive the verdict from the samples again, and say what is wrong");
  checks.add_option("RECEIPT", options->file, "what experiment run wrote")->required();
  add_json_option(checks, options->json);
  checks.callback([&action, options] { action = [options] { return check(*options); }; });
}

}  // namespace colidrv
