// SPDX-License-Identifier: Apache-2.0
// What did a model decide after a prompt, how surely, and with which bits?
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"
#include "coli/core/ids_hash.hpp"
#include "coli/core/sha256.hpp"
#include "coli/evaluation/case_set.hpp"
#include "coli/moe/routing.hpp"
#include "coli/sample/greedy.hpp"

namespace coli::evaluation {

inline constexpr float kNoMargin = std::numeric_limits<float>::infinity();
inline constexpr std::size_t kShownLogits = 5;

/// Greedy decisions of one case. Margins are the least of all; infinite where there was nothing to choose from.
struct CaseDecisions {
  std::string id;
  std::string prompt_sha256;
  std::uint32_t token_count = 0;  // of the prompt
  std::vector<TokenId> ids;       // decided
  float token_margin = kNoMargin;  // largest minus second largest logit ...
  std::uint32_t token_margin_step = 0;
  float route_margin = kNoMargin;  // k-th minus (k+1)-th router logit ...
  std::uint32_t route_margin_position = 0, route_margin_layer = 0;
  std::string route_ids_sha256;  // of the expert ids by position, layer and rank
  std::string logits_sha256;     // of every step's logits, as they lie in memory
  std::vector<std::pair<TokenId, float>> top_logits;  // at the step of the least token margin: to look at, not compared

  /// All of it in one name: equal where nothing differs.
  void add_to(Sha256& hash) const {
    const std::string text = id + ' ' + prompt_sha256 + ' ' + hash_of_ids(ids) + ' ' + route_ids_sha256 + ' ' + logits_sha256 + '\n';
    hash.update_values(std::span<const char>(text));
  }
};

/// One hash over all cases: what runs that must be alike are compared by.
inline std::string hash_of(std::span<const CaseDecisions> decisions) {
  Sha256 hash;
  for (const CaseDecisions& d : decisions) d.add_to(hash);
  return hash.hex();
}

/// How often each expert was chosen, by layer.
class ExpertUse {
 public:
  void count(LayerId layer, std::uint32_t n_experts, std::span<const ExpertId> ids) {
    if (layers_.size() <= layer.value) layers_.resize(std::size_t{layer.value} + 1);
    auto& uses = layers_[layer.value];
    if (uses.size() < n_experts) uses.resize(n_experts);
    for (const ExpertId id : ids) ++uses[id.value];
  }
  /// Of how many experts, and how many of them were never chosen.
  std::pair<std::size_t, std::size_t> total_and_unused() const {
    std::size_t total = 0, unused = 0;
    for (const auto& uses : layers_) {
      total += uses.size();
      unused += static_cast<std::size_t>(std::count(uses.begin(), uses.end(), std::uint64_t{0}));
    }
    return {total, unused};
  }
  const std::vector<std::vector<std::uint64_t>>& layers() const noexcept { return layers_; }

 private:
  std::vector<std::vector<std::uint64_t>> layers_;
};

/// The largest logits, best first; ties by the lower id.
inline std::vector<std::pair<TokenId, float>> top_logits_of(std::span<const float> logits) {
  std::vector<std::pair<TokenId, float>> all;
  for (std::size_t i = 0; i < logits.size(); ++i) all.emplace_back(TokenId{static_cast<std::int32_t>(i)}, logits[i]);
  const auto n = static_cast<std::ptrdiff_t>(std::min(kShownLogits, all.size()));
  std::partial_sort(all.begin(), all.begin() + n, all.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first.value < b.first.value;
  });
  all.resize(static_cast<std::size_t>(n));
  return all;
}

/// Decides `n_tokens` after `prompt` from an empty sequence. `Sequence` is an engine, or anything with its truncate,
/// prefill, step and observer; its on_routing is taken for the time being. End-of-text is a token like any other.
/// Errors: the engine's; internal, naming the step, where a logit is not finite.
template <class Sequence>
Result<CaseDecisions> decide(Sequence& sequence, const std::string& id, std::span<const TokenId> prompt, std::uint32_t n_tokens,
                             std::uint32_t n_experts, ExpertUse* use = nullptr) {
  CaseDecisions d;
  d.id = id;
  d.prompt_sha256 = hash_of_ids(prompt);
  d.token_count = static_cast<std::uint32_t>(prompt.size());

  // Experts are kept by position, so that the hash does not depend on how the prompt was cut into passes.
  std::vector<std::vector<ExpertId>> routes;
  auto& observer = sequence.observer();
  auto before = std::exchange(observer.on_routing, [&](LayerId layer, std::uint32_t first, const Routing& routing, const auto&...) {
    if (routes.size() < std::size_t{first} + routing.n_tokens) routes.resize(std::size_t{first} + routing.n_tokens);
    for (std::uint32_t t = 0; t < routing.n_tokens; ++t) {
      const auto ids = routing.ids_of(t);
      routes[first + t].insert(routes[first + t].end(), ids.begin(), ids.end());
      if (use != nullptr) use->count(layer, n_experts, ids);
      const std::uint32_t at = first + t;
      const bool earlier = at < d.route_margin_position || (at == d.route_margin_position && layer.value < d.route_margin_layer);
      if (routing.gaps[t] < d.route_margin || (routing.gaps[t] == d.route_margin && d.route_margin < kNoMargin && earlier))
        d.route_margin = routing.gaps[t], d.route_margin_position = at, d.route_margin_layer = layer.value;
    }
  });
  Sha256 logits_hash;
  const auto run = [&]() -> Result<void> {
    COLI_CHECK(sequence.truncate(0));
    auto logits = sequence.prefill(prompt);
    for (std::uint32_t step = 0;; ++step) {
      if (!logits) return std::move(logits).error();
      logits_hash.update_values(*logits);
      auto top = top_two(*logits);
      if (!top) {
        Error error = std::move(top).error();
        error.subject = "step " + std::to_string(step);
        return error;
      }
      d.ids.push_back(top->best);
      if (step == 0 || top->margin() < d.token_margin) {
        d.token_margin = top->margin();
        d.token_margin_step = step;
        d.top_logits = top_logits_of(*logits);
      }
      if (step + 1 == n_tokens) return {};
      logits = sequence.step(top->best);
    }
  };
  auto done = run();
  observer.on_routing = std::move(before);
  if (!done) return std::move(done).error();
  Sha256 route_hash;
  for (const auto& position : routes)
    for (const ExpertId expert : position) {
      const std::byte bytes[2]{static_cast<std::byte>(expert.value), static_cast<std::byte>(expert.value >> 8)};
      route_hash.update(bytes);
    }
  d.route_ids_sha256 = route_hash.hex();
  d.logits_sha256 = logits_hash.hex();
  return d;
}

}  // namespace coli::evaluation
