// SPDX-License-Identifier: Apache-2.0
// Watches an engine and writes what its routers chose: the sink of a route trace.
//
// Between layers it only copies a few numbers; tokens go to the file when their pass is done. A pass that fails leaves
// nothing behind. A write error is kept and told at the end: it must not end a generation.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"
#include "coli/engine_options.hpp"
#include "coli/moe/route_trace.hpp"
#include "coli/moe/route_trace_writer.hpp"

namespace coli {

class RouteRecorder {
 public:
  explicit RouteRecorder(RouteTraceWriter writer) : writer_(std::move(writer)) {}
  RouteRecorder(const RouteRecorder&) = delete;
  RouteRecorder& operator=(const RouteRecorder&) = delete;

  /// The recorder must outlive the observer's use.
  void watch(EngineObserver& observer) {
    observer.on_routing = [this](LayerId layer, std::uint32_t, const Routing& routing, const LeaseNotes& notes) { add(layer, routing, notes); };
    observer.on_pass = [this](std::uint32_t first, std::uint32_t n, RoutePhase phase) { end_pass(first, n, phase); };
  }

  /// Closes the file. Errors: io, also of what was written before.
  Result<void> finish(const RouteHeader::Json& counted) {
    if (error_) return *error_;
    return writer_.finish(counted);
  }

 private:
  void add(LayerId layer, const Routing& routing, const LeaseNotes& notes) {
    if (n_rows_ != 0 && layer <= last_) n_rows_ = 0;  // the pass before was not finished
    if (n_rows_ == 0)
      for (RouteToken& token : tokens_) token.clear();
    last_ = layer;
    ++n_rows_;
    if (tokens_.size() < routing.n_tokens) tokens_.resize(routing.n_tokens);
    resident_.resize(routing.top_k);
    for (std::uint32_t t = 0; t < routing.n_tokens; ++t) {
      const auto ids = routing.ids_of(t);
      for (std::uint32_t i = 0; i < routing.top_k; ++i) resident_[i] = notes.resident[ids[i].value];
      tokens_[t].add_row(layer, routing.gaps[t], static_cast<float>(notes.wait_seconds), ids, routing.weights_of(t), resident_);
    }
  }
  void end_pass(std::uint32_t first, std::uint32_t n, RoutePhase phase) {
    n_rows_ = 0;
    if (error_ || tokens_.size() < n) return;
    for (std::uint32_t t = 0; t < n; ++t) {
      tokens_[t].position = first + t;
      tokens_[t].pass = n_passes_;
      tokens_[t].phase = phase;
    }
    ++n_passes_;
    if (auto written = writer_.append(std::span(tokens_).first(n)); !written) error_ = std::move(written).error();
  }

  RouteTraceWriter writer_;
  std::vector<RouteToken> tokens_;  // of the pass under way
  std::vector<std::uint8_t> resident_;
  std::uint32_t n_rows_ = 0, n_passes_ = 0;
  LayerId last_{};
  std::optional<Error> error_;
};

}  // namespace coli
