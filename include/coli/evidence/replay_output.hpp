// SPDX-License-Identifier: Apache-2.0
// A replay's report as a table, CSV, JSON and as one page of HTML that needs nothing else.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coli/core/bytes.hpp"
#include "coli/evidence/load_routes.hpp"
#include "coli/evidence/replay_report.hpp"
#include "coli/evidence/replay_request.hpp"
#include "coli/evidence/svg.hpp"
#include "coli/evidence/trace_statistics.hpp"

namespace coli {

/// Everything that an output may show. Views: what they point at must outlive it.
struct ReplayOutput {
  const LoadedRoutes& routes;
  const ReplayRequest& request;
  const ReplayReport& report;
  const TraceStatistics& statistics;

  /// What somebody who reads the figures must know.
  std::vector<std::string> warnings() const {
    std::vector<std::string> all;
    if (statistics.too_short()) all.push_back("the trace has " + std::to_string(statistics.n_decoded) + " decoded tokens: too few to judge a policy on");
    else if (statistics.memoryless()) all.push_back("the trace is memoryless: its tokens share no more experts with those before them than in a random order, so a policy can't be judged on it");
    if (!routes.closed) all.push_back("the trace was not closed: its process died after " + std::to_string(routes.n_tokens) + " whole tokens");
    if (routes.n_rejected != 0) all.push_back(std::to_string(routes.n_rejected) + " rejected drafts are not counted");
    return all;
  }

  std::string csv() const {
    std::string out = "policy,budget,budget_bytes,experts,slots,phase,hits,misses,hit_rate,missed_bytes,predicted_tps\n";
    each_curve([&](const ReplayCurvePoint& p, Phase phase) {
      out += p.policy + "," + p.budget + "," + std::to_string(p.bytes.value) + "," + std::to_string(p.slots) + "," + slot_kind(p) + "," + phase_name(phase) + "," + std::to_string(p.counts.hits_in(phase)) + "," + std::to_string(p.counts.misses_in(phase)) + "," +
             svg::number(p.counts.hit_rate(phase), 6) + "," + std::to_string(p.counts.missed_bytes[static_cast<std::size_t>(phase)]) + "," + (phase == Phase::decode && p.tokens_per_second ? svg::number(*p.tokens_per_second, 4) : "") + "\n";
    });
    return out;
  }

  nlohmann::ordered_json json() const {
    using Json = nlohmann::ordered_json;
    Json curves = Json::array();
    each_curve([&](const ReplayCurvePoint& p, Phase phase) {
      Json curve{{"policy", p.policy}, {"budget_bytes", p.bytes.value}, {"experts", p.slots}, {"phase", phase_name(phase)}, {"hits", p.counts.hits_in(phase)}, {"misses", p.counts.misses_in(phase)}, {"hit_rate", p.counts.hit_rate(phase)},
                 {"budget", p.budget}, {"slots", slot_kind(p)}, {"missed_bytes", p.counts.missed_bytes[static_cast<std::size_t>(phase)]}};
      if (phase == Phase::decode) {
        curve["regret"] = p.regret ? Json(*p.regret) : Json(nullptr);
        curve["gap_closed"] = p.gap_closed ? Json(*p.gap_closed) : Json(nullptr);
        curve["predicted_tps"] = p.tokens_per_second ? Json(*p.tokens_per_second) : Json(nullptr);
      }
      if (request.per_layer && phase == Phase::decode) {
        curve["layers_of_both_phases"] = Json::array();
        for (const LayerStats& layer : p.counts.layers) curve["layers_of_both_phases"].push_back({{"hits", layer.hits}, {"misses", layer.misses}});
      }
      curves.push_back(std::move(curve));
    });
    Json overlaps = Json::array(), reuse = Json::object();
    for (const LagOverlap& o : statistics.overlaps) overlaps.push_back({{"lag", o.lag}, {"shared", o.shared}, {"expected_in_random_order", o.expected}, {"z", o.z}});
    for (std::size_t i = 0; i < statistics.reuse.size(); ++i) reuse[distance_name(i)] = statistics.reuse[i];
    const TimeModel& t = request.time;
    return {{"schema", "coli.replay/1"},
            {"trace", routes.header.to_json()},
            {"tokens", routes.n_tokens},
            {"decoded_tokens", routes.n_decoded},
            {"rejected_drafts", routes.n_rejected},
            {"closed", routes.closed},
            {"grouping", std::string(name_of(request.grouping))},
            {"token_cycle", {{"bytes", report.geometry.token_cycle().value}, {"experts", cycle_slots()}}},
            {"time_model", t.known() ? Json{{"disk_rate", t.disk_rate}, {"weights_rate", t.weights_rate}, {"overlap", t.overlap}, {"prefetch_recall", t.prefetch_recall}, {"origin", t.origin}} : Json(nullptr)},
            {"memoryless", statistics.memoryless()},
            {"too_short", statistics.too_short()},
            {"overlaps", std::move(overlaps)},
            {"reuse_distance", std::move(reuse)},
            {"warnings", warnings()},
            {"curves", std::move(curves)}};
  }

