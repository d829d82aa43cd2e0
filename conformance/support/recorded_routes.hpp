// SPDX-License-Identifier: Apache-2.0
// The recorded routes that come as CSV, as traces. Tests and benchmarks only: the project's own format is elsewhere.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "coli/cache/access_trace.hpp"

namespace coli::test {

/// The trace in `path`; nothing where it can't be read. The prompt's rows of one layer are one lease group, each decoded
/// token's row is its own.
inline std::optional<AccessTrace> read_recorded_route(const std::string& path) {
  std::ifstream file(path);
  std::optional<AccessTrace> trace;
  std::map<std::tuple<int, std::uint32_t, std::uint32_t>, std::vector<ExpertId>> rows;
  const auto number = [](const std::string& line, const char* key) {
    return static_cast<std::uint32_t>(
        std::strtoul(line.c_str() + line.find(key) + std::string(key).size(), nullptr, 10));
  };
  for (std::string line; std::getline(file, line);) {
    if (line.find("n_layer=") != std::string::npos) {
      trace.emplace(number(line, "n_layer="), number(line, "n_expert="), number(line, "n_expert_used="));
    }
    unsigned turn = 0, step = 0, layer = 0, slot = 0, expert = 0;
    int phase = 0;
    if (std::sscanf(line.c_str(), "%u,%d,%u,%u,%u,%u", &turn, &phase, &step, &layer, &slot, &expert) != 6) continue;
    rows[{phase, step, layer}].push_back(ExpertId{expert});
  }
  if (!trace) return std::nullopt;
  // The prompt ran as one batch: layer by layer.
  std::map<std::tuple<int, std::uint32_t, std::uint32_t>, const std::vector<ExpertId>*> recorded;
  for (const auto& [key, experts] : rows) {
    const auto& [phase, step, layer] = key;
    recorded[phase == 0 ? std::tuple(phase, layer, step) : key] = &experts;
  }
  for (const auto& [key, experts] : recorded) {
    const auto& [phase, a, b] = key;
    const std::uint32_t token = phase == 0 ? b : a;
    const std::uint32_t layer = phase == 0 ? a : b;
    trace->add(LayerId{layer}, token, phase == 0 ? layer : (token + 1) * trace->n_layers() + layer,
               phase == 0 ? Phase::prefill : Phase::decode, *experts);
  }
  return trace;
}

/// `name`.route.csv of COLI_ROUTES_DIR, or nothing (and a line that says so) where the folder isn't given.
inline std::optional<AccessTrace> recorded_route(const std::string& name) {
  const std::string folder = COLI_ROUTES_DIR;
  auto trace = folder.empty() ? std::nullopt : read_recorded_route(folder + "/" + name + ".route.csv");
  if (!trace) std::printf("SKIP: no recorded routes (COLI_ROUTES_DIR)\n");
  return trace;
}

}  // namespace coli::test
