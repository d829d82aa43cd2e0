// SPDX-License-Identifier: Apache-2.0
// Every policy carries its name at compile time.
#pragma once

#include <concepts>
#include <string_view>

namespace coli {

template <class P>
concept NamesItself = requires {
  { P::name.view() } noexcept -> std::same_as<std::string_view>;
};

}  // namespace coli
