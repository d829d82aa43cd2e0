// SPDX-License-Identifier: Apache-2.0
// What must these decisions be, for this model, on this profile and instruction set? A snapshot file, read and written.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"
#include "coli/evaluation/case_set.hpp"
#include "coli/evaluation/decisions.hpp"
#include "coli/evaluation/floors.hpp"
#include "coli/evaluation/json_number.hpp"

namespace coli::evaluation {

/// What a lane's bits depend on. Instruction sets of one profile give the same bits by design; the key names them all the
/// same, so that a machine where they don't is found out by its own lane, and never blamed on another's.
struct LaneKey {
  std::string model_sha256, cases_sha256;
  std::string profile, isa, activations, kv;
  bool operator==(const LaneKey&) const = default;
};

struct Lane {
  LaneKey key;
  Floors floors;
  std::vector<CaseDecisions> cases;
  Json made_by = Json::object();  // commit, compiler, processor: provenance, not compared

  const CaseDecisions* find(std::string_view id) const {
    for (const CaseDecisions& c : cases)
      if (c.id == id) return &c;
    return nullptr;
  }
};

/// Floors under the worst margins of all cases.
inline Floors floors_under(std::span<const CaseDecisions> cases) {
  float token = kNoMargin, route = kNoMargin;
  for (const CaseDecisions& c : cases) {
    token = std::min(token, c.token_margin);
    route = std::min(route, c.route_margin);
  }
  return {floor_under(token), floor_under(route)};
}

inline Json to_json(const LaneKey& key) {
  return {{"model_sha256", key.model_sha256}, {"cases_sha256", key.cases_sha256}, {"profile", key.profile},
          {"isa", key.isa}, {"activations", key.activations}, {"kv", key.kv}};
}

inline Json to_json(const Floors& floors) {
  const auto number = [](const std::optional<double>& floor) { return floor ? Json(*floor) : Json(); };
  return {{"token", number(floors.token)}, {"route", number(floors.route)}};
}

inline Json to_json(const CaseDecisions& c) {
  Json ids = Json::array(), top = Json::array();
  for (const TokenId id : c.ids) ids.push_back(id.value);
  for (const auto& [id, logit] : c.top_logits) top.push_back(Json::array({id.value, std::isfinite(logit) ? Json(std::round(double{logit} * 1e4) / 1e4) : Json()}));
  return {{"id", c.id}, {"prompt_sha256", c.prompt_sha256}, {"token_count", c.token_count}, {"token_ids", std::move(ids)},
          {"token_margin", json_number(c.token_margin)}, {"token_margin_step", c.token_margin_step},
          {"route_margin", json_number(c.route_margin)}, {"route_margin_position", c.route_margin_position}, {"route_margin_layer", c.route_margin_layer},
          {"route_ids_sha256", c.route_ids_sha256}, {"logits_sha256", c.logits_sha256}, {"top_logits", std::move(top)}};
}

inline Json to_json(const Lane& lane) {
  Json cases = Json::array();
  for (const CaseDecisions& c : lane.cases) cases.push_back(to_json(c));
  return {{"schema", 1}, {"kind", "lane"}, {"key", to_json(lane.key)}, {"floors", to_json(lane.floors)}, {"made_by", lane.made_by}, {"cases", std::move(cases)}};
}

/// Errors: bad_input, naming the field.
inline Result<Lane> parse_lane(std::string_view text, const std::string& path) {
  COLI_TRY(root, parse_root(text, path, "lane"));
  const auto bad = [&](std::string field, std::string why) { return Error{Errc::bad_input, std::move(why), std::move(field), path}; };
  if (!root.contains("kind") || root["kind"] != "lane") return bad("kind", "is not \"lane\"; --snapshot-out writes lanes");
  Lane lane;
  if (!root.contains("key") || !root["key"].is_object()) return bad("key", "is missing");
  for (const auto& [name, to] : {std::pair{"model_sha256", &lane.key.model_sha256}, std::pair{"cases_sha256", &lane.key.cases_sha256},
                                 std::pair{"profile", &lane.key.profile}, std::pair{"isa", &lane.key.isa},
                                 std::pair{"activations", &lane.key.activations}, std::pair{"kv", &lane.key.kv}}) {
    if (!root["key"].contains(name) || !root["key"][name].is_string()) return bad(std::string("key.") + name, "is not a string");
    *to = root["key"][name];
  }
  if (!root.contains("floors") || !root["floors"].is_object()) return bad("floors", "are missing");
  for (const auto& [name, to] : {std::pair{"token", &lane.floors.token}, std::pair{"route", &lane.floors.route}}) {
    if (!root["floors"].contains(name)) return bad(std::string("floors.") + name, "is missing");
    const Json& floor = root["floors"][name];
    if (!floor.is_null() && !(floor.is_number() && floor.get<double>() >= 0)) return bad(std::string("floors.") + name, "is neither null nor a number from 0 on");
    if (!floor.is_null()) *to = floor.get<double>();
  }
  if (root.contains("made_by")) lane.made_by = root["made_by"];
  std::set<std::string> seen;
  for (const Json& entry : root["cases"]) {
    const std::string at = "cases[" + std::to_string(lane.cases.size()) + "].";
    CaseDecisions c;
    if (!entry.is_object()) return bad(at, "is not an object");
    for (const auto& [name, to] : {std::pair{"id", &c.id}, std::pair{"prompt_sha256", &c.prompt_sha256}, std::pair{"route_ids_sha256", &c.route_ids_sha256},
                                   std::pair{"logits_sha256", &c.logits_sha256}}) {
      if (!entry.contains(name) || !entry[name].is_string()) return bad(at + name, "is not a string");
      *to = entry[name];
    }
    if (!seen.insert(c.id).second) return bad(at + "id", "'" + c.id + "' is there twice");
    for (const auto& [name, to] : {std::pair{"token_count", &c.token_count}, std::pair{"token_margin_step", &c.token_margin_step},
                                   std::pair{"route_margin_position", &c.route_margin_position}, std::pair{"route_margin_layer", &c.route_margin_layer}}) {
      if (!entry.contains(name) || !entry[name].is_number_unsigned() || entry[name].get<std::uint64_t>() > (1U << 30)) return bad(at + name, "is not a count");
      *to = entry[name].get<std::uint32_t>();
    }
    if (!read_ids(entry, "token_ids", c.ids) || c.ids.empty()) return bad(at + "token_ids", "is not a list of token ids");
    for (const auto& [name, to] : {std::pair{"token_margin", &c.token_margin}, std::pair{"route_margin", &c.route_margin}}) {
      if (!entry.contains(name) || !(entry[name].is_null() || (entry[name].is_number() && entry[name].get<double>() >= 0))) return bad(at + name, "is neither null nor a number from 0 on");
      if (!entry[name].is_null()) *to = entry[name].get<float>();
    }
    lane.cases.push_back(std::move(c));
  }
  return lane;
}

/// Where the lane of a profile and instruction set lies: <folder>/<profile>.<isa>.json. No other file is ever taken.
inline std::string lane_path(const std::string& folder, std::string_view profile, std::string_view isa) {
  return folder + "/" + std::string(profile) + "." + std::string(isa) + ".json";
}

/// The folder of a case file's lanes: bard.cases.json -> bard.lanes beside it.
inline std::string lanes_folder_of(const std::string& cases_path) {
  std::filesystem::path path = cases_path;
  std::string stem = path.filename().string();
  for (const std::string_view ending : {".json", ".cases"})
    if (stem.size() > ending.size() && stem.ends_with(ending)) stem.resize(stem.size() - ending.size());
  return (path.parent_path() / (stem + ".lanes")).string();
}

}  // namespace coli::evaluation
