// SPDX-License-Identifier: Apache-2.0
// What does a route trace say? Its header (what ran, with every setting that could bias it) and its tokens.
//
// The file: magic, version, sizes and checksums, a JSON header, then one frame a token (route_trace_format.hpp). Readers
// of evidence refuse a trace whose header says that a lossy option was on.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"
#include "coli/moe/route_phase.hpp"

namespace coli {

/// Bytes of one expert's gate, up and down as they lie in the file, and of the layer's trunk. A dense layer's experts
/// have none.
struct RouteLayer {
  std::array<std::uint64_t, 3> expert_bytes{};
  std::uint64_t trunk_bytes = 0;

  std::uint64_t expert() const noexcept { return expert_bytes[0] + expert_bytes[1] + expert_bytes[2]; }
  bool operator==(const RouteLayer&) const = default;
};

struct RouteHeader {
  using Json = nlohmann::ordered_json;
  static constexpr std::uint32_t kMostLayers = 1U << 12;
  static constexpr std::uint32_t kMostExperts = 1U << 15;

  std::string model, architecture;
  std::string model_sha256;   // of its fingerprint (gguf/fingerprint.hpp); empty where unknown: an import
  std::string prompt_sha256;  // of its token ids as 32-bit little-endian numbers; empty where unknown
  std::uint32_t n_experts = 0, top_k = 0;
  std::vector<RouteLayer> layers;
  Json sampler = Json::object();   // temperature, seed, ...
  Json lossy = Json::object();     // option -> whether it was on; all must be off in evidence
  Json settings = Json::object();  // profile, memory, policy, slots, store, threads, ... : whatever could bias it
  Json source = Json::object();    // who wrote it; of an import: from what, with its hash and licence

  std::uint32_t n_layers() const noexcept { return static_cast<std::uint32_t>(layers.size()); }

  /// The first lossy option that was on, if any.
  std::optional<std::string> lossy_option() const {
    for (const auto& [name, value] : lossy.items())
      if (!(value == false || value == 0 || value.is_null())) return name;
    return std::nullopt;
  }

  Json to_json() const {
    Json out{{"format", "coli route trace"}, {"model", {{"name", model}, {"architecture", architecture}, {"fingerprint_sha256", model_sha256}}},
             {"prompt_sha256", prompt_sha256}, {"n_experts", n_experts}, {"top_k", top_k}, {"layers", Json::array()}};
    for (const RouteLayer& layer : layers) out["layers"].push_back({{"expert_bytes", layer.expert_bytes}, {"trunk_bytes", layer.trunk_bytes}});
    out["sampler"] = sampler;
    out["lossy"] = lossy;
    out["settings"] = settings;
    out["source"] = source;
    return out;
  }

