// SPDX-License-Identifier: Apache-2.0
// Every decision of the cache and nothing else: who hits, who is evicted for whom, what is pinned. No bytes, no I/O.
//
// The engine's cache and the replay of a trace both drive this class, so their counts are equal by construction.
// A group is acquired as one: all hits are pinned first, so that no miss can evict one; then each miss gets a slot and
// counts as filled at once. Both go by ascending expert id, whatever order the group is in. Decisions depend on the
// sequence of groups only, never on I/O order, as long as no slot is given to what nobody asked for (place_free).
// Not thread-safe: the owner locks. Nothing is allocated after construction.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "coli/cache/cache_stats.hpp"
#include "coli/cache/geometry.hpp"
#include "coli/cache/residency.hpp"
#include "coli/cache/slot_plan.hpp"
#include "coli/contracts/eviction_policy.hpp"
#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"

namespace coli {

/// An acquired expert's place. The slot is pinned until it is released.
struct SlotGrant {
  SlotId slot{};
  bool hit = false;
};

template <EvictionPolicy E>
class CacheCore {
  static_assert(require_eviction_policy<E>());

 public:
  /// `make_policy(EvictionShape, size_class)` makes the policy of each class.
  template <class MakePolicy>
  CacheCore(const CacheGeometry& geometry, const SlotPlan& plan, MakePolicy&& make_policy)
      : geometry_(geometry),
        residency_(geometry.n_layers(), geometry.n_experts(), plan.slots),
        layer_stats_(geometry.n_layers()) {
    for (std::uint32_t c = 0; c < plan.slots.size(); ++c) {
      const EvictionShape shape{plan.slots[c], geometry.n_layers(), geometry.n_experts(), geometry.top_k(),
                                geometry.classes()[c].n_layers * geometry.top_k()};
      classes_.push_back(Class{make_policy(shape, c), std::vector<std::uint8_t>(plan.slots[c], 0), {}, 0});
      classes_.back().free.reserve(plan.slots[c]);
      fill_free_list(classes_.back());
    }
  }
  CacheCore(const CacheGeometry& geometry, const SlotPlan& plan)
      : CacheCore(geometry, plan, [](EvictionShape shape, std::uint32_t) { return E(shape); }) {}

  /// The largest group that can be acquired while nothing else is.
  std::uint32_t max_group(LayerId layer) const noexcept {
    return static_cast<std::uint32_t>(classes_[geometry_.class_of(layer)].pinned.size());
  }

  /// Pins the distinct experts of one layer, `grants[i]` for `experts[i]`. All or nothing. Errors: usage, where the
  /// group has more experts than there are slots that aren't pinned by others; internal, where there is no such expert.
  Result<void> acquire(LayerId layer, std::span<const ExpertId> experts, std::span<SlotGrant> grants) {
    if (!geometry_.has_experts(layer)) {
      return Error{Errc::internal, "layer " + std::to_string(layer.value) + " has no experts"};
    }
    for (const ExpertId expert : experts) {
      if (expert.value >= geometry_.n_experts()) {
        return Error{Errc::internal,
                     "layer " + std::to_string(layer.value) + " has no expert " + std::to_string(expert.value)};
      }
    }
    Class& size_class = classes_[geometry_.class_of(layer)];
    std::size_t n_hits = 0;
    std::size_t n_newly_pinned = 0;
    for (std::size_t i = 0; i < experts.size(); ++i) {
      const auto slot = residency_.slot_of({layer, experts[i]});
      grants[i] = {slot.value_or(SlotId{}), slot.has_value()};
      if (!slot) continue;
      ++n_hits;
      if (size_class.pinned[slot->value] == 0) ++n_newly_pinned;
      if (size_class.pinned[slot->value] == kMaxPins)
        return Error{Errc::usage, "an expert is leased too often at once"};
    }
    const std::size_t n_misses = experts.size() - n_hits;
    if (const std::size_t n_slots = size_class.pinned.size();
        n_misses > n_slots - size_class.n_pinned - n_newly_pinned) {
      return Error{Errc::usage, "layer " + std::to_string(layer.value) + ": a group of " +
                                    std::to_string(experts.size()) + " experts doesn't fit " + std::to_string(n_slots) +
                                    " slots, " + std::to_string(size_class.n_pinned) + " of them in use"};
    }
    start_pass(layer);
    const std::span<const std::uint32_t> order = ascending(experts);
    for (const std::uint32_t i : order) {
      if (!grants[i].hit) continue;
      pin(size_class, grants[i].slot);
      size_class.policy.on_hit(grants[i].slot, {layer, experts[i]});
    }
    for (const std::uint32_t i : order) {
      if (grants[i].hit) continue;
      const ExpertKey key{layer, experts[i]};
      if (const auto twin = residency_.slot_of(key)) {  // named twice in the group, against the rules
        grants[i].slot = *twin;
        pin(size_class, *twin);
        continue;
      }
      grants[i].slot = fill_slot(geometry_.class_of(layer), key);
    }
    layer_stats_[layer.value].hits += n_hits;
    layer_stats_[layer.value].misses += n_misses;
    return {};
  }

  /// Gives an expert that is not resident a free slot and pins it, though nobody asks for it: evicts nothing, counts
  /// nothing. Nothing: no slot is free.
  std::optional<SlotId> place_free(ExpertKey key) {
    const std::uint32_t c = geometry_.class_of(key.layer);
    if (classes_[c].free.empty()) return std::nullopt;
    return fill_slot(c, key);
  }

