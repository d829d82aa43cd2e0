// SPDX-License-Identifier: Apache-2.0
// What would each policy have hit, with how much memory, and how fast would that be? One replay a policy and budget.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coli/cache/replay.hpp"
#include "coli/cache/slot_plan.hpp"
#include "coli/core/error.hpp"
#include "coli/evidence/load_routes.hpp"
#include "coli/evidence/replay_request.hpp"
#include "coli/plan/decode_time.hpp"

namespace coli {

struct ReplayCurvePoint {
  std::string policy, budget;
  Bytes bytes{};            // of the slots
  std::uint64_t slots = 0;  // experts that they hold
  SlotKind kind = SlotKind::typed;
  ReplayCounts counts;
  std::optional<double> gap_closed{};  // of LRU's gap to Belady, on decoded tokens; where both were replayed and differ
  std::optional<std::int64_t> regret{};     // misses more than Belady's, on decoded tokens
  std::optional<double> tokens_per_second{};
};

struct ReplayReport {
  CacheGeometry geometry;
  std::vector<ReplayCurvePoint> points;  // budget by budget, policies in the order asked for
  std::optional<std::uint64_t> recorded_slots;
};

/// Adds up a replay's decoded tokens as decode_time.hpp reckons, layer by layer. A guess read while the disk idled in
/// the layer before is not waited for.
class ReplayClock {
 public:
  ReplayClock(const RouteHeader& header, const TimeModel& model) : header_(header), model_(model) {
    if (header.settings.contains("head_bytes") && header.settings["head_bytes"].is_number()) head_seconds_ = header.settings["head_bytes"].get<double>() / std::max(model.weights_rate, 1.0);
  }
  void operator()(LayerId layer, Phase phase, std::size_t n_experts, std::uint64_t n_misses) {
    if (phase != Phase::decode || !model_.known()) return;
    if (layer != layer_ || resident_ + missed_ >= header_.top_k) end_layer();
    layer_ = layer;
    missed_ += static_cast<std::uint32_t>(n_misses);
    resident_ += static_cast<std::uint32_t>(n_experts - n_misses);
  }
  /// Seconds of all `n_tokens` decoded.
  double seconds(std::uint64_t n_tokens) {
    end_layer();
    return seconds_ + static_cast<double>(n_tokens) * head_seconds_;
  }

 private:
  void end_layer() {
    if (resident_ + missed_ == 0) return;
    const RouteLayer& of = header_.layers[layer_.value];
    const auto bytes = static_cast<double>(of.expert());
    LayerLoad load{static_cast<double>(of.trunk_bytes) / model_.weights_rate, bytes / model_.weights_rate, bytes, resident_, missed_};
    const double reading = missed_ * bytes / model_.disk_rate;
    const double ahead = std::min(idle_, model_.prefetch_recall * reading);
    if (missed_ > 0) load.expert_bytes *= (reading - ahead) / reading;
    double took = layer_time(load, model_.disk_rate).seconds();
    if (!model_.overlap) took = load.trunk_seconds + (resident_ + missed_) * load.expert_seconds + reading - ahead;
    seconds_ += took;
    idle_ = std::max(0.0, took - (reading - ahead));
    resident_ = missed_ = 0;
  }

