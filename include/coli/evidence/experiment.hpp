// SPDX-License-Identifier: Apache-2.0
// Runs a manifest: warm-ups, whose outputs must agree before any time counts; then ABBA; then the receipt.
//
// Who runs an arm is a template argument, so that the method is tested without a model: `run(arm, command)` gives the
// sample's own fields (receipt.hpp), all but run, arm, kind, command and the two times.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/evidence/manifest.hpp"
#include "coli/evidence/receipt.hpp"
#include "coli/evidence/verdict.hpp"

namespace coli {

/// What a receipt says beside its samples.
struct Surroundings {
  nlohmann::ordered_json machine, build, model;
};

/// Arms, quality, verdict and seal of what was measured.
inline nlohmann::ordered_json make_receipt(const nlohmann::ordered_json& manifest_json, const Manifest& manifest, const Surroundings& around, nlohmann::ordered_json samples) {
  using Json = nlohmann::ordered_json;
  std::array<std::vector<double>, 2> values;
  bool same = true;
  for (const Json& sample : samples) {
    if (sample["kind"] == "measured") values[sample["arm"] == "baseline" ? 0 : 1].push_back(sample["value"].is_number() ? sample["value"].get<double>() : 0);
    same = same && sample["logits_hash"] == samples.front()["logits_hash"];
  }
  Json arms = Json::object();
  for (std::size_t arm = 0; arm < 2; ++arm) {
    const Spread spread = Spread::of(values[arm]);
    arms[std::string(kArmNames[arm])] = {{"n", spread.n}, {"median", spread.median}, {"min", spread.least}, {"max", spread.most}};
  }
  const Verdict verdict = judge(values[0], values[1], manifest.higher, same, manifest.identical());
  Json receipt{{"schema", "coli.receipt/1"}, {"manifest", manifest_json}, {"machine", around.machine}, {"build", around.build}, {"model", around.model}};
  receipt["quality"] = {{"gate", manifest.quality}, {"hash", samples.empty() ? Json(nullptr) : samples.front()["logits_hash"]}, {"same", same}};
  receipt["samples"] = std::move(samples);
  receipt["arms"] = std::move(arms);
  receipt["verdict"] = {{"outcome", std::string(name_of(verdict.outcome))}, {"improvement", verdict.improvement}, {"reason", verdict.reason}};
  receipt["sha256"] = receipt_seal(receipt);
  return receipt;
}

/// `progress(text)` is told what was done. Errors: usage, where the manifest asks for too few runs; mismatch, where the
/// arms' outputs differ (before any time is taken); those of `run`.
template <class Run, class Progress>
Result<nlohmann::ordered_json> run_experiment(const nlohmann::ordered_json& manifest_json, const Surroundings& around, Run&& run, Progress&& progress) {
  using Json = nlohmann::ordered_json;
  COLI_TRY(manifest, Manifest::from_json(manifest_json));
  if (manifest.n < kLeastSamples) return Error{Errc::usage, "n is " + std::to_string(manifest.n) + "; nothing is adopted on fewer than " + std::to_string(kLeastSamples) + " runs an arm", "n"};
  Json samples = Json::array();
  const auto now = [] { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); };
  const auto take = [&](std::size_t arm, const char* kind) -> Result<void> {
    const std::vector<std::string> command = manifest.command_of(arm);
    const double started = now();
    COLI_TRY(measured, run(arm, command));
    Json sample{{"run", std::to_string(samples.size())}, {"arm", std::string(kArmNames[arm])}, {"kind", kind}, {"command", command}, {"started", started}, {"finished", std::max(now(), started + 1e-6)}};
    sample.update(measured);
    progress(std::string(kind) + " " + std::string(kArmNames[arm]) + ": " + sample["value"].dump());
    if (!samples.empty() && sample["logits_hash"] != samples.front()["logits_hash"])
      return Error{Errc::mismatch, "the output of run " + std::to_string(samples.size()) + " (" + std::string(kArmNames[arm]) + ") differs from the first run's: no time counts", manifest.option};
    samples.push_back(std::move(sample));
    return {};
  };
  for (std::uint32_t i = 0; i < std::max(1U, manifest.warmup); ++i)
    for (std::size_t arm = 0; arm < 2; ++arm) COLI_CHECK(take(arm, "warmup"));
  for (const std::size_t arm : manifest.order()) COLI_CHECK(take(arm, "measured"));
  return make_receipt(manifest_json, manifest, around, std::move(samples));
}

}  // namespace coli