  /// Puts into front what a batch of distinct experts should lease next, and says how many: residents first, so that
  /// they are used before the batch's own misses can evict them; else in the order given.
  std::size_t next_wave(LayerId layer, std::span<ExpertId> rest) const {
    const std::size_t n = std::min<std::size_t>(rest.size(), max_group(layer));
    if (n < rest.size()) {
      std::stable_partition(rest.begin(), rest.end(), [&](ExpertId expert) { return resident({layer, expert}); });
    }
    return n;
  }

  /// Undoes one pin of acquire.
  void release(LayerId layer, SlotId slot) noexcept {
    const std::uint32_t c = geometry_.class_of(layer);
    Class& size_class = classes_[c];
    if (--size_class.pinned[slot.value] != 0) return;
    --size_class.n_pinned;
    if (!residency_.key_of(c, slot)) size_class.free.push_back(slot);
  }

  /// The slot's bytes never came: its expert is no longer resident, and the slot is free once its pins are gone.
  void abandon(LayerId layer, SlotId slot) noexcept {
    const std::uint32_t c = geometry_.class_of(layer);
    const auto key = residency_.key_of(c, slot);
    if (!key) return;
    classes_[c].policy.on_erase(slot, *key);
    residency_.remove(c, slot);
    if (classes_[c].pinned[slot.value] == 0) classes_[c].free.push_back(slot);
  }

  std::size_t free_slots(std::uint32_t size_class) const noexcept { return classes_[size_class].free.size(); }
  bool resident(ExpertKey key) const noexcept { return residency_.slot_of(key).has_value(); }
  std::optional<SlotId> slot_of(ExpertKey key) const noexcept { return residency_.slot_of(key); }
  const CacheGeometry& geometry() const noexcept { return geometry_; }
  const E& policy(std::uint32_t size_class) const noexcept { return classes_[size_class].policy; }

  /// Hits and misses by LayerId.
  std::span<const LayerStats> layer_stats() const noexcept { return layer_stats_; }
  /// For experts that need no slot: the whole model is mapped.
  void count_hits(LayerId layer, std::uint64_t n) noexcept { layer_stats_[layer.value].hits += n; }
  void reset_stats() noexcept { layer_stats_.assign(layer_stats_.size(), LayerStats{}); }

 private:
  static constexpr std::uint8_t kMaxPins = 255;
  static constexpr std::size_t kFew = 16;
  struct Class {
    E policy;
    std::vector<std::uint8_t> pinned;  // by slot: how many leases hold it
    std::vector<SlotId> free;
    std::uint32_t n_pinned;
  };

  static void fill_free_list(Class& size_class) {
    for (auto i = static_cast<std::uint32_t>(size_class.pinned.size()); i-- > 0;) size_class.free.push_back(SlotId{i});
  }
  static void pin(Class& size_class, SlotId slot) noexcept {
    if (size_class.pinned[slot.value]++ == 0) ++size_class.n_pinned;
  }

  /// The group's members by expert id.
  std::span<const std::uint32_t> ascending(std::span<const ExpertId> experts) {
    order_.resize(experts.size());
    if (experts.size() <= kFew) {  // by counting who comes before: no branch that depends on the ids
      for (std::uint32_t i = 0; i < experts.size(); ++i) {
        std::uint32_t n_before = 0;
        for (std::uint32_t j = 0; j < experts.size(); ++j) n_before += static_cast<std::uint32_t>(j < i ? experts[j] <= experts[i] : experts[j] < experts[i]);
        order_[n_before] = i;
      }
      return order_;
    }
    for (std::uint32_t i = 0; i < order_.size(); ++i) order_[i] = i;
    std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) { return experts[a] < experts[b]; });
    return order_;
  }

  /// Places and pins. The caller has checked that there is a slot to be had.
  SlotId fill_slot(std::uint32_t c, ExpertKey key) {
    const SlotId slot = take_slot(classes_[c], key);
    pin(classes_[c], slot);
    residency_.place(c, slot, key);
    classes_[c].policy.on_fill(slot, key);
    return slot;
  }

  /// A free slot, else the policy's victim.
  SlotId take_slot(Class& size_class, ExpertKey incoming) noexcept {
    if (!size_class.free.empty()) {
      const SlotId slot = size_class.free.back();
      size_class.free.pop_back();
      return slot;
    }
    const Evictable may_go{size_class.pinned.data()};
    std::optional<SlotId> victim = size_class.policy.victim(may_go, incoming);
    if (!victim || victim->value >= size_class.pinned.size() || !may_go(*victim)) {  // it must not break a lease
      for (std::uint32_t i = 0; i < size_class.pinned.size(); ++i) {
        if (size_class.pinned[i] == 0) victim = SlotId{i};
      }
    }
    const std::uint32_t c = geometry_.class_of(incoming.layer);
    size_class.policy.on_erase(*victim, *residency_.key_of(c, *victim));
    residency_.remove(c, *victim);
    return *victim;
  }

  /// A pass over the layers (a token, a chunk) has begun when the layer is not above the one before. Waves of one layer
  /// are one pass, unless there is only one layer.
  void start_pass(LayerId layer) noexcept {
    const bool single = classes_.size() == 1 && geometry_.classes()[0].n_layers == 1;
    if (!last_layer_ || layer < *last_layer_ || (single && layer == *last_layer_)) {
      if constexpr (ObservesTick<E>) {
        for (Class& size_class : classes_) size_class.policy.on_tick();
      }
    }
    last_layer_ = layer;
  }

  CacheGeometry geometry_;
  ResidencyTable residency_;
  std::vector<Class> classes_;
  std::vector<LayerStats> layer_stats_;
  std::optional<LayerId> last_layer_;
  std::vector<std::uint32_t> order_;
};

}  // namespace coli
