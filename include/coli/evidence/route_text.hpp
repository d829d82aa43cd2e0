// SPDX-License-Identifier: Apache-2.0
// Route traces as text: CSV and JSON that other programs read and write, and the CSV of recorded routes from elsewhere.
//
//   our CSV:   "# coli route trace 1", a line "# {header as JSON}", the column names, then a line an expert:
//              position,pass,phase,accepted,layer,rank,expert,weight,gap,wait_seconds,resident; last "# end N" (tokens)
//   our JSON:  {"coli_route_trace": 1, "header": {...}, "tokens": [{"position", "pass", "phase", "accepted",
//              "rows": [{"layer", "gap", "wait_seconds", "experts", "weights", "resident"}]}]}
//   recorded:  "# route_trace v1", sizes in "# layer=" lines, then turn,phase,step,layer,slot,expert,weight,
//              residency,expert_bytes. Its prompt ran as one pass. The foreign path in its header is stripped to a name.
// What stands after the last token of a binary trace (the engine's counters) stays behind: it is of one cache, not of the routes.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "coli/core/bounded_json.hpp"
#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"
#include "coli/core/sha256.hpp"
#include "coli/moe/route_trace.hpp"

namespace coli {

/// A trace in memory, for conversions. 10^8 accesses are better streamed by RouteTraceReader.
struct RouteTrace {
  RouteHeader header;
  std::vector<RouteToken> tokens;
};

namespace route_text {

inline constexpr std::string_view kCsvMagic{"# coli route trace 1"};
inline constexpr std::string_view kCsvColumns{"position,pass,phase,accepted,layer,rank,expert,weight,gap,wait_seconds,resident"};
inline constexpr std::string_view kRecordedMagic{"# route_trace v1"};
inline constexpr std::string_view kRecordedColumns{"turn,phase,step,layer,slot,expert,weight,residency,expert_bytes"};

/// The shortest decimal that reads back as the same float; "inf" where every expert was chosen.
inline std::string text_of(float value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

/// Lines without their ends; "\r\n" counts as one end.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}
  std::optional<std::string_view> next() {
    if (rest_.empty()) return std::nullopt;
    ++number_;
    std::string_view line = rest_.substr(0, rest_.find('\n'));
    rest_.remove_prefix(std::min(rest_.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }
  std::size_t number() const noexcept { return number_; }
  Error bad(std::string why) const { return Error{Errc::bad_input, std::move(why), "line " + std::to_string(number_)}; }

 private:
  std::string_view rest_;
  std::size_t number_ = 0;
};

/// Splits a line at its commas into exactly N fields.
template <std::size_t N>
std::optional<std::array<std::string_view, N>> fields(std::string_view line) {
  std::array<std::string_view, N> found;
  for (std::size_t i = 0; i < N; ++i) {
    const std::size_t comma = line.find(',');
    if ((comma == std::string_view::npos) != (i + 1 == N)) return std::nullopt;
    found[i] = line.substr(0, comma);
    line.remove_prefix(std::min(line.size(), found[i].size() + 1));
  }
  return found;
}
template <class Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Checks a token that came as text against its header: what the binary reader checks of a frame.
inline Result<void> check_token(const RouteHeader& h, const RouteToken& token) {
  const auto bad = [](std::string why) { return Error{Errc::bad_input, std::move(why)}; };
  for (std::size_t r = 0; r < token.n_rows(); ++r) {
    const std::uint32_t layer = token.layers[r].value;
    if (layer >= h.n_layers() || h.layers[layer].expert() == 0) return bad("there are no experts in layer " + std::to_string(layer));
    if (r > 0 && !(token.layers[r - 1] < token.layers[r])) return bad("layer " + std::to_string(layer) + " does not follow in order");
    const auto ids = std::span(token.experts).subspan(r * h.top_k, h.top_k);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i].value >= h.n_experts) return bad("layer " + std::to_string(layer) + " has no expert " + std::to_string(ids[i].value));
      if (std::find(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(i), ids[i]) != ids.begin() + static_cast<std::ptrdiff_t>(i)) return bad("layer " + std::to_string(layer) + " chose expert " + std::to_string(ids[i].value) + " twice");
    }
  }
  return {};
}

}  // namespace route_text