  const RouteHeader& header_;
  TimeModel model_;
  double head_seconds_ = 0, seconds_ = 0, idle_ = 0;
  LayerId layer_{};
  std::uint32_t resident_ = 0, missed_ = 0;
};

/// The rates that the trace's own run measured, where it was closed and read from disk.
inline TimeModel measured_rates(const LoadedRoutes& routes) {
  TimeModel model;
  if (!routes.counted) return model;
  const auto number = [&](const char* key) { return routes.counted->contains(key) && (*routes.counted)[key].is_number() ? (*routes.counted)[key].get<double>() : 0.0; };
  const double decoding = number("decode_seconds"), waiting = routes.decode_wait_seconds, tokens = number("decode_tokens");
  double weights = 0;
  for (const RouteLayer& layer : routes.header.layers) weights += static_cast<double>(layer.trunk_bytes) + routes.header.top_k * static_cast<double>(layer.expert());
  if (routes.header.settings.contains("head_bytes") && routes.header.settings["head_bytes"].is_number()) weights += routes.header.settings["head_bytes"].get<double>();
  if (decoding > waiting && tokens > 0) model.weights_rate = weights * tokens / (decoding - waiting);
  const auto& settings = routes.header.settings;
  const std::string store = settings.contains("store") && settings["store"].is_string() ? settings["store"].get<std::string>() : "";
  const bool from_disk = store.starts_with("uring") || store.starts_with("pread");  // a copy in memory says nothing of a disk
  if (from_disk && number("read_seconds") > 0) model.disk_rate = number("bytes_read") / number("read_seconds");
  model.origin = "the trace's own run";
  return model;
}

namespace detail {

inline std::vector<std::optional<ExpertBytes>> expert_bytes_of(const RouteHeader& header, SlotKind kind) {
  const RouteLayer& largest = *std::ranges::max_element(header.layers, {}, &RouteLayer::expert);
  std::vector<std::optional<ExpertBytes>> layers;
  for (const RouteLayer& layer : header.layers) {
    auto& entry = layers.emplace_back();
    if (layer.expert() != 0) entry = ExpertBytes{layer.expert_bytes, kind == SlotKind::typed ? layer.expert_bytes : largest.expert_bytes};
  }
  return layers;
}

}  // namespace detail

/// How many slots the trace's own run had; nothing where it isn't known.
inline std::optional<std::uint64_t> recorded_slots(const RouteHeader& header) {
  if (!header.settings.contains("slots") || !header.settings["slots"].is_number_unsigned() || header.settings["slots"] == 0) return std::nullopt;
  return header.settings["slots"].get<std::uint64_t>();
}

/// Errors: usage; over_budget, where a budget holds less than one layer's experts.
inline Result<ReplayReport> replay_all(const LoadedRoutes& routes, const ReplayRequest& request) {
  const RouteHeader& header = routes.header;
  COLI_TRY(typed, CacheGeometry::make(header.n_experts, header.top_k, detail::expert_bytes_of(header, SlotKind::typed)));
  COLI_TRY(uniform, CacheGeometry::make(header.n_experts, header.top_k, detail::expert_bytes_of(header, SlotKind::uniform)));
  ReplayReport report{typed, {}, recorded_slots(header)};
  for (const ReplayBudget& budget : request.budgets) {
    const SlotKind kind = request.slots.value_or(budget.kind == ReplayBudget::Kind::share ? SlotKind::uniform : SlotKind::typed);
    const CacheGeometry& geometry = kind == SlotKind::typed ? typed : uniform;
    std::uint64_t n_experts = 0;
    for (std::uint32_t c = 0; c < geometry.classes().size(); ++c) n_experts += geometry.experts_in_class(c);
    auto plan = [&]() -> Result<SlotPlan> {
      switch (budget.kind) {
        case ReplayBudget::Kind::bytes: return plan_slots(geometry, budget.bytes);
        case ReplayBudget::Kind::share: {
          const auto slots = static_cast<std::uint64_t>(std::llround(budget.share * static_cast<double>(n_experts)));
          if (slots < least_slots(geometry).total()) return Error{Errc::over_budget, budget.text + " of the experts are " + std::to_string(slots) + " slots; a layer needs " + std::to_string(least_slots(geometry).total()), "--budgets"};
          return plan_slots(geometry, geometry.all_bytes(), slots);
        }
        case ReplayBudget::Kind::recorded: break;
      }
      if (!report.recorded_slots) return Error{Errc::usage, "the trace doesn't say how many slots its run had", "--budgets recorded"};
      return plan_slots(geometry, geometry.all_bytes(), *report.recorded_slots);
    }();
    if (!plan) return std::move(plan).error();
    const std::size_t begin = report.points.size();
    for (const std::string& name : request.policies) {
      ReplayCurvePoint point{name, budget.text, plan->bytes, plan->total(), kind, {}};
      ReplayClock clock(header, request.time);
      std::optional<Error> error;
      for_each_replay_policy([&]<class P>(PolicyTag<P>) {
        if (P::name.view() != name) return;
        auto counts = replay<P>(routes.accesses, geometry, *plan, request.grouping, clock);
        if (counts) point.counts = std::move(*counts);
        else error = std::move(counts).error();
      });
      if (error) return *std::move(error);
      if (request.time.known() && routes.n_decoded > 0) point.tokens_per_second = static_cast<double>(routes.n_decoded) / clock.seconds(routes.n_decoded);
      report.points.push_back(std::move(point));
    }
    const auto of = [&](std::string_view name) -> const ReplayCurvePoint* {
      const auto at = std::find_if(report.points.begin() + static_cast<std::ptrdiff_t>(begin), report.points.end(), [&](const ReplayCurvePoint& p) { return p.policy == name; });
      return at == report.points.end() ? nullptr : &*at;
    };
    const ReplayCurvePoint* const belady = of(Belady::name.view());
    const ReplayCurvePoint* const lru = of(Lru::name.view());
    for (std::size_t i = begin; belady != nullptr && i < report.points.size(); ++i) {
      ReplayCurvePoint& point = report.points[i];
      const auto misses = [](const ReplayCurvePoint& p) { return static_cast<std::int64_t>(p.counts.misses_in(Phase::decode)); };
      point.regret = misses(point) - misses(*belady);
      if (lru != nullptr && misses(*lru) > misses(*belady)) point.gap_closed = static_cast<double>(misses(*lru) - misses(point)) / static_cast<double>(misses(*lru) - misses(*belady));
    }
  }
  return report;
}

/// Replays the run that wrote the trace: its policy, its slots, its leases. Errors: mismatch, where the engine counted
/// otherwise; nothing_compared, where it counted nothing; usage, where its policy is not one of ours.
inline Result<ReplayCounts> check_against_engine(const LoadedRoutes& routes) {
  using Json = RouteHeader::Json;
  const RouteHeader& header = routes.header;
  if (!routes.counted || !routes.counted->contains("hits")) return Error{Errc::nothing_compared, "the trace holds no counters of an engine: it is an import, or its writer died"};
  const auto slots = recorded_slots(header);
  if (!slots) return Error{Errc::nothing_compared, "the run had no slots: its weights were used as they lie in memory"};
  if (header.settings.contains("warm") && !header.settings["warm"].is_null()) return Error{Errc::nothing_compared, "the run began with a warm set, so its first hits are not in the trace"};
  COLI_TRY(geometry, geometry_of(header));
  COLI_TRY(plan, plan_slots(geometry, geometry.all_bytes(), *slots));
  const std::string policy = header.settings.contains("policy") && header.settings["policy"].is_string() ? header.settings["policy"].get<std::string>() : "";
  std::optional<Result<ReplayCounts>> counts;
  for_each_replay_policy([&]<class P>(PolicyTag<P>) {
    if (P::name.view() == policy) counts = replay<P>(routes.accesses, geometry, plan, Grouping::recorded);
  });
  if (!counts) return Error{Errc::usage, "there is no policy '" + policy + "' to replay"};
  if (!*counts) return std::move(*counts).error();
  ReplayCounts& c = **counts;
  if (plan.all_resident(geometry))  // such a run starts with every slot filled
    for (std::size_t p = 0; p < kPhases; ++p) c.hits[p] += std::exchange(c.misses[p], 0);
  if (plan.all_resident(geometry))
    for (LayerStats& layer : c.layers) layer.hits += std::exchange(layer.misses, 0);
  const auto same = [](const Json& json, std::uint64_t hits, std::uint64_t misses) { return json.is_object() && json.contains("hits") && json.contains("misses") && json["hits"] == hits && json["misses"] == misses; };
  const std::uint64_t hits = c.hits[0] + c.hits[1], misses = c.misses[0] + c.misses[1];
  if (!same(*routes.counted, hits, misses))
    return Error{Errc::mismatch, "replay counts " + std::to_string(hits) + " hits and " + std::to_string(misses) + " misses; the engine counted " + (*routes.counted)["hits"].dump() + " and " + routes.counted->value("misses", Json()).dump()};
  const Json layers = routes.counted->value("layers", Json::array());
  for (std::size_t l = 0; layers.is_array() && l < layers.size() && l < c.layers.size(); ++l)
    if (!same(layers[l], c.layers[l].hits, c.layers[l].misses)) return Error{Errc::mismatch, "replay counts " + std::to_string(c.layers[l].hits) + " hits and " + std::to_string(c.layers[l].misses) + " misses; the engine counted " + layers[l].dump(), "layer " + std::to_string(l)};
  return std::move(c);
}

}  // namespace coli
