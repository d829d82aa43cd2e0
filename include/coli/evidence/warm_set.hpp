// SPDX-License-Identifier: Apache-2.0
// Which experts did past runs of this model use most? Learned, kept in one small file, never written unasked.
//
// A run is one observation, however often an expert fires in it: an expert's share of its layer's choices, between 0 and
// 1. The score is a decaying average of those, so it can't saturate and forgets what stopped being true. The file names
// its model by fingerprint; another model's is refused.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "coli/core/bounded_json.hpp"
#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"
#include "coli/core/replace_file.hpp"

namespace coli {

class WarmSet {
 public:
  using Json = nlohmann::ordered_json;
  static constexpr double kKeep = 0.8;  // of the score, a run

  WarmSet(std::string model_sha256, std::uint32_t n_layers, std::uint32_t n_experts)
      : model_(std::move(model_sha256)), scores_(n_layers, std::vector<double>(n_experts, 0)) {}

  /// What the file holds; an empty set where there is no file yet. Errors: io; bad_input, where it is damaged or of
  /// another model.
  static Result<WarmSet> load(const std::string& path, std::string model_sha256, std::uint32_t n_layers, std::uint32_t n_experts) {
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) return WarmSet(std::move(model_sha256), n_layers, n_experts);
    std::ifstream file(path, std::ios::binary);
    if (!file) return Error{Errc::io, "cannot open", "", path};
    auto set = parse({std::istreambuf_iterator<char>(file), {}}, std::move(model_sha256), n_layers, n_experts);
    if (!set) return std::move(set).error().in_file(path);
    return set;
  }
  /// The same of a file's text. Errors: bad_input.
  static Result<WarmSet> parse(const std::string& text, std::string model_sha256, std::uint32_t n_layers, std::uint32_t n_experts) {
    WarmSet set(std::move(model_sha256), n_layers, n_experts);
    const auto bad = [&](std::string why) { return Error{Errc::bad_input, std::move(why), "--warm"}; };
    const Json json = parse_bounded_json(text);
    if (!json.is_object() || json.value("format", Json()) != "coli warm set" || json.value("version", Json()) != 1) return bad("is not a warm set of version 1");
    if (json.value("model_fingerprint_sha256", Json()) != set.model_) return bad("was learned from another model");
    const Json scores = json.value("scores", Json()), runs = json.value("runs", Json());
    if (!runs.is_number_unsigned() || !scores.is_array() || scores.size() != n_layers) return bad("holds scores of " + std::to_string(scores.size()) + " layers; the model has " + std::to_string(n_layers));
    for (std::uint32_t l = 0; l < n_layers; ++l) {
      if (!scores[l].is_array() || scores[l].size() != n_experts) return bad("layer " + std::to_string(l) + " has no " + std::to_string(n_experts) + " scores");
      for (std::uint32_t e = 0; e < n_experts; ++e) {
        if (!scores[l][e].is_number()) return bad("layer " + std::to_string(l) + " holds something that is no score");
        const double score = scores[l][e].get<double>();
        if (!(score >= 0 && score <= 1)) return bad("layer " + std::to_string(l) + ", expert " + std::to_string(e) + ": a score of " + scores[l][e].dump());
        set.scores_[l][e] = score;
      }
    }
    set.runs_ = runs.get<std::uint64_t>();
    return set;
  }

  /// Adds one run: how often each expert of each layer was chosen.
  void observe(const std::vector<std::vector<std::uint64_t>>& uses) {
    ++runs_;
    for (std::size_t l = 0; l < scores_.size() && l < uses.size(); ++l) {
      std::uint64_t all = 0;
      for (const std::uint64_t n : uses[l]) all += n;
      if (all == 0) continue;
      for (std::size_t e = 0; e < scores_[l].size() && e < uses[l].size(); ++e) scores_[l][e] = kKeep * scores_[l][e] + (1 - kKeep) * static_cast<double>(uses[l][e]) / static_cast<double>(all);
    }
  }

  /// Experts that were ever seen, the most used first.
  std::vector<ExpertKey> by_popularity() const {
    std::vector<std::pair<double, ExpertKey>> all;
    for (std::uint32_t l = 0; l < scores_.size(); ++l)
      for (std::uint32_t e = 0; e < scores_[l].size(); ++e)
        if (scores_[l][e] > 0) all.emplace_back(scores_[l][e], ExpertKey{LayerId{l}, ExpertId{e}});
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<ExpertKey> keys;
    for (const auto& [score, key] : all) keys.push_back(key);
    return keys;
  }

  /// Writes the file, whole or not at all. Errors: io.
  Result<void> save(const std::string& path) const {
    const std::string text = Json{{"format", "coli warm set"}, {"version", 1}, {"model_fingerprint_sha256", model_}, {"runs", runs_}, {"scores", scores_}}.dump() + "\n";
    return replace_file(text, path);
  }

  std::uint64_t runs() const noexcept { return runs_; }
  double score(ExpertKey key) const { return scores_[key.layer.value][key.expert.value]; }

 private:
  std::string model_;
  std::uint64_t runs_ = 0;
  std::vector<std::vector<double>> scores_;  // [layer][expert]
};

}  // namespace coli
