// SPDX-License-Identifier: Apache-2.0
// Expected next use: the expert whose next use is expected to be farthest away, in layer-steps, goes first.
//
// The model: an expert comes up when its layer does. At the layer's next turn it is used with probability `soon`, which
// weighs what the last tokens chose; if it isn't, it takes 1 / `rate` more tokens on average, where `rate` looks further
// back. So the expected distance is (steps to its layer) + layers x (1 - soon) / rate. Both weigh three averages of past
// uses that fade at different speeds, kept for all experts; a term that falls with the time since the last use orders
// the rarely used as LRU would. Below one token cycle the steps to the layer decide, so experts just used go first and
// the others survive until their turn: no cliff.
// Fitted on the even tokens of three recorded routes, judged on the odd ones: see conformance/cache/replay_test.cpp.
//
// Integers, and float sums, products and quotients each rounded alone: every compiler picks the same victim. A victim
// costs one comparison a layer, and one an expert for each layer that changed; loops are plain so that they vectorise.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "coli/contracts/eviction_policy.hpp"
#include "coli/core/fixed_name.hpp"
#include "coli/core/ids.hpp"

namespace coli {

class ExpectedUse {
 public:
  static constexpr FixedName name{"expected-use"};

  explicit ExpectedUse(EvictionShape shape)
      : shape_(shape), layers_(shape.layers), best_(shape.layers), best_expert_(shape.layers), sums_(shape.layers) {
    const std::size_t n = std::size_t{shape.layers} * shape.experts;
    for (auto& average : average_) average.resize(n);
    last_use_.resize(n);
    slot_.resize(n);
    distance_.resize(n);
    for (std::uint32_t d = 0; d <= shape.layers; ++d) steps_.push_back(kStep * static_cast<float>(d));
    changed_.reserve(shape.layers);
    with_pinned_.reserve(shape.layers);
    reset();
  }

  void on_tick() noexcept { ++tick_; }

  void on_fill(SlotId slot, ExpertKey key) noexcept {
    slot_[index(key)] = slot.value;
    use(key);
    layers_[key.layer.value].filled_this_turn = true;
  }
  void on_hit(SlotId, ExpertKey key) noexcept {
    use(key);
    if (layers_[key.layer.value].filled_this_turn) one_by_one_ = true;
  }
  void on_erase(SlotId, ExpertKey key) noexcept {
    slot_[index(key)] = kNone;
    distance_[index(key)] = kNever;
    if (best_expert_[key.layer.value] == key.expert.value) forget_best(key.layer.value);
  }

  std::optional<SlotId> victim(const Evictable& may_go, ExpertKey incoming) noexcept {
    const std::uint32_t now = incoming.layer.value;
    begin_turn(now);
    if (now != asked_layer_ || tick_ != asked_tick_) {  // what was pinned when this was asked last may be free now
      for (const std::uint32_t layer : with_pinned_) forget_best(layer);
      with_pinned_.clear();
      asked_layer_ = now;
      asked_tick_ = tick_;
    }
    for (const std::uint32_t layer : changed_) find_best(layer, may_go);
    changed_.clear();
    for (bool thorough = false;;) {
      if (const auto layer = farthest_layer(now)) {
        const SlotId slot{slot_[std::size_t{*layer} * shape_.experts + best_expert_[*layer]]};
        if (may_go(slot)) return slot;
        find_best(*layer, may_go);
      } else {
        if (thorough) return std::nullopt;
        for (std::uint32_t l = 0; l < shape_.layers; ++l) find_best(l, may_go);
        thorough = true;
      }
    }
  }

  void reset() noexcept {
    const std::uint32_t prior = std::min(kOne * shape_.top_k / std::max(shape_.experts, 1U), kOne - 1);
    for (auto& average : average_) average.assign(average.size(), static_cast<std::uint16_t>(prior));
    last_use_.assign(last_use_.size(), 0);
    slot_.assign(slot_.size(), kNone);
    distance_.assign(distance_.size(), kNever);
    best_.assign(best_.size(), std::bit_cast<float>(kNever));
    best_expert_.assign(best_expert_.size(), kNone);
    layers_.assign(layers_.size(), Layer{});
    changed_.clear();
    with_pinned_.clear();
    asked_layer_ = kNone;
    tick_ = 0;
    one_by_one_ = false;
  }

