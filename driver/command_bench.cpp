// SPDX-License-Identifier: Apache-2.0
// colidrv bench: prefill and decode rates, beside the rate at which this machine reads memory.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <sstream>

#include "coli/core/thread_pool.hpp"
#include "coli/model/geometry.hpp"
#include "coli/plan/read_bandwidth.hpp"
#include "coli/sample/rng.hpp"
#include "driver/build_info.hpp"
#include "driver/commands.hpp"
#include "driver/json_output.hpp"
#include "driver/model_options.hpp"

namespace colidrv {
namespace {

struct BenchOptions {
  ModelOptions model;
  std::vector<std::uint32_t> prefill{64, 512};
  std::vector<std::uint32_t> decode{64};
  std::uint32_t repeat = 5;
  bool no_bandwidth = false;
  std::string json;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Pseudo-random ids, the same for every run: routing is then spread as on unrelated text.
std::vector<coli::TokenId> some_ids(std::size_t n, std::uint32_t n_vocab) {
  coli::Rng rng(1);
  std::vector<coli::TokenId> ids;
  for (std::size_t i = 0; i < n; ++i) ids.push_back(coli::TokenId{static_cast<std::int32_t>(rng.next() % n_vocab)});
  return ids;
}

struct Rates {
  std::uint32_t tokens;
  std::vector<double> samples;  // tokens a second

  Json json() const {
    std::vector<double> sorted = samples;
    std::sort(sorted.begin(), sorted.end());
    return {{"tokens", tokens}, {"tps_median", sorted[sorted.size() / 2]}, {"tps_min", sorted.front()}, {"tps_max", sorted.back()}, {"n", sorted.size()}, {"samples", samples}};
  }
};

coli::Result<void> bench(const BenchOptions& options) {
  COLI_TRY(model, open_model(options.model));
  Session& session = *model.session;
  const std::uint32_t n_vocab = session.tensors().n_vocab;
  for (const std::uint32_t n : options.prefill)
    if (n == 0 || n > session.context()) return coli::Error{coli::Errc::usage, std::to_string(n) + " tokens; expected 1 to the context of " + std::to_string(session.context()), "--prefill"};
  constexpr std::uint32_t kPrompt = 8;
  for (const std::uint32_t n : options.decode)
    if (n == 0 || n + kPrompt > session.context()) return coli::Error{coli::Errc::usage, std::to_string(n) + " tokens; expected 1 to the context of " + std::to_string(session.context()) + " less " + std::to_string(kPrompt), "--decode"};

  std::vector<Rates> prefill, decode;
  for (const std::uint32_t n : options.prefill) prefill.push_back({n, {}});
  for (const std::uint32_t n : options.decode) decode.push_back({n, {}});
  std::vector<double> bandwidth;
  coli::ThreadPool readers(session.threads());
  const auto weights = session.weight_memory();
  for (std::uint32_t repeat = 0; repeat <= options.repeat; ++repeat) {  // 0 is the warm-up
    for (Rates& rates : prefill) {
      const auto ids = some_ids(rates.tokens, n_vocab);
      COLI_CHECK(session.truncate(0));
      const auto start = std::chrono::steady_clock::now();
      COLI_TRY(logits, session.prefill(ids));
      (void)logits;
      if (repeat != 0) rates.samples.push_back(rates.tokens / seconds_since(start));
    }
    for (Rates& rates : decode) {
      const auto ids = some_ids(rates.tokens + kPrompt, n_vocab);
      COLI_CHECK(session.truncate(0));
      COLI_TRY(prompt, session.prefill(std::span(ids).first(kPrompt)));
      (void)prompt;
      const auto start = std::chrono::steady_clock::now();
      for (const coli::TokenId id : std::span(ids).subspan(kPrompt)) {
        COLI_TRY(logits, session.step(id));
        (void)logits;
      }
      if (repeat != 0) rates.samples.push_back(rates.tokens / seconds_since(start));
    }
    if (!options.no_bandwidth && repeat != 0)  // in the same minutes: machines drift
      bandwidth.push_back(coli::measure_read_bandwidth(weights, readers, 4 * coli::kGiB / 4));
  }

  const coli::ModelGeometry geometry = coli::ModelGeometry::of(session.hyperparams(), session.tensors());
  const double bytes_per_token = static_cast<double>(geometry.token_weights().value);
  const double best = bandwidth.empty() ? 0 : *std::max_element(bandwidth.begin(), bandwidth.end());
  const coli::EngineStats stats = session.stats();
  Json out{{"model", model.name},
           {"profile", model.profile->name},
           {"isa", session.isa()},
           {"threads", session.threads()},
           {"commit", build_commit()},
           {"compiler", build_compiler()},
           {"cpu", cpu_model()},
           {"prefill", Json::array()},
           {"decode", Json::array()},
           {"bytes_per_token", geometry.token_weights().value},
           {"read_bandwidth_gbs", best / 1e9},
           {"kernels", stats.kernels},
           {"cache_hit_rate", stats.cache.hit_rate()},
           {"bytes_read", stats.cache.bytes_read}};
  if (options.json != "-")
    std::printf("%s, profile %s, isa %s, %u threads, commit %s, %s\n", cpu_model().c_str(), std::string(model.profile->name).c_str(), session.isa().c_str(), session.threads(), build_commit().c_str(), build_compiler().c_str());
  for (const auto& [key, list] : {std::pair{"prefill", &prefill}, std::pair{"decode", &decode}})
    for (const Rates& rates : *list) {
      Json entry = rates.json();
      const double median = entry["tps_median"];
      if (best > 0 && std::string_view(key) == "decode") entry["bandwidth_fraction"] = median * bytes_per_token / best;
      if (options.json != "-") {
        std::printf("%-8s %5u tokens: %8.2f tok/s (%.2f to %.2f, n = %zu)", key, rates.tokens, median, entry["tps_min"].get<double>(), entry["tps_max"].get<double>(), rates.samples.size());
        if (entry.contains("bandwidth_fraction"))
          std::printf(", %.2f of %.1f GB/s read bandwidth at %.3f GB a token", entry["bandwidth_fraction"].get<double>(), best / 1e9, bytes_per_token / 1e9);
        std::printf("\n");
      }
      out[key].push_back(std::move(entry));
    }
  return options.json.empty() ? coli::Result<void>{} : write_json(out, options.json);
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App& command = *app.add_subcommand("bench", "prefill and decode rates, medians over repeats");
  options->model.add_to(command, false);
  command.add_option("--prefill", options->prefill, "prompt lengths, 64,512")->delimiter(',')->capture_default_str();
  command.add_option("--decode", options->decode, "numbers of tokens to decode")->delimiter(',')->capture_default_str();
  command.add_option("--repeat", options->repeat, "measured repeats, after one warm-up")->check(CLI::Range(1U, 1000U))->capture_default_str();
  command.add_flag("--no-bandwidth", options->no_bandwidth, "do not measure memory read bandwidth");
  command.add_option("--json", options->json, "write one JSON object to a file, or - for standard output");
  command.callback([&action, options] { action = [options] { return bench(*options); }; });
}

}  // namespace colidrv