  /// A line a budget and policy.
  std::string table() const {
    char text[256];
    std::snprintf(text, sizeof text, "%-10s %10s %8s  %-12s %9s %9s %10s %8s %8s %9s\n", "budget", "bytes", "experts", "policy", "prefill %", "decode %", "misses/tok", "regret", "closed", "tok/s");
    std::string out = static_cast<const char*>(text);
    const auto optional = [](const auto& value, int digits, double scale) { return value ? svg::number(static_cast<double>(*value) * scale, digits) : std::string("-"); };
    for (const ReplayCurvePoint& p : report.points) {
      const double per_token = routes.n_decoded == 0 ? 0 : static_cast<double>(p.counts.misses_in(Phase::decode)) / static_cast<double>(routes.n_decoded);
      const std::string closed = p.gap_closed ? svg::number(*p.gap_closed * 100, 0) + " %" : std::string("-");
      std::snprintf(text, sizeof text, "%-10s %10s %8llu  %-12s %9.1f %9.1f %10.1f %8s %8s %9s\n", p.budget.c_str(), to_text(p.bytes).c_str(), static_cast<unsigned long long>(p.slots), p.policy.c_str(), 100 * p.counts.hit_rate(Phase::prefill), 100 * p.counts.hit_rate(Phase::decode), per_token,
                    optional(p.regret, 0, 1).c_str(), closed.c_str(), optional(p.tokens_per_second, 2, 1).c_str());
      out += static_cast<const char*>(text);
      for (std::size_t l = 0; request.per_layer && l < p.counts.layers.size(); ++l) {
        const LayerStats& layer = p.counts.layers[l];
        if (layer.hits + layer.misses == 0) continue;
        std::snprintf(text, sizeof text, "%34s layer %-3zu %8.1f %% of %llu\n", "", l, 100 * static_cast<double>(layer.hits) / static_cast<double>(layer.hits + layer.misses), static_cast<unsigned long long>(layer.hits + layer.misses));
        out += static_cast<const char*>(text);
      }
    }
    return out;
  }

