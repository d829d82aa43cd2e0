// SPDX-License-Identifier: Apache-2.0
// May this file be evidence, and which accesses does it hold? Any form of a route trace, as what a replay runs over.
//
// Refused: a trace whose header says that a lossy option was on, and whatever its reader refuses. Rejected drafts are
// left out. A binary trace is streamed: 10^8 accesses take what AccessTrace takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "coli/cache/access_trace.hpp"
#include "coli/cache/geometry.hpp"
#include "coli/core/error.hpp"
#include "coli/evidence/route_text.hpp"
#include "coli/moe/route_trace.hpp"
#include "coli/moe/route_trace_reader.hpp"

namespace coli {

struct LoadedRoutes {
  RouteHeader header;
  AccessTrace accesses;
  std::uint64_t n_tokens = 0, n_decoded = 0, n_rejected = 0;
  double decode_wait_seconds = 0;            // that computing stood still for reads, as recorded
  bool closed = true;                        // false: its process died before the end
  std::optional<RouteHeader::Json> counted;  // by the engine that wrote it
};

/// The cache's view of a header. Errors: bad_input.
inline Result<CacheGeometry> geometry_of(const RouteHeader& header) {
  std::vector<std::optional<ExpertBytes>> layers;
  for (const RouteLayer& layer : header.layers) {
    auto& entry = layers.emplace_back();
    if (layer.expert() != 0) entry = ExpertBytes{layer.expert_bytes, layer.expert_bytes};
  }
  return CacheGeometry::make(header.n_experts, header.top_k, std::move(layers));
}

/// Collects tokens, pass by pass, in the order in which an engine asks: layer by layer.
class AccessCollector {
 public:
  explicit AccessCollector(const RouteHeader& header) : routes_{header, AccessTrace(header.n_layers(), header.n_experts, header.top_k), 0, 0, 0, 0, true, {}} {}

  void reserve(std::size_t n_rows) { routes_.accesses.reserve(n_rows); }
  void add(const RouteToken& token) {
    if (!token.accepted) {
      ++routes_.n_rejected;
      return;
    }
    if (n_held_ > 0 && held_.front().pass != token.pass) end_pass();
    if (held_.size() == n_held_) held_.emplace_back();
    held_[n_held_++] = token;
  }
  LoadedRoutes take() && {
    end_pass();
    return std::move(routes_);
  }

 private:
  void end_pass() {
    const std::uint32_t k = routes_.header.top_k;
    next_.assign(n_held_, 0);
    for (std::uint32_t l = 0; l < routes_.header.n_layers(); ++l)
      for (std::size_t t = 0; t < n_held_; ++t) {
        const RouteToken& token = held_[t];
        if (next_[t] == token.n_rows() || token.layers[next_[t]].value != l) continue;
        const Phase phase = token.phase == RoutePhase::prefill ? Phase::prefill : Phase::decode;
        routes_.accesses.add(LayerId{l}, static_cast<std::uint32_t>(routes_.n_tokens + t), token.pass, phase, std::span(token.experts).subspan(next_[t]++ * k, k));
      }
    for (std::size_t t = 0; t < n_held_; ++t) routes_.n_decoded += held_[t].phase == RoutePhase::prefill ? 0 : 1;
    if (n_held_ > 0 && held_.front().phase != RoutePhase::prefill)  // a group's wait stands in the rows of all of its tokens
      for (const float wait : held_.front().waits) routes_.decode_wait_seconds += wait;
    routes_.n_tokens += n_held_;
    n_held_ = 0;
  }

  LoadedRoutes routes_;
  std::vector<RouteToken> held_;  // of the pass; beyond n_held_ only for their memory
  std::size_t n_held_ = 0;
  std::vector<std::size_t> next_;
};

/// A trace in any of its text forms. Errors: bad_input.
inline Result<RouteTrace> parse_route_text(std::string_view text) {
  if (text.starts_with(route_text::kCsvMagic)) return parse_csv(text);
  if (text.starts_with(route_text::kRecordedMagic)) return parse_recorded_csv(text);
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') return parse_json(text);
  return Error{Errc::bad_input, "is not a route trace: neither coli's binary, CSV or JSON, nor a recorded 'route_trace v1' CSV"};
}

/// Calls `begin(header, most_rows)` and then `each(token)` for every token of the file, whatever its form; says whether
/// the trace is closed, and what stands at its end. Errors: io, bad_input.
struct RouteFileEnd {
  bool closed = true;
  std::optional<RouteHeader::Json> counted;
};
template <class Begin, class Each>
Result<RouteFileEnd> for_each_route(const std::string& path, Begin&& begin, Each&& each) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{Errc::io, "cannot open", "", path};
  std::array<char, 8> first{};
  file.read(first.data(), first.size());
  if (RouteTraceReader::recognises(std::as_bytes(std::span(first).first(static_cast<std::size_t>(file.gcount()))))) {
    COLI_TRY(reader, RouteTraceReader::open(path));
    COLI_CHECK(begin(reader.header(), static_cast<std::size_t>(reader.bytes_left() / route_format::row_bytes(reader.header().top_k))));
    RouteToken token;
    for (;;) {
      COLI_TRY(more, reader.next(token));
      if (!more) return RouteFileEnd{reader.counted().has_value(), reader.counted()};
      each(std::as_const(token));
    }
  }
  file.clear();
  file.seekg(0);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file.bad()) return Error{Errc::io, "cannot read", "", path};
  auto trace = parse_route_text(text);
  if (!trace) return std::move(trace).error().in_file(path);
  COLI_CHECK(begin(trace->header, trace->tokens.empty() ? 0 : trace->tokens.size() * trace->header.n_layers()));
  for (const RouteToken& token : trace->tokens) each(token);
  return RouteFileEnd{};
}

/// Errors: io; bad_input; nothing_compared, where the trace holds no tokens.
inline Result<LoadedRoutes> load_routes(const std::string& path) {
  std::optional<AccessCollector> collector;
  COLI_TRY(end, for_each_route(
                    path,
                    [&](const RouteHeader& header, std::size_t most_rows) -> Result<void> {
                      if (const auto option = header.lossy_option()) return Error{Errc::bad_input, "the lossy option " + *option + " was on: what it routed is no evidence", "lossy", path};
                      collector.emplace(header);
                      collector->reserve(most_rows);
                      return {};
                    },
                    [&](const RouteToken& token) { collector->add(token); }));
  LoadedRoutes routes = std::move(*collector).take();
  if (routes.accesses.n_rows() == 0) return Error{Errc::nothing_compared, "the trace holds no tokens", "", path};
  routes.closed = end.closed;
  routes.counted = std::move(end.counted);
  return routes;
}

}  // namespace coli