//--- our CSV -----------------------------------------------------------------------------------------------------------

inline std::string csv_begin(const RouteHeader& header) {
  return std::string(route_text::kCsvMagic) + "\n# " + header.to_json().dump(-1, ' ', false, RouteHeader::Json::error_handler_t::replace) + "\n" + std::string(route_text::kCsvColumns) + "\n";
}
inline void csv_append(const RouteHeader& header, const RouteToken& token, std::string& out) {
  for (std::size_t r = 0; r < token.n_rows(); ++r)
    for (std::uint32_t i = 0; i < header.top_k; ++i) {
      const std::size_t at = r * header.top_k + i;
      out += std::to_string(token.position) + "," + std::to_string(token.pass) + "," + std::string(name_of(token.phase)) + (token.accepted ? ",1," : ",0,") + std::to_string(token.layers[r].value) + "," + std::to_string(i) + "," +
             std::to_string(token.experts[at].value) + "," + route_text::text_of(token.weights[at]) + "," + route_text::text_of(token.gaps[r]) + "," + route_text::text_of(token.waits[r]) + (token.resident[at] != 0 ? ",1\n" : ",0\n");
    }
}

inline std::string csv_end(std::size_t n_tokens) { return "# end " + std::to_string(n_tokens) + "\n"; }

/// Errors: bad_input, naming line or field.
inline Result<RouteTrace> parse_csv(std::string_view text) {
  route_text::Lines lines(text);
  if (lines.next() != route_text::kCsvMagic) return lines.bad("is not '" + std::string(route_text::kCsvMagic) + "'");
  const auto json = lines.next();
  if (!json || !json->starts_with("# ")) return lines.bad("is not the header");
  RouteTrace trace;
  COLI_TRY(header, RouteHeader::from_json(parse_bounded_json(json->substr(2))));
  trace.header = std::move(header);
  const std::uint32_t k = trace.header.top_k;
  if (lines.next() != route_text::kCsvColumns) return lines.bad("the columns are not " + std::string(route_text::kCsvColumns));
  std::uint32_t rank = 0;  // that must come next
  bool ended = false;
  while (const auto line = lines.next()) {
    if (ended) return lines.bad("something follows the end");
    if (line->starts_with("# end ")) {
      ended = true;
      if (rank != 0 || route_text::number<std::size_t>(line->substr(6)) != trace.tokens.size()) return lines.bad("the end does not fit: " + std::to_string(trace.tokens.size()) + " tokens stand before it");
      continue;
    }
    const auto f = route_text::fields<11>(*line);
    if (!f) return lines.bad("has not 11 fields");
    const auto position = route_text::number<std::uint32_t>((*f)[0]), pass = route_text::number<std::uint32_t>((*f)[1]), layer = route_text::number<std::uint32_t>((*f)[4]), rank_here = route_text::number<std::uint32_t>((*f)[5]), expert = route_text::number<std::uint32_t>((*f)[6]);
    const auto weight = route_text::number<float>((*f)[7]), gap = route_text::number<float>((*f)[8]), wait = route_text::number<float>((*f)[9]);
    const auto phase = parse_route_phase((*f)[2]);
    const auto accepted = route_text::number<unsigned>((*f)[3]), resident = route_text::number<unsigned>((*f)[10]);
    if (!position || !pass || !layer || !rank_here || !expert || !weight || !gap || !wait || !phase || !accepted || *accepted > 1 || !resident || *resident > 1) return lines.bad("'" + std::string(line->substr(0, 80)) + "' holds something unexpected");
    if (*rank_here != rank) return lines.bad("rank " + std::to_string(*rank_here) + " where " + std::to_string(rank) + " should follow");
    if (rank == 0) {
      const RouteToken* last = trace.tokens.empty() ? nullptr : &trace.tokens.back();
      const bool same = last && last->position == *position && last->pass == *pass && last->phase == *phase && last->accepted == (*accepted == 1) && last->layers.back().value < *layer;
      if (!same) {
        RouteToken& token = trace.tokens.emplace_back();
        token.position = *position, token.pass = *pass, token.phase = *phase, token.accepted = *accepted == 1;
      }
      RouteToken& token = trace.tokens.back();
      token.layers.push_back(LayerId{*layer}), token.gaps.push_back(*gap), token.waits.push_back(*wait);
    } else if (trace.tokens.back().layers.back().value != *layer || trace.tokens.back().position != *position) {
      return lines.bad("another row begins before " + std::to_string(k) + " experts were named");
    }
    RouteToken& token = trace.tokens.back();
    token.experts.push_back(ExpertId{*expert}), token.weights.push_back(*weight), token.resident.push_back(static_cast<std::uint8_t>(*resident));
    rank = (rank + 1) % k;
    if (rank == 0)
      if (auto checked = route_text::check_token(trace.header, token); !checked) return lines.bad(checked.error().message);
  }
  if (!ended) return lines.bad("is truncated after " + std::to_string(trace.tokens.size()) + " tokens: the end is missing");
  return trace;
}

