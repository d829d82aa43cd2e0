// SPDX-License-Identifier: Apache-2.0
// What must an eviction policy provide? Observe fills, hits and erasures; name a victim when asked.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "coli/contracts/names_itself.hpp"
#include "coli/core/ids.hpp"

namespace coli {

/// What a policy may know about the geometry when it is made. No clock, no lock, no I/O: a policy is a pure
/// function of the calls it sees, so that a replay decides exactly as the engine did.
struct EvictionShape {
  std::uint32_t slots;    // capacity of this size class
  std::uint32_t layers;   // one past the highest LayerId that a key may carry
  std::uint32_t experts;  // per layer
  std::uint32_t top_k;
  std::uint32_t cycle = 0;  // slots that one token touches in this size class: its layers x top_k
};

/// Asked by a policy about one slot: may it go? False for leased and in-flight slots.
struct Evictable {
  const std::uint8_t* pinned;  // [slots], non-zero: keep
  bool operator()(SlotId slot) const noexcept { return pinned[slot.value] == 0; }
};

template <class P>
concept ObservesFill = requires(P p, SlotId s, ExpertKey k) {
  { p.on_fill(s, k) } noexcept -> std::same_as<void>;
};
template <class P>
concept ObservesHit = requires(P p, SlotId s, ExpertKey k) {
  { p.on_hit(s, k) } noexcept -> std::same_as<void>;
};
template <class P>
concept ObservesErase = requires(P p, SlotId s, ExpertKey k) {
  { p.on_erase(s, k) } noexcept -> std::same_as<void>;  // evicted, or its read failed
};
template <class P>
concept ChoosesVictim = requires(P p, const Evictable& may_go, ExpertKey incoming) {
  { p.victim(may_go, incoming) } noexcept -> std::same_as<std::optional<SlotId>>;
};
template <class P>
concept Resets = requires(P p) {
  { p.reset() } noexcept -> std::same_as<void>;
};
/// Optional: told once per token (decode) or chunk (prefill), before its first layer.
template <class P>
concept ObservesTick = requires(P p) {
  { p.on_tick() } noexcept -> std::same_as<void>;
};

/// Laws (check_eviction_laws<P>()): never names a slot that may not go; names one whenever one may; deterministic;
/// misses >= Belady's; works for 0, 1, 2 and top_k slots.
/// A slot is filled at the moment that a miss is given it, in the order of the group, not when its bytes arrive: so
/// decisions don't depend on I/O order. Until its lease ends it is pinned.
template <class P>
concept EvictionPolicy = NamesItself<P> && std::constructible_from<P, EvictionShape> && ObservesFill<P> &&
                         ObservesHit<P> && ObservesErase<P> && ChoosesVictim<P> && Resets<P>;

/// Optional: several policies in one type, of which a name chooses when it is made (cache/eviction/one_of.hpp).
template <class P>
concept ChosenByName = EvictionPolicy<P> && std::constructible_from<P, EvictionShape, std::string_view> && requires(const P p) {
  { P::names() } -> std::same_as<std::span<const std::string_view>>;  // the first is what runs where none is asked for
  { p.chosen() } noexcept -> std::same_as<std::string_view>;
};

template <class P>
consteval bool require_eviction_policy() {
  static_assert(NamesItself<P>, "EvictionPolicy: add  static constexpr FixedName name{\"...\"}");
  static_assert(std::constructible_from<P, EvictionShape>, "EvictionPolicy: add a constructor from EvictionShape");
  static_assert(ObservesFill<P>, "EvictionPolicy: add  void on_fill(SlotId, ExpertKey) noexcept");
  static_assert(ObservesHit<P>, "EvictionPolicy: add  void on_hit(SlotId, ExpertKey) noexcept");
  static_assert(ObservesErase<P>, "EvictionPolicy: add  void on_erase(SlotId, ExpertKey) noexcept");
  static_assert(ChoosesVictim<P>, "EvictionPolicy: add  std::optional<SlotId> victim(const Evictable&, ExpertKey incoming) noexcept");
  static_assert(Resets<P>, "EvictionPolicy: add  void reset() noexcept");
  return true;
}

}  // namespace coli