  /// Errors: bad_input, naming the field.
  static Result<RouteHeader> from_json(const Json& json) {
    const auto bad = [](std::string field, std::string why) { return Error{Errc::bad_input, std::move(why), std::move(field)}; };
    const auto is = [&](const char* key, bool (Json::*test)() const noexcept) { return json.contains(key) && (json[key].*test)(); };
    if (!json.is_object() || !is("format", &Json::is_string) || json["format"] != "coli route trace") return bad("format", "is not 'coli route trace'");
    RouteHeader h;
    if (!is("model", &Json::is_object)) return bad("model", "is not an object");
    for (const auto& [key, text] : {std::pair{"name", &h.model}, std::pair{"architecture", &h.architecture}, std::pair{"fingerprint_sha256", &h.model_sha256}}) {
      if (!json["model"].contains(key) || !json["model"][key].is_string()) return bad(std::string("model.") + key, "is not a string");
      *text = json["model"][key].get<std::string>();
    }
    if (!is("prompt_sha256", &Json::is_string)) return bad("prompt_sha256", "is not a string");
    h.prompt_sha256 = json["prompt_sha256"].get<std::string>();
    for (const std::string* hash : {&h.model_sha256, &h.prompt_sha256})
      if (!hash->empty() && (hash->size() != 64 || hash->find_first_not_of("0123456789abcdef") != std::string::npos)) return bad("sha256", "'" + hash->substr(0, 80) + "' is not 64 hexadecimal digits");
    for (const auto& [key, value, most] : {std::tuple{"n_experts", &h.n_experts, kMostExperts}, std::tuple{"top_k", &h.top_k, kMostExperts}}) {
      if (!is(key, &Json::is_number_unsigned) || json[key].get<std::uint64_t>() == 0 || json[key].get<std::uint64_t>() > most) return bad(key, "is not a number from 1 to " + std::to_string(most));
      *value = json[key].get<std::uint32_t>();
    }
    if (h.top_k > h.n_experts) return bad("top_k", std::to_string(h.top_k) + " of " + std::to_string(h.n_experts) + " experts");
    if (!is("layers", &Json::is_array) || json["layers"].empty() || json["layers"].size() > kMostLayers) return bad("layers", "is not a list of 1 to " + std::to_string(kMostLayers) + " layers");
    for (const Json& entry : json["layers"]) {
      const std::string at = "layers[" + std::to_string(h.layers.size()) + "]";
      RouteLayer layer;
      const bool shaped = entry.is_object() && entry.contains("expert_bytes") && entry["expert_bytes"].is_array() && entry["expert_bytes"].size() == 3 &&
                          entry.contains("trunk_bytes") && entry["trunk_bytes"].is_number_unsigned();
      if (!shaped) return bad(at, "has no three expert_bytes and trunk_bytes");
      for (std::size_t p = 0; p < 3; ++p) {
        if (!entry["expert_bytes"][p].is_number_unsigned() || entry["expert_bytes"][p].get<std::uint64_t>() > (std::uint64_t{1} << 40)) return bad(at + ".expert_bytes", "is not a number of bytes");
        layer.expert_bytes[p] = entry["expert_bytes"][p].get<std::uint64_t>();
      }
      if (const bool any = layer.expert() != 0; any && std::ranges::count(layer.expert_bytes, 0U) != 0) return bad(at + ".expert_bytes", "a part has no bytes");
      layer.trunk_bytes = entry["trunk_bytes"].get<std::uint64_t>();
      h.layers.push_back(layer);
    }
    for (const auto& [key, object] : {std::pair{"sampler", &h.sampler}, std::pair{"lossy", &h.lossy}, std::pair{"settings", &h.settings}, std::pair{"source", &h.source}}) {
      if (!is(key, &Json::is_object)) return bad(key, "is not an object");
      *object = json[key];
    }
    return h;
  }
};

/// One token's choices, in the order of its layers. `pass` counts the engine's passes: rows of one pass and one layer
/// were leased together, so (pass, layer) is the lease group.
struct RouteToken {
  std::uint32_t position = 0;
  std::uint32_t pass = 0;
  RoutePhase phase = RoutePhase::decode;
  bool accepted = true;  // false: a draft that was rejected; it counts for nothing
  std::vector<LayerId> layers;            // [n_rows], ascending
  std::vector<float> gaps;                // [n_rows] k-th minus (k+1)-th router logit
  std::vector<float> waits;               // [n_rows] seconds, of the lease group: the same for all of its tokens
  std::vector<ExpertId> experts;          // [n_rows, top_k] in rank order
  std::vector<float> weights;             // [n_rows, top_k]
  std::vector<std::uint8_t> resident;     // [n_rows, top_k] 1: had its slot when it was asked for

  std::size_t n_rows() const noexcept { return layers.size(); }
  void clear() {
    layers.clear(), gaps.clear(), waits.clear(), experts.clear(), weights.clear(), resident.clear();
  }
  /// Rows to be written over.
  void resize(std::size_t n_rows, std::size_t top_k) {
    layers.resize(n_rows), gaps.resize(n_rows), waits.resize(n_rows);
    experts.resize(n_rows * top_k), weights.resize(n_rows * top_k), resident.resize(n_rows * top_k);
  }
  void add_row(LayerId layer, float gap, float wait, std::span<const ExpertId> ids, std::span<const float> w, std::span<const std::uint8_t> had_slot) {
    layers.push_back(layer), gaps.push_back(gap), waits.push_back(wait);
    experts.insert(experts.end(), ids.begin(), ids.end());
    weights.insert(weights.end(), w.begin(), w.end());
    resident.insert(resident.end(), had_slot.begin(), had_slot.end());
  }
  bool operator==(const RouteToken&) const = default;
};

}  // namespace coli