//--- our JSON ----------------------------------------------------------------------------------------------------------

inline RouteHeader::Json json_of(const RouteHeader& header, const RouteToken& token) {
  using Json = RouteHeader::Json;
  Json rows = Json::array();
  const auto shortest = [](float value) -> Json {  // as the float, not as the double that it becomes
    if (!std::isfinite(value)) return nullptr;
    const std::string text = route_text::text_of(value);
    return route_text::number<double>(text).value_or(0);
  };
  for (std::size_t r = 0; r < token.n_rows(); ++r) {
    Json row{{"layer", token.layers[r].value}, {"gap", shortest(token.gaps[r])}, {"wait_seconds", shortest(token.waits[r])}, {"experts", Json::array()}, {"weights", Json::array()}, {"resident", Json::array()}};
    for (std::size_t i = r * header.top_k; i < (r + 1) * header.top_k; ++i) {
      row["experts"].push_back(token.experts[i].value);
      row["weights"].push_back(shortest(token.weights[i]));
      row["resident"].push_back(token.resident[i] != 0);
    }
    rows.push_back(std::move(row));
  }
  return {{"position", token.position}, {"pass", token.pass}, {"phase", std::string(name_of(token.phase))}, {"accepted", token.accepted}, {"rows", std::move(rows)}};
}

/// Errors: bad_input, naming the token.
inline Result<RouteTrace> parse_json(std::string_view text) {
  using Json = RouteHeader::Json;
  const auto bad = [](std::string where, std::string why) { return Error{Errc::bad_input, std::move(why), std::move(where)}; };
  const Json root = parse_bounded_json(text);
  if (!root.is_object()) return bad("", "is not a JSON object: truncated or damaged");
  if (!root.contains("coli_route_trace") || root["coli_route_trace"] != 1) return bad("coli_route_trace", "is not 1");
  if (!root.contains("header") || !root.contains("tokens") || !root["tokens"].is_array()) return bad("", "has no header and tokens");
  RouteTrace trace;
  COLI_TRY(header, RouteHeader::from_json(root["header"]));
  trace.header = std::move(header);
  const std::uint32_t k = trace.header.top_k;
  const auto u32 = [](const Json& object, const char* key) -> std::optional<std::uint32_t> {
    if (!object.contains(key) || !object[key].is_number_unsigned() || object[key].get<std::uint64_t>() > 0xFFFFFFFFU) return std::nullopt;
    return object[key].get<std::uint32_t>();
  };
  const auto real = [](const Json& value) { return value.is_number() ? value.get<float>() : std::numeric_limits<float>::infinity(); };
  for (const Json& entry : root["tokens"]) {
    const std::string at = "tokens[" + std::to_string(trace.tokens.size()) + "]";
    RouteToken& token = trace.tokens.emplace_back();
    const auto position = entry.is_object() ? u32(entry, "position") : std::nullopt;
    const auto pass = entry.is_object() ? u32(entry, "pass") : std::nullopt;
    if (!position || !pass || !entry.contains("phase") || !entry["phase"].is_string() || !entry.contains("accepted") || !entry["accepted"].is_boolean() || !entry.contains("rows") || !entry["rows"].is_array()) return bad(at, "lacks position, pass, phase, accepted or rows");
    const auto phase = parse_route_phase(entry["phase"].get<std::string>());
    if (!phase) return bad(at + ".phase", "is unknown");
    token.position = *position, token.pass = *pass, token.phase = *phase, token.accepted = entry["accepted"].get<bool>();
    for (const Json& row : entry["rows"]) {
      const auto layer = row.is_object() ? u32(row, "layer") : std::nullopt;
      if (!layer || !row.contains("gap") || !row.contains("wait_seconds")) return bad(at, "a row lacks layer, gap or wait_seconds");
      for (const char* key : {"experts", "weights", "resident"})
        if (!row.contains(key) || !row[key].is_array() || row[key].size() != k) return bad(at + "." + key, "is not a list of " + std::to_string(k));
      token.layers.push_back(LayerId{*layer}), token.gaps.push_back(real(row["gap"])), token.waits.push_back(real(row["wait_seconds"]));
      for (std::uint32_t i = 0; i < k; ++i) {
        if (!row["experts"][i].is_number_unsigned() || row["experts"][i].get<std::uint64_t>() >= trace.header.n_experts) return bad(at + ".experts", "holds something that is no expert");
        token.experts.push_back(ExpertId{row["experts"][i].get<std::uint32_t>()});
        token.weights.push_back(real(row["weights"][i]));
        token.resident.push_back(row["resident"][i] == true ? 1 : 0);
      }
    }
    if (auto checked = route_text::check_token(trace.header, token); !checked) return bad(at, checked.error().message);
  }
  return trace;
}

