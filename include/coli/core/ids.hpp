// SPDX-License-Identifier: Apache-2.0
// Which token, layer, expert or slot is meant? Strong ids, so that none is passed for another.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace coli {

/// An integer that says what it counts. Construction is explicit; ids of different tags don't mix.
template <class Tag, class Rep>
struct Id {
  using rep = Rep;
  Rep value{};

  constexpr Id() = default;
  constexpr explicit Id(Rep v) noexcept : value(v) {}
  friend constexpr auto operator<=>(Id, Id) = default;
};

using TokenId = Id<struct TokenTag, std::int32_t>;
using LayerId = Id<struct LayerTag, std::uint32_t>;
using ExpertId = Id<struct ExpertTag, std::uint32_t>;  // within its layer
using SlotId = Id<struct SlotTag, std::uint32_t>;      // a place in the expert cache
using Position = Id<struct PositionTag, std::uint32_t>;

/// One routed expert of the model.
struct ExpertKey {
  LayerId layer;
  ExpertId expert;
  friend constexpr auto operator<=>(const ExpertKey&, const ExpertKey&) = default;
};

}  // namespace coli

template <class Tag, class Rep>
struct std::hash<coli::Id<Tag, Rep>> {
  std::size_t operator()(coli::Id<Tag, Rep> id) const noexcept { return std::hash<Rep>{}(id.value); }
};