 private:
  // Probabilities in 16 bits, weights in 8.
  static constexpr std::uint32_t kOne = 1U << 16;
  static constexpr std::array<std::uint32_t, 3> kKeep{24104, 59861, 62351};  // of an average, per token
  static constexpr std::array<std::uint32_t, 3> kSoon{258, 66, 299};
  static constexpr std::array<std::uint32_t, 3> kRate{0, 39, 217};
  static constexpr std::uint32_t kSoonMost = 63570;  // 0.97
  static constexpr std::uint32_t kRecency = 2737;    // 0.042, at once after a use,
  static constexpr std::uint32_t kHalving = 39;      // half of it after so many tokens
  static constexpr std::uint32_t kOldest = 1023;     // tokens; older is the same
  static constexpr float kStep = 2.2F;               // how much a layer-step counts
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  /// Distances are positive floats kept as the integers of the same bits, which have the same order.
  static constexpr std::int32_t kNever = std::bit_cast<std::int32_t>(-std::numeric_limits<float>::infinity());

  struct Layer {
    std::uint32_t turn = 0;    // tick of its last turn
    std::uint32_t n_uses = 0;  // in that turn
    bool filled_this_turn = false;
    bool rated = false;    // the residents' distances are those of now
    bool changed = false;  // stands in changed_
  };

  std::size_t index(ExpertKey key) const noexcept {
    return std::size_t{key.layer.value} * shape_.experts + key.expert.value;
  }

  /// The layer's first event in this pass: one more token has gone by for all of its experts.
  void begin_turn(std::uint32_t l) noexcept {
    Layer& layer = layers_[l];
    if (layer.turn == tick_) return;
    layer.turn = tick_;
    layer.n_uses = 0;
    layer.filled_this_turn = layer.rated = false;
    for (std::size_t i = 0; i < average_.size(); ++i) {
      std::uint16_t* const average = average_[i].data() + std::size_t{l} * shape_.experts;
      for (std::uint32_t e = 0; e < shape_.experts; ++e) {
        average[e] = static_cast<std::uint16_t>(std::uint32_t{average[e]} * kKeep[i] >> 16);
      }
    }
    forget_best(l);
  }

  void use(ExpertKey key) noexcept {
    const std::uint32_t l = key.layer.value;
    begin_turn(l);
    const std::size_t at = index(key);
    for (std::size_t i = 0; i < average_.size(); ++i) {
      average_[i][at] = static_cast<std::uint16_t>(std::min(average_[i][at] + kOne - kKeep[i], kOne - 1));
    }
    last_use_[at] = tick_;
    ++layers_[l].n_uses;
    if (!layers_[l].rated) return;
    rate(l, key.expert.value, key.expert.value + 1);  // nothing else in the layer has changed
    if (key.expert.value == best_expert_[l] || std::bit_cast<float>(distance_[at]) >= best_[l]) forget_best(l);
  }

  /// layers x (1 - soon) / (rate + recency / (1 + age / halving)), as one quotient of integers, where resident.
  void rate(std::uint32_t layer, std::uint32_t first, std::uint32_t end) noexcept {
    const std::size_t base = std::size_t{layer} * shape_.experts;
    const std::uint16_t* const a = average_[0].data() + base;
    const std::uint16_t* const b = average_[1].data() + base;
    const std::uint16_t* const c = average_[2].data() + base;
    const std::uint32_t* const last_use = last_use_.data() + base;
    const std::uint32_t* const slot = slot_.data() + base;
    std::int32_t* const distance = distance_.data() + base;
    const std::uint32_t now = layers_[layer].turn;
    const auto layers = static_cast<float>(shape_.layers);
    for (std::uint32_t e = first; e < end; ++e) {
      const std::uint32_t age = kHalving + std::min(now - last_use[e], kOldest);
      const std::uint32_t soon = (a[e] * kSoon[0] + b[e] * kSoon[1] + c[e] * kSoon[2]) >> 8;
      const std::uint32_t rate = (a[e] * kRate[0] + b[e] * kRate[1] + c[e] * kRate[2]) >> 8;
      const auto unlikely = static_cast<std::int32_t>((kOne - std::min(soon, kSoonMost)) * age);
      const auto likely = static_cast<std::int32_t>(rate * age + kRecency * kHalving);
      const float steps = static_cast<float>(unlikely) / static_cast<float>(likely) * layers;
      distance[e] = slot[e] == kNone ? kNever : std::bit_cast<std::int32_t>(steps);
    }
  }