//--- recorded elsewhere ------------------------------------------------------------------------------------------------

/// Errors: bad_input, naming line or field.
inline Result<RouteTrace> parse_recorded_csv(std::string_view text) {
  route_text::Lines lines(text);
  if (lines.next() != route_text::kRecordedMagic) return lines.bad("is not '" + std::string(route_text::kRecordedMagic) + "'");
  RouteTrace trace;
  RouteHeader& h = trace.header;
  std::optional<std::uint32_t> n_layers;
  std::optional<std::string_view> line;
  const auto pairs = [](std::string_view words) {
    std::vector<std::pair<std::string_view, std::string_view>> found;
    while (!words.empty()) {
      const std::string_view word = words.substr(0, words.find(' '));
      words.remove_prefix(std::min(words.size(), word.size() + 1));
      if (const auto equals = word.find('='); equals != std::string_view::npos) found.emplace_back(word.substr(0, equals), word.substr(equals + 1));
    }
    return found;
  };
  // Options of engines that change what is computed to save reads: a trace made with one is no evidence.
  const auto is_lossy = [](std::string_view key) {
    constexpr std::array kNames{std::string_view("top_p"), std::string_view("topp"), std::string_view("expert_top_p"), std::string_view("drop_cold"), std::string_view("drop"), std::string_view("cache_route"), std::string_view("cache_aware"), std::string_view("lossy")};
    return std::ranges::find(kNames, key) != kNames.end();
  };
  while ((line = lines.next()) && line->starts_with("#")) {
    const auto words = pairs(line->substr(std::min<std::size_t>(2, line->size())));
    if (words.empty()) continue;
    if (words[0].first == "layer") {
      const auto number = [&](std::size_t i, std::string_view key) -> std::optional<std::uint64_t> {
        return i < words.size() && words[i].first == key ? route_text::number<std::uint64_t>(words[i].second) : std::nullopt;
      };
      const auto layer = number(0, "layer"), expert = number(1, "expert_bytes"), dense = number(2, "dense_bytes");
      if (!layer || !expert || !dense || *layer != h.layers.size() || *expert < 192 || *expert > (std::uint64_t{1} << 40)) return lines.bad("is not the size of layer " + std::to_string(h.layers.size()));
      const std::uint64_t third = *expert / 3 / 64 * 64;  // how it divides into matrices isn't told
      h.layers.push_back({{*expert - 2 * third, third, third}, *dense});
      continue;
    }
    for (const auto& [key, value] : words) {
      const auto n = route_text::number<std::uint32_t>(value);
      if (key == "model") h.model = value.substr(value.find_last_of("/\\") + 1);
      else if (key == "arch") h.architecture = value;
      else if (key == "n_layer" && n) n_layers = n;
      else if (key == "n_expert" && n) h.n_experts = *n;
      else if (key == "n_expert_used" && n) h.top_k = *n;
      else if (is_lossy(key)) h.lossy[std::string(key)] = !(value == "0" || value == "off" || value == "false" || value == "none");
      else h.settings[std::string(key)] = std::string(value);
    }
  }
  if (!n_layers || *n_layers != h.layers.size() || h.layers.empty() || h.layers.size() > RouteHeader::kMostLayers) return lines.bad("the header gives the sizes of " + std::to_string(h.layers.size()) + " layers, not of n_layer");
  if (h.n_experts == 0 || h.n_experts > RouteHeader::kMostExperts || h.top_k == 0 || h.top_k > h.n_experts) return lines.bad("the header's n_expert and n_expert_used are no geometry");
  if (!line || *line != route_text::kRecordedColumns) return lines.bad("the columns are not " + std::string(route_text::kRecordedColumns));

  struct Choice {
    ExpertId expert{};
    float weight = 0;
    std::uint8_t resident = 0;
    bool there = false;
  };
  // (turn, phase, step) -> layer -> rank
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::map<std::uint32_t, std::vector<Choice>>> seen;
  while ((line = lines.next())) {
    const auto f = route_text::fields<9>(*line);
    if (!f) return lines.bad("has not 9 fields: truncated or damaged");
    const auto u = [&](std::size_t i) { return route_text::number<std::uint32_t>((*f)[i]); };
    const auto turn = u(0), phase = u(1), step = u(2), layer = u(3), slot = u(4), expert = u(5), resident = u(7);
    const auto weight = route_text::number<float>((*f)[6]);
    if (!turn || !phase || *phase > 1 || !step || !layer || *layer >= h.n_layers() || !slot || *slot >= h.top_k || !expert || *expert >= h.n_experts || !weight || !std::isfinite(*weight) || !resident || (f->at(8) != "0" && route_text::number<std::uint64_t>(f->at(8)) != h.layers[*layer].expert())) return lines.bad("'" + std::string(line->substr(0, 80)) + "' is no choice in this geometry");
    auto& ranks = seen[{*turn, *phase, *step}][*layer];
    ranks.resize(h.top_k);
    if (ranks[*slot].there) return lines.bad("the same choice twice");
    ranks[*slot] = {ExpertId{*expert}, *weight, static_cast<std::uint8_t>(*resident != 0 ? 1 : 0), true};
  }
  std::uint32_t pass = 0, position = 0;
  std::optional<std::tuple<std::uint32_t, std::uint32_t>> last;  // turn and phase
  for (const auto& [key, rows] : seen) {
    const auto& [turn, phase, step] = key;
    if (last && !(phase == 0 && *last == std::tuple(turn, phase))) ++pass;  // a prompt is one pass, each decoded token another
    last = std::tuple(turn, phase);
    RouteToken& token = trace.tokens.emplace_back();
    token.position = position++, token.pass = pass, token.phase = phase == 0 ? RoutePhase::prefill : RoutePhase::decode;
    for (const auto& [layer, ranks] : rows) {
      token.layers.push_back(LayerId{layer}), token.gaps.push_back(0), token.waits.push_back(0);
      for (const Choice& choice : ranks) {
        if (!choice.there) return Error{Errc::bad_input, "turn " + std::to_string(turn) + ", step " + std::to_string(step) + ", layer " + std::to_string(layer) + " names fewer than " + std::to_string(h.top_k) + " experts: truncated or damaged"};
        token.experts.push_back(choice.expert), token.weights.push_back(choice.weight), token.resident.push_back(choice.resident);
      }
    }
    // A prompt's last layer may have run for its last token alone; a decoded token went through all of them.
    if (const auto n_moe = static_cast<std::size_t>(std::ranges::count_if(h.layers, [](const RouteLayer& l) { return l.expert() != 0; })); phase == 1 && token.n_rows() != n_moe)
      return Error{Errc::bad_input, "turn " + std::to_string(turn) + ", step " + std::to_string(step) + " has " + std::to_string(token.n_rows()) + " of " + std::to_string(n_moe) + " layers: truncated or damaged"};
    COLI_CHECK(route_text::check_token(h, token));
  }
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  h.source = {{"kind", "import"}, {"format", "route_trace v1 CSV"}, {"sha256", hash.hex()},
              {"note", "gaps and waits were not recorded and stand as 0; how an expert's bytes divide into matrices is not told; top_k may not be the trained one"}};
  return trace;
}

}  // namespace coli
