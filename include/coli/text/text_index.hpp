// SPDX-License-Identifier: Apache-2.0
// Which token has this text? A flat hash index over texts that others hold; no allocation to look up.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "coli/text/pair_map.hpp"

namespace coli {

/// Maps texts to numbers. `Texts` is anything that gives a std::string_view for [number]; it is passed to each call.
class TextIndex {
 public:
  TextIndex() = default;
  explicit TextIndex(std::size_t n_texts) : slots_(std::bit_ceil(n_texts * 2 + 2), Slot{kEmpty, 0}) {}

  /// Adds texts[number], unless an equal text is in already. At most n_texts may be added.
  template <class Texts>
  Inserted insert(const Texts& texts, std::uint32_t number) {
    const std::string_view text = texts[number];
    const std::uint64_t hashed = hash(text);
    std::size_t at = home(hashed);
    for (std::size_t probe = 0; probe < kMaxProbes; ++probe, at = next(at)) {
      if (slots_[at].number == kEmpty) {
        slots_[at] = {number, tag(hashed)};
        return Inserted::fresh;
      }
      if (slots_[at].tag == tag(hashed) && texts[slots_[at].number] == text) return Inserted::repeated;
    }
    return Inserted::flooded;
  }

  template <class Texts>
  std::optional<std::uint32_t> find(const Texts& texts, std::string_view text) const {
    if (slots_.empty()) return std::nullopt;
    const std::uint64_t hashed = hash(text);
    for (std::size_t at = home(hashed); slots_[at].number != kEmpty; at = next(at)) {
      if (slots_[at].tag == tag(hashed) && texts[slots_[at].number] == text) return slots_[at].number;
    }
    return std::nullopt;
  }

  std::size_t bytes() const noexcept { return slots_.size() * sizeof(Slot); }

 private:
  static constexpr std::uint32_t kEmpty = 0xFFFFFFFFu;
  struct Slot {
    std::uint32_t number;
    std::uint32_t tag;  // the hash's upper half: most unequal texts are told apart without reading them
  };
  static constexpr std::uint32_t tag(std::uint64_t hashed) noexcept { return static_cast<std::uint32_t>(hashed >> 32); }
  std::size_t next(std::size_t at) const noexcept { return (at + 1) & (slots_.size() - 1); }
  std::size_t home(std::uint64_t hashed) const noexcept { return static_cast<std::size_t>(hashed) & (slots_.size() - 1); }

  static std::uint64_t mix(std::uint64_t x) noexcept {
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
    return x ^ x >> 32;
  }
  static std::uint64_t hash(std::string_view text) noexcept {
    std::uint64_t state = 0x9E3779B97F4A7C15u ^ text.size();
    while (!text.empty()) {
      std::uint64_t word = 0;
      const std::size_t n = text.size() < sizeof word ? text.size() : sizeof word;
      std::memcpy(&word, text.data(), n);
      state = mix(state + word) * 0x9FB21C651E98DF25u;
      text.remove_prefix(n);
    }
    return mix(state);
  }
  std::vector<Slot> slots_;
};

}  // namespace coli
