// SPDX-License-Identifier: Apache-2.0
// A name known at compile time: policies, formats and profiles carry one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace coli {

/// A string usable as a template argument and a constexpr member; accepted by g++, clang and nvcc.
template <std::size_t N>
struct FixedName {
  char text[N]{};
  constexpr FixedName() = default;
  constexpr FixedName(const char (&literal)[N]) { std::copy_n(literal, N, text); }
  constexpr std::string_view view() const noexcept { return {text, N - 1}; }
  constexpr operator std::string_view() const noexcept { return view(); }
};

template <std::size_t N, std::size_t M>
constexpr FixedName<N + M - 1> operator+(const FixedName<N>& front, const FixedName<M>& back) {
  FixedName<N + M - 1> both;
  std::copy_n(front.text, N - 1, both.text);
  std::copy_n(back.text, M, both.text + N - 1);
  return both;
}

}  // namespace coli