  void forget_best(std::uint32_t layer) noexcept {
    best_[layer] = std::bit_cast<float>(kNever);
    best_expert_[layer] = kNone;
    if (!layers_[layer].changed) changed_.push_back(layer);
    layers_[layer].changed = true;
  }
  /// The layer's farthest resident that may go; of equals the lowest.
  void find_best(std::uint32_t l, const Evictable& may_go) noexcept {
    Layer& layer = layers_[l];
    layer.changed = false;
    if (!layer.rated) rate(l, 0, shape_.experts);
    layer.rated = true;
    const std::int32_t* const distance = distance_.data() + std::size_t{l} * shape_.experts;
    const std::uint32_t* const slot = slot_.data() + std::size_t{l} * shape_.experts;
    std::int32_t best = kNever;
    for (std::uint32_t e = 0; e < shape_.experts; ++e) best = std::max(best, distance[e]);
    std::uint32_t expert = 0;
    while (expert < shape_.experts && distance[expert] != best) ++expert;
    if (best != kNever && !may_go(SlotId{slot[expert]})) {
      best = kNever;
      for (std::uint32_t e = 0; e < shape_.experts; ++e) {
        if (distance[e] <= best || !may_go(SlotId{slot[e]})) continue;
        best = distance[e];
        expert = e;
      }
      with_pinned_.push_back(l);
    }
    best_[l] = std::bit_cast<float>(best);
    best_expert_[l] = best == kNever ? kNone : expert;
  }

  /// The layer whose best is farthest, seen from layer `now`; of equals the one that comes first.
  std::optional<std::uint32_t> farthest_layer(std::uint32_t now) noexcept {
    // In a group all hits come before the first victim is asked for: what isn't used by then comes up in a full round.
    // Where experts are asked for one by one, the others of this turn may still be among the residents.
    const bool turn_goes_on = one_by_one_ && layers_[now].n_uses < shape_.top_k;
    const std::uint32_t n = shape_.layers;
    for (std::uint32_t l = 0; l < now; ++l) sums_[l] = std::bit_cast<std::int32_t>(steps_[n - now + l] + best_[l]);
    for (std::uint32_t l = now; l < n; ++l) sums_[l] = std::bit_cast<std::int32_t>(steps_[l - now] + best_[l]);
    if (!turn_goes_on) sums_[now] = std::bit_cast<std::int32_t>(steps_[n] + best_[now]);
    std::int32_t farthest = kNever;
    for (std::uint32_t l = 0; l < n; ++l) farthest = std::max(farthest, sums_[l]);
    if (farthest == kNever) return std::nullopt;
    std::uint32_t layer = 0;
    while (sums_[layer] != farthest) ++layer;
    return layer;
  }

  EvictionShape shape_;
  std::uint32_t tick_ = 0;
  bool one_by_one_ = false;
  std::uint32_t asked_layer_ = kNone;
  std::uint32_t asked_tick_ = 0;
  // By layer.
  std::vector<Layer> layers_;
  std::vector<float> best_;  // distance of its farthest resident that may go
  std::vector<std::uint32_t> best_expert_;
  std::vector<std::int32_t> sums_;
  std::vector<std::uint32_t> changed_;      // layers whose best must be found anew
  std::vector<std::uint32_t> with_pinned_;  // layers where a pinned slot was passed over
  std::vector<float> steps_;                // by layer-steps ahead
  // By layer and expert.
  std::array<std::vector<std::uint16_t>, 3> average_;
  std::vector<std::uint32_t> last_use_;  // tick
  std::vector<std::uint32_t> slot_;
  std::vector<std::int32_t> distance_;  // without the steps to the layer; kNever where not resident
};

static_assert(require_eviction_policy<ExpectedUse>() && ObservesTick<ExpectedUse>);

}  // namespace coli
