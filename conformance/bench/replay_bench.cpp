// SPDX-License-Identifier: Apache-2.0
// How long does a replay of 10^8 accesses take, and how much memory? Each policy over one trace and one budget.
//
//   replay_bench [--accesses N] [--share PERCENT] [--uniform] [--file PATH] [--smoke]
//
// The trace is of Qwen3-30B's shape (48 layers, 128 experts, k = 8). Tokens keep a quarter of the experts of the token
// before, the others come by a popularity that drifts; --uniform: they come evenly and keep nothing, the worst case for a
// cache and for the time. The file is written first, then read, looked over and replayed as `colidrv replay` does it.
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "coli/evidence/load_routes.hpp"
#include "coli/evidence/replay_report.hpp"
#include "coli/evidence/trace_statistics.hpp"
#include "coli/moe/route_trace_writer.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using namespace coli;

constexpr std::uint32_t kLayers = 48, kExperts = 128, kTopK = 8;

class Random {
 public:
  std::uint32_t below(std::uint32_t n) {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
    return static_cast<std::uint32_t>((state_ >> 32) * n >> 32);
  }

 private:
  std::uint64_t state_ = 88172645463325252U;
};

Result<void> write_trace(const std::string& path, std::uint32_t n_tokens, bool uniform) {
  RouteHeader header;
  header.model = uniform ? "made up: even, no memory" : "made up: popular and remembered";
  header.architecture = "qwen3moe";
  header.n_experts = kExperts, header.top_k = kTopK;
  for (std::uint32_t l = 0; l < kLayers; ++l) header.layers.push_back({{884736, 884736, l % 2 == 0 ? 1290240U : 884736U}, 21U << 20});
  COLI_TRY(writer, RouteTraceWriter::create(path, header));
  Random random;
  std::vector<std::uint32_t> by_popularity;  // the most popular ranks stand in it most often
  for (std::uint32_t rank = 0; rank < kExperts; ++rank) by_popularity.insert(by_popularity.end(), 1 + static_cast<std::size_t>(170 * std::exp(-rank / 24.0)), rank);
  std::vector<std::vector<std::uint32_t>> ranked(kLayers, std::vector<std::uint32_t>(kExperts));
  for (auto& experts : ranked)
    for (std::uint32_t i = 0; i < kExperts; ++i) {
      experts[i] = i;
      std::swap(experts[i], experts[random.below(i + 1)]);
    }
  std::vector<std::vector<ExpertId>> last(kLayers);
  const std::vector<float> weights(kTopK, 1.0F / kTopK);
  const std::vector<std::uint8_t> resident(kTopK, 0);
  std::vector<RouteToken> token(1);
  for (std::uint32_t t = 0; t < n_tokens; ++t) {
    token[0].clear();
    token[0].position = token[0].pass = t;
    if (t % 32 == 31) {
      auto& experts = ranked[random.below(kLayers)];
      for (int i = 0; i < 32; ++i) std::swap(experts[random.below(kExperts)], experts[random.below(kExperts)]);
    }
    for (std::uint32_t l = 0; l < kLayers; ++l) {
      std::vector<ExpertId> ids;
      if (!uniform)
        for (const ExpertId id : last[l])
          if (random.below(4) == 0) ids.push_back(id);
      while (ids.size() < kTopK) {
        const ExpertId id{uniform ? random.below(kExperts) : ranked[l][by_popularity[random.below(static_cast<std::uint32_t>(by_popularity.size()))]]};
        if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
      }
      last[l] = ids;
      token[0].add_row(LayerId{l}, 1, 0, ids, weights, resident);
    }
    COLI_CHECK(writer.append(token));
  }
  return writer.finish(RouteHeader::Json::object());
}

Result<void> run(const std::string& path, std::uint64_t n_accesses, const std::string& share, bool uniform) {
  COLI_CHECK(write_trace(path, static_cast<std::uint32_t>(n_accesses / (kLayers * kTopK) + 1), uniform));
  auto start = Clock::now();
  const auto lap = [&] {
    const auto now = Clock::now();
    return std::chrono::duration<double>(now - std::exchange(start, now)).count();
  };
  lap();
  COLI_TRY(routes, load_routes(path));
  const double loading = lap();
  const bool memoryless = TraceStatistics::of(routes.accesses).memoryless();
  const double looking = lap();
  std::printf("%zu accesses in %.0f MB: read in %.2f s, looked over in %.2f s (%s), %s of the experts\n", routes.accesses.n_accesses(), static_cast<double>(std::filesystem::file_size(path)) / 1e6, loading, looking, memoryless ? "memoryless" : "tokens remember", share.c_str());
  ReplayRequest request;
  COLI_TRY(budgets, parse_budgets(share));
  request.budgets = std::move(budgets);
  for (const std::string& policy : replay_policy_names()) {
    request.policies = {policy};
    lap();
    COLI_TRY(report, replay_all(routes, request));
    const double replaying = lap();
    struct rusage used {};
    ::getrusage(RUSAGE_SELF, &used);
    std::printf("%-13s %5.1f %% hits   replayed in %5.2f s, %5.2f s in all   peak so far %.2f GB\n", policy.c_str(), 100 * report.points[0].counts.hit_rate(Phase::decode), replaying, loading + looking + replaying, static_cast<double>(used.ru_maxrss) / 1e6);
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t n_accesses = 100'000'000;
  std::string share = "25%", path = (std::filesystem::temp_directory_path() / ("coli-replay-bench-" + std::to_string(::getpid()))).string();
  bool uniform = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--smoke") n_accesses = 100'000;
    else if (word == "--uniform") uniform = true;
    else if (word == "--accesses" && i + 1 < argc) n_accesses = std::strtoull(argv[++i], nullptr, 10);
    else if (word == "--share" && i + 1 < argc) share = argv[++i] + std::string("%");
    else if (word == "--file" && i + 1 < argc) path = argv[++i];
    else return std::fprintf(stderr, "replay_bench: '%s' is no option; see the head of conformance/bench/replay_bench.cpp\n", argv[i]), 2;
  }
  const auto done = run(path, n_accesses, share, uniform);
  std::error_code none;
  std::filesystem::remove(path, none);
  if (!done) std::fprintf(stderr, "replay_bench: %s\n", done.error().message.c_str());
  return done ? 0 : 1;
}