  /// A whole page, without scripts or anything from elsewhere.
  std::string html() const {
    const RouteHeader& h = routes.header;
    std::string out = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Cache replay: " + svg::escape(h.model) + "</title>\n<style>\n" + std::string(kStyle) + "</style></head><body>\n";
    out += "<h1>What a cache of experts would have hit</h1>\n<p>" + svg::escape(h.model) + ", " + std::to_string(h.n_layers()) + " layers, " + std::to_string(h.top_k) + " of " + std::to_string(h.n_experts) + " experts a token; " + std::to_string(routes.n_tokens) + " tokens, " + std::to_string(routes.n_decoded) + " of them decoded. Leases: " + std::string(name_of(request.grouping)) + ". ";
    out += "All experts take " + to_text(report.geometry.all_bytes()) + ", one token&#8217;s " + to_text(report.geometry.token_cycle()) + " (the token cycle).</p>\n";
    for (const std::string& warning : warnings()) out += "<p class=\"warning\">" + svg::escape(warning) + "</p>\n";
    out += "<h2>Hits by memory</h2>\n" + curves([](const ReplayCurvePoint& p) { return 100 * p.counts.hit_rate(Phase::decode); }, "Hits on decoded tokens, %", " %", 100);
    double fastest = 0;
    for (const ReplayCurvePoint& p : report.points) fastest = std::max(fastest, p.tokens_per_second.value_or(0));
    if (fastest > 0) {
      const double unit = std::pow(10, std::floor(std::log10(fastest)));
      out += "<h2>Predicted speed by memory</h2>\n<p>Disk " + svg::number(request.time.disk_rate / 1e9, 2) + " GB/s, weights " + svg::number(request.time.weights_rate / 1e9, 1) + " GB/s (" + svg::escape(request.time.origin) + "); reads overlap " + (request.time.overlap ? "the resident experts of their own layer" : "nothing") + ".</p>\n" +
             curves([](const ReplayCurvePoint& p) { return p.tokens_per_second.value_or(0); }, "Decoded tokens a second", " tok/s", std::ceil(fastest / unit) * unit);
    }
    std::uint64_t all = 0;
    for (const std::uint64_t n : statistics.reuse) all += n;
    std::vector<std::pair<std::string, double>> bars;
    for (std::size_t i = 0; i < statistics.reuse.size() && all > 0; ++i) bars.emplace_back(distance_name(i), 100 * static_cast<double>(statistics.reuse[i]) / static_cast<double>(all));
    out += "<h2>Reuse</h2>\n" + svg::bar_chart("Tokens since an expert was last used, share of decode accesses", bars);
    out += "<table><tr><th>tokens apart</th><th>experts shared</th><th>in random order</th><th>standard deviations</th></tr>\n";
    for (const LagOverlap& o : statistics.overlaps) out += "<tr><td>" + std::to_string(o.lag) + "</td><td>" + svg::number(100 * o.shared) + " %</td><td>" + svg::number(100 * o.expected) + " %</td><td>" + svg::number(o.z) + "</td></tr>\n";
    out += "</table>\n<h2>Which experts</h2>\n" + svg::heat_map(statistics.uses);
    out += "<h2>All figures</h2>\n<div class=\"wide\"><table><tr><th>budget</th><th>bytes</th><th>experts held</th><th>slots</th><th>policy</th><th>prefill hits</th><th>decode hits</th><th>misses a token</th><th>regret</th><th>gap closed</th><th>tok/s</th></tr>\n";
    for (const ReplayCurvePoint& p : report.points)
      out += "<tr><td>" + svg::escape(p.budget) + "</td><td>" + to_text(p.bytes) + "</td><td>" + std::to_string(p.slots) + "</td><td>" + slot_kind(p) + "</td><td>" + p.policy + "</td><td>" + svg::number(100 * p.counts.hit_rate(Phase::prefill)) + " %</td><td>" + svg::number(100 * p.counts.hit_rate(Phase::decode)) + " %</td><td>" +
             svg::number(routes.n_decoded == 0 ? 0 : static_cast<double>(p.counts.misses_in(Phase::decode)) / static_cast<double>(routes.n_decoded)) + "</td><td>" + (p.regret ? std::to_string(*p.regret) : "") + "</td><td>" + (p.gap_closed ? svg::number(100 * *p.gap_closed, 0) + " %" : "") + "</td><td>" + (p.tokens_per_second ? svg::number(*p.tokens_per_second, 2) : "") + "</td></tr>\n";
    out += "</table></div>\n<p class=\"small\">Regret: misses more than Belady&#8217;s rule, which knows the future. Gap closed: of LRU&#8217;s misses beyond Belady&#8217;s, how many the policy saves. Uniform slots fit any expert; typed ones are divided by size, as the engine divides its memory.</p>\n<h2>Where the trace comes from</h2>\n<pre>" +
           svg::escape(nlohmann::ordered_json{{"model", h.to_json()["model"]}, {"prompt_sha256", h.prompt_sha256}, {"sampler", h.sampler}, {"lossy", h.lossy}, {"settings", h.settings}, {"source", h.source}}.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)) + "</pre>\n</body></html>\n";
    return out;
  }

