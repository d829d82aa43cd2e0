// SPDX-License-Identifier: Apache-2.0
// Which experts does each token need, how much of each, and which tokens does an expert serve?
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "coli/core/ids.hpp"

namespace coli {

/// How a family turns router logits into expert weights.
struct RouterRules {
  std::uint32_t n_experts;
  std::uint32_t top_k;
  bool renormalise;  // weights sum to 1 over the chosen; otherwise they are the softmax over all experts
  float scale;
};

/// The choice of one MoE layer for n tokens: ids and weights [n_tokens, top_k] in rank order (best first).
struct Routing {
  std::uint32_t n_tokens = 0;
  std::uint32_t top_k = 0;
  std::vector<ExpertId> ids;
  std::vector<float> weights;
  std::vector<float> gaps;  // [n_tokens] k-th minus (k+1)-th logit; infinity where every expert is chosen

  std::span<const ExpertId> ids_of(std::uint32_t token) const { return {ids.data() + std::size_t{token} * top_k, top_k}; }
  std::span<const float> weights_of(std::uint32_t token) const { return {weights.data() + std::size_t{token} * top_k, top_k}; }

  void resize(std::uint32_t tokens, std::uint32_t k) {
    n_tokens = tokens, top_k = k;
    ids.resize(std::size_t{tokens} * k), weights.resize(std::size_t{tokens} * k), gaps.resize(tokens);
  }
};

/// Chooses the top-k of one token's logits [n_experts]; ties go to the lower id. Softmax keeps the order of logits, so
/// choosing by logit equals choosing by probability, without rounding two probabilities into a tie.
/// The exponentials are f64: k of them a token, so that every CPU backend weighs experts alike.
/// False where a logit is not finite: no choice is then right.
inline bool route_token(const RouterRules& rules, std::span<const float> logits, std::span<ExpertId> ids, std::span<float> weights, float& gap) {
  for (const float logit : logits)
    if (!std::isfinite(logit)) return false;

  // Insertion into a list of k best: n * k steps at worst, in practice a few compares an expert.
  std::uint32_t held = 0;
  float next_best = -std::numeric_limits<float>::infinity();
  for (std::uint32_t e = 0; e < rules.n_experts; ++e) {
    if (held == rules.top_k && !(logits[e] > logits[ids[held - 1].value])) {
      next_best = std::max(next_best, logits[e]);
      continue;
    }
    if (held == rules.top_k) next_best = std::max(next_best, logits[ids[held - 1].value]);
    std::uint32_t at = held < rules.top_k ? held++ : held - 1;
    for (; at > 0 && logits[e] > logits[ids[at - 1].value]; --at) ids[at] = ids[at - 1];
    ids[at] = ExpertId{e};
  }
  gap = rules.top_k < rules.n_experts ? logits[ids[rules.top_k - 1].value] - next_best : std::numeric_limits<float>::infinity();

  const double best = logits[ids[0].value];
  double sum = 0;
  if (rules.renormalise) {
    for (const ExpertId id : ids) sum += std::exp(logits[id.value] - best);  // >= 1: the best expert's own term
  } else {
    for (const float logit : logits) sum += std::exp(logit - best);
  }
  for (std::uint32_t rank = 0; rank < rules.top_k; ++rank)
    weights[rank] = static_cast<float>(std::exp(logits[ids[rank].value] - best) / sum * rules.scale);
  return true;
}

/// Routes n tokens from logits [n_tokens, n_experts]. Returns the first token whose logits are not finite, if any.
inline std::optional<std::uint32_t> route(const RouterRules& rules, const float* logits, std::uint32_t n_tokens, Routing& routing) {
  routing.resize(n_tokens, rules.top_k);
  for (std::uint32_t t = 0; t < n_tokens; ++t) {
    const std::size_t at = std::size_t{t} * rules.top_k;
    if (!route_token(rules, {logits + std::size_t{t} * rules.n_experts, rules.n_experts}, {routing.ids.data() + at, rules.top_k},
                     {routing.weights.data() + at, rules.top_k}, routing.gaps[t]))
      return t;
  }
  return std::nullopt;
}

/// The same choice seen from the experts: each touched expert once, in order of first use (token by token, rank by
/// rank: the order in which the cache is asked), with the (token, rank) pairs it serves.
class ExpertBatches {
 public:
  /// One use of an expert; `row` = token * top_k + rank is also where its output goes.
  struct Use {
    std::uint32_t token;
    std::uint32_t row;
  };

  void group(const Routing& routing, std::uint32_t n_experts) {
    counts_.assign(n_experts + 1, 0);
    experts_.clear();
    for (const ExpertId id : routing.ids)
      if (counts_[id.value + 1]++ == 0) experts_.push_back(id);
    for (std::uint32_t e = 0; e < n_experts; ++e) counts_[e + 1] += counts_[e];
    uses_.resize(routing.ids.size());
    cursor_.assign(counts_.begin(), counts_.end() - 1);
    for (std::uint32_t row = 0; row < routing.ids.size(); ++row)
      uses_[cursor_[routing.ids[row].value]++] = {row / routing.top_k, row};
  }

  std::span<const ExpertId> experts() const { return experts_; }
  std::span<ExpertId> experts() { return experts_; }  // may be reordered: uses are found by id
  std::span<const Use> uses_of(ExpertId e) const { return {uses_.data() + counts_[e.value], counts_[e.value + 1] - counts_[e.value]}; }

 private:
  std::vector<std::uint32_t> counts_, cursor_;
  std::vector<ExpertId> experts_;
  std::vector<Use> uses_;
};

}  // namespace coli
