// SPDX-License-Identifier: Apache-2.0
// What does an experiment vary, and how is it run? One variable, two values; everything else is the same command.
//
//   {"schema": "coli.experiment/1", "name": "...", "hypothesis": "...",
//    "command": ["run", "MODEL.gguf", "--tokens", "1,2,3", "-n", "64", "--temp", "0", "--ignore-eos"],
//    "variable": {"option": "--evict", "baseline": "lru", "candidate": "expected-use"},
//    "metric": "decode_tps", "direction": "higher", "n": 5, "warmup": 1, "cache": "cold", "memory_limit": "4G" or null,
//    "quality": "logits_hash"}
// An option's value is text; true puts the bare option (a flag), false or null leaves it out.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coli/core/bytes.hpp"
#include "coli/core/error.hpp"

namespace coli {

inline constexpr std::array<std::string_view, 2> kArmNames{"baseline", "candidate"};

/// The kernel keeps whole pages: what is in force may be a little below what was asked for.
inline bool is_limit_in_force(Bytes asked, std::uint64_t in_force) { return in_force <= asked.value && asked.value - in_force < 64 * kKiB; }

struct Manifest {
  using Json = nlohmann::ordered_json;
  static constexpr std::uint32_t kMostRuns = 1000;

  std::string name, hypothesis;
  std::vector<std::string> command;
  std::string option;
  std::array<Json, 2> values;  // by arm
  std::string metric, quality;
  bool higher = true;
  std::uint32_t n = 0, warmup = 0;
  bool cold = false;
  std::optional<Bytes> memory_limit;

  bool identical() const { return values[0] == values[1]; }

  /// What an arm runs: the command, and the variable.
  std::vector<std::string> command_of(std::size_t arm) const {
    std::vector<std::string> words = command;
    const Json& value = values[arm];
    if (value.is_null() || value == false) return words;
    words.push_back(option);
    if (value.is_string()) words.push_back(value.get<std::string>());
    else if (value.is_number()) words.push_back(value.dump());
    return words;
  }

  /// The order of the measured runs, ABBA ABBA ...: drift over time hits both arms alike.
  std::vector<std::size_t> order() const {
    std::vector<std::size_t> arms;
    for (std::uint32_t i = 0; i < n; ++i) {
      arms.push_back(i % 2);
      arms.push_back(1 - i % 2);
    }
    return arms;
  }

  /// Errors: bad_input, naming the field.
  static Result<Manifest> from_json(const Json& json) {
    const auto bad = [](std::string field, std::string why) { return Error{Errc::bad_input, std::move(why), std::move(field)}; };
    if (!json.is_object()) return bad("", "is not a JSON object");
    constexpr std::array kFields{"schema", "name", "hypothesis", "command", "variable", "metric", "direction", "n", "warmup", "cache", "memory_limit", "quality"};
    for (const auto& [key, value] : json.items())
      if (std::find(kFields.begin(), kFields.end(), std::string_view(key)) == kFields.end()) return bad(key, "is no field of an experiment");
    for (const char* key : kFields)
      if (!json.contains(key)) return bad(key, "is missing");
    if (json["schema"] != "coli.experiment/1") return bad("schema", "is not coli.experiment/1");
    Manifest m;
    for (const auto& [key, text] : {std::pair{"name", &m.name}, std::pair{"hypothesis", &m.hypothesis}, std::pair{"metric", &m.metric}, std::pair{"quality", &m.quality}}) {
      if (!json[key].is_string() || json[key].get_ref<const std::string&>().empty()) return bad(key, "is not a text");
      *text = json[key].get<std::string>();
    }
    if (!json["command"].is_array() || json["command"].empty()) return bad("command", "is not a list of words");
    for (const Json& word : json["command"]) {
      if (!word.is_string()) return bad("command", "holds something that is not a word");
      m.command.push_back(word.get<std::string>());
    }
    if (m.command.front() != "run") return bad("command", "is not a colidrv run");
    const Json& variable = json["variable"];
    if (!variable.is_object() || variable.size() != 3 || !variable.contains("option") || !variable["option"].is_string() || !variable.contains("baseline") || !variable.contains("candidate"))
      return bad("variable", "is not one option with a baseline and a candidate value");
    m.option = variable["option"].get<std::string>();
    if (!m.option.starts_with("--") || m.option.size() < 3) return bad("variable.option", "is not an option like --evict");
    for (const std::string& word : m.command)
      if (word == m.option || word.starts_with(m.option + "=")) return bad("variable.option", m.option + " stands in the command too: it would not be what varies");
    for (const char* fixed : {"--json", "--trace", "--quiet"})
      for (const std::string& word : m.command)
        if (word == fixed || m.option == fixed) return bad("command", std::string(fixed) + " belongs to whoever runs the experiment");
    for (std::size_t arm = 0; arm < 2; ++arm) {
      const Json& value = variable[std::string(kArmNames[arm])];
      if (!value.is_string() && !value.is_boolean() && !value.is_null() && !value.is_number()) return bad("variable." + std::string(kArmNames[arm]), "is not a value of an option");
      m.values[arm] = value;
    }
    if (json["direction"] != "higher" && json["direction"] != "lower") return bad("direction", "is neither higher nor lower");
    m.higher = json["direction"] == "higher";
    const auto number = [&](const char* key) -> std::optional<std::uint32_t> {
      if (!json[key].is_number_unsigned() || json[key].get<std::uint64_t>() > kMostRuns) return std::nullopt;
      return json[key].get<std::uint32_t>();
    };
    const auto n = number("n"), warmup = number("warmup");
    if (!n || *n == 0) return bad("n", "is not a number of runs");
    if (!warmup) return bad("warmup", "is not a number of runs");
    m.n = *n, m.warmup = *warmup;
    if (json["cache"] != "cold" && json["cache"] != "warm") return bad("cache", "is neither cold nor warm");
    m.cold = json["cache"] == "cold";
    if (const Json& limit = json["memory_limit"]; !limit.is_null()) {
      m.memory_limit = limit.is_string() ? parse_bytes(limit.get<std::string>()) : limit.is_number_unsigned() ? std::optional(Bytes{limit.get<std::uint64_t>()}) : std::nullopt;
      if (!m.memory_limit || m.memory_limit->value == 0) return bad("memory_limit", "is not a size");
    }
    if (m.quality != "logits_hash") return bad("quality", "is not logits_hash, the one gate there is");
    return m;
  }
};

}  // namespace coli