 private:
  static constexpr std::string_view kStyle =
      ":root{color-scheme:light dark;--ink:#1b1b1b;--dim:#5d5d5d;--paper:#fff;--line:#dcdcdc}\n"
      "@media (prefers-color-scheme:dark){:root{--ink:#eee;--dim:#aaa;--paper:#161616;--line:#3a3a3a}}\n"
      "body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:62rem;margin:2rem auto;padding:0 1rem}\n"
      "svg{width:100%;height:auto}svg text{fill:var(--ink);font-family:inherit}.tick{font-size:12px;fill:var(--dim)!important}.note{font-size:13px}.title{font-size:14px;font-weight:600}\n"
      ".grid{stroke:var(--line);stroke-width:1}.mark{stroke:var(--dim);stroke-width:1.5;stroke-dasharray:2 4}\n"
      ".wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:14px}td{white-space:nowrap}td,th{padding:.15rem .6rem;border-bottom:1px solid var(--line);text-align:right}\n"
      ".warning{border-left:4px solid #d55e00;padding-left:.8rem;font-weight:600}.small,pre{font-size:13px;color:var(--dim)}pre{white-space:pre-wrap;overflow-wrap:anywhere}\n";

  static std::string slot_kind(const ReplayCurvePoint& p) { return p.kind == SlotKind::typed ? "typed" : "uniform"; }
  static std::string phase_name(Phase phase) { return phase == Phase::prefill ? "prefill" : "decode"; }
  static std::string distance_name(std::size_t i) {
    const auto& d = TraceStatistics::kDistances;
    if (i == d.size()) return "more";
    if (i > d.size()) return "first use";
    return i == 0 || d[i] == d[i - 1] + 1 ? std::to_string(d[i]) : std::to_string(d[i - 1] + 1) + "-" + std::to_string(d[i]);
  }
  std::uint64_t cycle_slots() const {
    std::uint64_t n = 0;
    for (const auto& c : report.geometry.classes()) n += std::uint64_t{c.n_layers} * report.geometry.top_k();
    return n;
  }
  std::uint64_t all_experts() const { return cycle_slots() / report.geometry.top_k() * report.geometry.n_experts(); }

  template <class Fn>
  void each_curve(Fn&& fn) const {
    for (const ReplayCurvePoint& point : report.points)
      for (const Phase phase : {Phase::prefill, Phase::decode})
        if (point.counts.hits_in(phase) + point.counts.misses_in(phase) != 0) fn(point, phase);
  }

  template <class Value>
  std::string curves(Value&& value, std::string y_title, const std::string& unit, double y_most) const {
    svg::LineChart chart;
    chart.x_title = "Experts held, share of all (logarithmic)";
    chart.y_title = std::move(y_title);
    chart.y_most = y_most;
    const auto all = static_cast<double>(all_experts());
    const auto share = [&](std::uint64_t slots) { return 100 * static_cast<double>(slots) / all; };
    for (const std::string& policy : request.policies) {
      std::map<std::uint64_t, svg::Point> by_slots;
      for (const ReplayCurvePoint& p : report.points)
        if (p.policy == policy) by_slots[p.slots] = {share(p.slots), value(p), std::to_string(p.slots) + " experts (" + to_text(p.bytes) + "), " + svg::number(value(p)) + unit};
      svg::Line& line = chart.lines.emplace_back();
      line.name = policy == Belady::name.view() ? policy + " (the bound)" : policy;
      line.dashed = policy == Belady::name.view();
      for (auto& [slots, point] : by_slots) line.points.push_back(std::move(point));
    }
    chart.marks.push_back({share(cycle_slots()), "token cycle"});
    if (report.recorded_slots && *report.recorded_slots <= all_experts()) chart.marks.push_back({share(*report.recorded_slots), "this run's memory"});
    for (const double tick : {0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0}) chart.x_ticks.emplace_back(tick, svg::number(tick, tick < 1 ? 2 : 0) + " %");
    return chart.text();
  }
};

}  // namespace coli
