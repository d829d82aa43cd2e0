// SPDX-License-Identifier: Apache-2.0
// Reports say what a replay counted, in every form; figures of an independent replay come out to the decimal.
#include "coli/evidence/replay_report.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "coli/evidence/replay_output.hpp"
#include "coli/evidence/trace_statistics.hpp"
#include "planted_routes.hpp"

namespace coli {
namespace {

LoadedRoutes collect(const RouteHeader& header, const std::vector<RouteToken>& tokens) {
  AccessCollector collector(header);
  for (const RouteToken& token : tokens) collector.add(token);
  return std::move(collector).take();
}

ReplayReport report_of(const LoadedRoutes& routes, const char* policies, const char* budgets, Grouping grouping = Grouping::recorded, TimeModel time = {}) {
  ReplayRequest request;
  request.policies = *parse_policies(policies);
  request.budgets = *parse_budgets(budgets);
  request.grouping = grouping;
  request.time = std::move(time);
  auto report = replay_all(routes, request);
  BOOST_REQUIRE(report);
  return std::move(*report);
}

double percent(double rate) { return std::round(1000 * rate) / 10; }

BOOST_AUTO_TEST_CASE(the_recorded_qwen3_route_gives_the_figures_of_an_independent_replay) {
  const std::string folder = COLI_ROUTES_DIR;
  const auto routes = load_routes(folder + "/qwen.route.csv");
  if (folder.empty() || !routes) {
    BOOST_TEST_MESSAGE("SKIP: no recorded routes (COLI_ROUTES_DIR)");
    return;
  }
  BOOST_TEST(routes->n_decoded == 128U);
  const ReplayReport report = report_of(*routes, "lru,belady", "6.25%,12.5%,25%,50%", Grouping::access);
  const std::vector<double> lru{38.0, 58.2, 82.6, 96.6}, belady{63.5, 80.0, 93.0, 97.1};
  BOOST_TEST_REQUIRE(report.points.size() == 8U);
  for (std::size_t i = 0; i < 4; ++i) {
    BOOST_TEST(percent(report.points[2 * i].counts.hit_rate(Phase::decode)) == lru[i]);
    BOOST_TEST(percent(report.points[2 * i + 1].counts.hit_rate(Phase::decode)) == belady[i]);
    BOOST_TEST(report.points[2 * i].slots == 6144 / (16 >> i));
  }
  // Real slots come in two sizes here (Q4_K and Q6_K down matrices), each with its share: a few tenths off, no more.
  ReplayRequest request;
  request.policies = {"lru", "belady"};
  request.budgets = *parse_budgets("6.25%,12.5%,25%,50%");
  request.grouping = Grouping::access;
  request.slots = SlotKind::typed;
  const ReplayReport typed = *replay_all(*routes, request);
  for (std::size_t i = 0; i < 8; ++i) BOOST_TEST(std::abs(typed.points[i].counts.hit_rate(Phase::decode) - report.points[i].counts.hit_rate(Phase::decode)) < 0.008);
  BOOST_TEST(typed.geometry.classes().size() == 2U);
  // The tokens remember: no flag.
  for (const char* name : {"qwen", "gemma", "gptoss"}) BOOST_TEST(!TraceStatistics::of(load_routes(folder + "/" + name + ".route.csv")->accesses).memoryless(), name);
}

/// Tokens of a fixed popularity that don't remember (`copies` of 100 experts are taken over from the token before).
std::vector<RouteToken> random_tokens(const RouteHeader& h, std::uint32_t n, std::uint32_t copies) {
  std::vector<RouteToken> tokens;
  std::uint64_t state = 12345;
  const auto below = [&](std::uint32_t m) { return static_cast<std::uint32_t>((state = state * 6364136223846793005U + 1442695040888963407U) >> 33) % m; };
  std::vector<std::vector<ExpertId>> last(h.n_layers());
  const std::vector<float> weights(h.top_k, 0.5F);
  const std::vector<std::uint8_t> resident(h.top_k, 0);
  for (std::uint32_t t = 0; t < n; ++t) {
    RouteToken& token = tokens.emplace_back();
    token.position = token.pass = t;
    for (std::uint32_t l = 1; l < h.n_layers(); ++l) {
      std::vector<ExpertId> ids;
      for (const ExpertId id : last[l])
        if (below(100) < copies) ids.push_back(id);
      while (ids.size() < h.top_k) {
        const ExpertId id{std::min(below(h.n_experts), below(h.n_experts))};  // skewed: lower ids are hotter
        if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
      }
      last[l] = ids;
      token.add_row(LayerId{l}, 1, 0, ids, weights, resident);
    }
  }
  return tokens;
}

BOOST_AUTO_TEST_CASE(memoryless_traces_are_flagged) {
  const RouteHeader header = test::planted_header(6, 32, 4);
  for (const std::uint32_t n : {64U, 1000U}) {
    BOOST_TEST(TraceStatistics::of(collect(header, random_tokens(header, n, 0)).accesses).memoryless(), n << " tokens");
    BOOST_TEST(!TraceStatistics::of(collect(header, random_tokens(header, n, 30)).accesses).memoryless(), n << " tokens");
  }
  BOOST_TEST(TraceStatistics::of(collect(header, random_tokens(header, 10, 30)).accesses).too_short());
  // Skew alone raises what tokens share, and is no memory.
  const auto s = TraceStatistics::of(collect(header, random_tokens(header, 1000, 0)).accesses);
  BOOST_TEST(s.overlaps[0].shared > 4.0 / 32 * 1.1);
  BOOST_TEST(std::abs(s.overlaps[0].z) < 4);
}

BOOST_AUTO_TEST_CASE(distances_and_uses_are_counted) {
  const RouteHeader header = test::planted_header(2, 8, 1);
  std::vector<RouteToken> tokens;
  const std::vector<std::uint32_t> experts{3, 3, 5, 3, 5, 5, 6, 0, 1, 2, 3};
  const std::vector<float> weight{1};
  const std::vector<std::uint8_t> resident{0};
  for (std::uint32_t t = 0; t < experts.size(); ++t) {
    RouteToken& token = tokens.emplace_back();
    token.position = token.pass = t;
    const std::vector<ExpertId> ids{ExpertId{experts[t]}};
    token.add_row(LayerId{1}, 1, 0, ids, weight, resident);
  }
  const auto s = TraceStatistics::of(collect(header, tokens).accesses);
  // 3 again after 1, then 2, then 7; 5 again after 2, then 1; six experts for the first time
  BOOST_TEST(s.reuse[0] == 2U);
  BOOST_TEST(s.reuse[1] == 2U);
  BOOST_TEST(s.reuse[2] == 0U);
  BOOST_TEST(s.reuse[3] == 1U);
  BOOST_TEST(s.reuse.back() == 6U);
  BOOST_TEST(s.uses[1][3] == 4U);
  BOOST_TEST(s.uses[1][7] == 0U);
}

BOOST_AUTO_TEST_CASE(predicted_time_is_the_models_own) {
  // One MoE layer, k = 1: every token reads 1000 bytes at 1000 bytes a second, or hits.
  RouteHeader header = test::planted_header(2, 8, 1);
  header.layers[1] = {{400, 300, 300}, 500};
  header.layers[0] = {{}, 1500};
  header.settings["head_bytes"] = 1000;
  std::vector<RouteToken> tokens;
  const std::vector<float> weight{1};
  const std::vector<std::uint8_t> resident{0};
  for (std::uint32_t t = 0; t < 4; ++t) {
    RouteToken& token = tokens.emplace_back();
    token.position = token.pass = t;
    const std::vector<ExpertId> ids{ExpertId{t / 2}};  // 0 0 1 1: two misses, two hits
    token.add_row(LayerId{1}, 1, 0, ids, weight, resident);
  }
  const LoadedRoutes routes = collect(header, tokens);
  const ReplayReport report = report_of(routes, "lru,belady", "100%", Grouping::recorded, {1000, 10000, true, 0, ""});
  // head 0.1, trunk 0.05 (dense layers are not in a route's rows), one expert 0.1, a miss reads for 1 s
  const double seconds = 4 * (0.1 + 0.05 + 0.1) + 2 * 1.0;
  BOOST_TEST(std::abs(*report.points[0].tokens_per_second - 4 / seconds) < 1e-9);
  BOOST_TEST(*report.points[0].regret == 0);
}

/// One MoE layer of 4 experts a token, worked by hand: head 0.1 s, trunk 0.05, an expert computes 0.1 and is read in 0.25.
double seconds_a_token(std::uint32_t n_misses, bool overlap = true, double recall = 0, std::uint32_t tokens = 1) {
  RouteHeader header = test::planted_header(2, 8, 4);
  header.layers = {{{}, 1500}, {{400, 300, 300}, 500}};
  header.settings["head_bytes"] = 1000;
  ReplayClock clock(header, {4000, 10000, overlap, recall, ""});
  for (std::uint32_t t = 0; t < tokens; ++t) clock(LayerId{1}, Phase::decode, 4, n_misses);
  return clock.seconds(tokens) / tokens;
}

BOOST_AUTO_TEST_CASE(predicted_time_is_what_is_worked_out_by_hand) {
  const auto is = [](double seconds, double by_hand) { BOOST_TEST(std::abs(seconds - by_hand) < 1e-12, seconds << " against " << by_hand); };
  is(seconds_a_token(0), 0.1 + 0.05 + 0.4);                // all resident: head, trunk, four experts
  is(seconds_a_token(1), 0.1 + 0.05 + 0.3 + 0.1);          // 0.25 s of reading hide behind three experts; the last arrives, then 0.1
  is(seconds_a_token(2), 0.1 + 0.05 + 0.5 + 0.1);          // 0.5 s of reading outlast two experts
  is(seconds_a_token(4), 0.1 + 0.05 + 1.0 + 0.1);
  is(seconds_a_token(1, false), 0.1 + 0.05 + 0.4 + 0.25);  // nothing hides
  is(seconds_a_token(4, false), 0.1 + 0.05 + 0.4 + 1.0);
  // Guesses are read while the disk idles: never in the first layer, then as far as recall and idle time go.
  is(seconds_a_token(4, true, 0.5, 1), seconds_a_token(4));
  is(2 * seconds_a_token(2, true, 1, 2), 0.2 + 2 * 0.05 + 0.6 + (0.35 + 0.1));  // first: 0.65 s in the layer, 0.15 idle; second: 0.5 - 0.15 to read
}

BOOST_AUTO_TEST_CASE(predicted_time_obeys_its_laws) {
  for (std::uint32_t m = 0; m <= 4; ++m) {
    BOOST_TEST(seconds_a_token(m) <= seconds_a_token(m, false) + 1e-12);            // overlap never costs
    for (const double recall : {0.2, 0.6, 1.0}) BOOST_TEST(seconds_a_token(m, true, recall, 50) <= seconds_a_token(m, true, 0, 50) + 1e-12);
    if (m > 0) BOOST_TEST(seconds_a_token(m) >= seconds_a_token(m - 1));            // a miss never helps
    if (m > 0) BOOST_TEST(seconds_a_token(m, true, 1, 50) >= 0.1 + 0.05 + 0.4 - 1e-9);  // nor less than computing takes
  }
  const RouteHeader header = test::planted_header(2, 8, 4);
  ReplayClock unknown(header, TimeModel{});
  unknown(LayerId{1}, Phase::decode, 4, 2);
  BOOST_TEST(unknown.seconds(0) == 0);
}

BOOST_AUTO_TEST_CASE(outputs_agree_with_the_report) {
  const RouteHeader header = test::planted_header(4, 16, 3);
  LoadedRoutes routes = collect(header, test::planted_tokens(header, 5, 60));
  routes.header.model = "<script>alert(1)</script>&\"";
  ReplayRequest request;
  request.policies = *parse_policies("all");
  request.budgets = *parse_budgets("25%,50%,100%,20K");
  const ReplayReport report = *replay_all(routes, request);
  const TraceStatistics statistics = TraceStatistics::of(routes.accesses);
  const ReplayOutput output{routes, request, report, statistics};
  const auto json = output.json();
  BOOST_TEST(json["curves"].size() == 4 * 6 * 2U);
  for (const auto& curve : json["curves"]) {
    for (const char* field : {"policy", "budget_bytes", "experts", "phase", "hits", "misses", "hit_rate"}) BOOST_TEST(curve.contains(field));
    BOOST_TEST(curve["hits"].get<std::uint64_t>() + curve["misses"].get<std::uint64_t>() > 0U);
    if (curve["policy"] == "belady" && curve["phase"] == "decode") BOOST_TEST(curve["regret"] == 0);
    if (curve["phase"] == "decode") BOOST_TEST(curve["regret"].get<std::int64_t>() >= 0);
  }
  const std::string csv = output.csv();
  BOOST_TEST(std::count(csv.begin(), csv.end(), '\n') == 1 + 4 * 6 * 2);
  const std::string html = output.html();
  BOOST_TEST(html.find("<script") == std::string::npos);
  BOOST_TEST(html.find("&lt;script&gt;") != std::string::npos);
  for (const char* foreign : {"http:", "https:", "src=", "@import", "url("}) BOOST_TEST(html.find(foreign) == std::string::npos, foreign);
  for (const char* part : {"</html>", "token cycle", "belady", "Which experts", "first use"}) BOOST_TEST(html.find(part) != std::string::npos, part);
  std::size_t open = 0, closed = 0;
  for (std::size_t at = html.find("<svg "); at != std::string::npos; at = html.find("<svg ", at + 1)) ++open;
  for (std::size_t at = html.find("</svg>"); at != std::string::npos; at = html.find("</svg>", at + 1)) ++closed;
  BOOST_TEST(open == 3U);
  BOOST_TEST(closed == 3U);
  BOOST_TEST(html.find("NaN") == std::string::npos);
  BOOST_TEST(output.warnings().size() == 1U);  // what was planted is random
}

BOOST_AUTO_TEST_CASE(requests_that_make_no_sense_are_refused_in_words) {
  BOOST_TEST(parse_policies("lru,lfu").error().message == "there is no policy 'lfu'; there are: lru lfu-decay s3-fifo sieve expected-use belady");
  BOOST_TEST((parse_policies("").error().code == Errc::usage));
  for (const char* budgets : {"", "0%", "101%", "-1G", "25%,", "1GB", "nan%", "recorded2"}) BOOST_TEST((parse_budgets(budgets).error().code == Errc::usage), budgets);
  BOOST_TEST(!parse_grouping("group"));
  const RouteHeader header = test::planted_header(4, 16, 3);
  const LoadedRoutes routes = collect(header, test::planted_tokens(header, 5, 20));
  ReplayRequest request;
  request.policies = {"lru"};
  request.budgets = *parse_budgets("1%");
  BOOST_TEST((replay_all(routes, request).error().code == Errc::over_budget));
  request.budgets = *parse_budgets("recorded");
  BOOST_TEST((replay_all(routes, request).error().code == Errc::usage));
  BOOST_TEST((check_against_engine(routes).error().code == Errc::nothing_compared));
}

BOOST_AUTO_TEST_CASE(counters_that_are_not_the_replays_are_a_mismatch) {
  RouteHeader header = test::planted_header(4, 16, 3);
  header.settings = {{"policy", "lru"}, {"slots", 12U}};
  LoadedRoutes routes = collect(header, test::planted_tokens(header, 5, 40));
  routes.counted = RouteHeader::Json{{"hits", 0}, {"misses", 0}};
  BOOST_TEST((check_against_engine(routes).error().code == Errc::mismatch));
  const auto plan = *plan_slots(*geometry_of(header), geometry_of(header)->all_bytes(), 12);
  BOOST_TEST(plan.total() == 12U);
  const ReplayCounts counts = *replay<Lru>(routes.accesses, *geometry_of(header), plan, Grouping::recorded);
  routes.counted = RouteHeader::Json{{"hits", counts.hits[0] + counts.hits[1]}, {"misses", counts.misses[0] + counts.misses[1]}};
  BOOST_TEST(check_against_engine(routes).has_value());
  (*routes.counted)["layers"] = {{{"hits", 0}, {"misses", 0}}, {{"hits", 1}, {"misses", 1}}};  // one layer's are wrong
  BOOST_TEST((check_against_engine(routes).error().code == Errc::mismatch));
}

}  // namespace
}  // namespace coli
