// SPDX-License-Identifier: Apache-2.0
// Is this file one shard of a split set, and what are the others called?
//
// Shards are `PREFIX-%05d-of-%05d.gguf`, numbered from 1 in names and from 0 in `split.no`. Each has its own data
// section; `split.tensors.count` is the total over the set; metadata other than split keys stands in the first only.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "coli/core/error.hpp"
#include "coli/gguf/metadata.hpp"
#include "coli/gguf/printable.hpp"

namespace coli::gguf {

inline constexpr std::string_view kSplitCount = "split.count";
inline constexpr std::string_view kSplitNumber = "split.no";
inline constexpr std::string_view kSplitTensors = "split.tensors.count";

/// A shard's place as its name tells it.
struct SplitName {
  std::string prefix;        // with folder, up to and without "-%05d-of-"
  std::uint32_t number = 0;  // from 1, as written
  std::uint32_t count = 0;

  /// The path of shard `number` (from 1).
  std::string path(std::uint32_t wanted) const {
    const auto five = [](std::uint32_t value) {
      const std::string digits = std::to_string(value);
      return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
    };
    return prefix + "-" + five(wanted) + "-of-" + five(count) + ".gguf";
  }
};

/// Takes a canonical shard name apart; nothing for other names. The numbers may still be nonsense (0, above count).
inline std::optional<SplitName> parse_split_name(std::string_view path) {
  constexpr std::string_view suffix = ".gguf";
  constexpr std::string_view of = "-of-";
  constexpr std::size_t digits = 5;
  constexpr std::size_t tail = 1 + digits + of.size() + digits + suffix.size();
  if (path.size() < tail || !path.ends_with(suffix)) return std::nullopt;
  const std::string_view end = path.substr(path.size() - tail);
  if (end[0] != '-' || end.substr(1 + digits, of.size()) != of) return std::nullopt;
  const auto number_at = [&](std::size_t at) -> std::optional<std::uint32_t> {
    std::uint32_t value = 0;
    const char* begin = end.data() + at;
    const auto [rest, error] = std::from_chars(begin, begin + digits, value);
    if (error != std::errc{} || rest != begin + digits) return std::nullopt;
    return value;
  };
  const auto number = number_at(1);
  const auto count = number_at(1 + digits + of.size());
  if (!number || !count) return std::nullopt;
  return SplitName{std::string(path.substr(0, path.size() - tail)), *number, *count};
}

/// A shard's place as its metadata tells it.
struct SplitKeys {
  std::uint32_t count = 0;              // 0 and 1: not split (merged files keep a count of 0)
  std::optional<std::uint32_t> number;  // from 0
  std::optional<std::uint64_t> n_tensors;

  bool split() const noexcept { return count > 1; }
};

/// Errors: bad_input, for split keys of other types or without their partners.
inline Result<SplitKeys> read_split_keys(const Metadata& metadata) {
  SplitKeys keys;
  COLI_TRY(count, metadata.get_or<std::uint32_t>(kSplitCount, 0));
  COLI_TRY(number, metadata.find<std::uint32_t>(kSplitNumber));
  COLI_TRY(n_tensors, metadata.find<std::uint64_t>(kSplitTensors));
  keys.count = count;
  keys.number = number;
  keys.n_tensors = n_tensors;
  if (!keys.split()) return keys;
  constexpr std::uint32_t most = 99999;  // five digits
  if (count > most)
    return metadata.error_at(kSplitCount, std::to_string(count) + " shards cannot be named with five digits");
  COLI_TRY(required_number, metadata.get<std::uint32_t>(kSplitNumber));
  if (required_number >= count)
    return metadata.error_at(kSplitNumber,
                             std::to_string(required_number) + " is not below split.count " + std::to_string(count));
  return keys;
}

}  // namespace coli::gguf
