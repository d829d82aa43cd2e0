// SPDX-License-Identifier: Apache-2.0
// What was a pass for: the prompt, the next token, or a guess at several?
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace coli {

enum class RoutePhase : std::uint8_t { prefill, decode, draft };
inline constexpr std::array<std::string_view, 3> kRoutePhaseNames{"prefill", "decode", "draft"};
inline constexpr std::string_view name_of(RoutePhase phase) noexcept { return kRoutePhaseNames[static_cast<std::size_t>(phase)]; }
inline std::optional<RoutePhase> parse_route_phase(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kRoutePhaseNames.size(); ++i)
    if (name == kRoutePhaseNames[i]) return static_cast<RoutePhase>(i);
  return std::nullopt;
}

}  // namespace coli
