// SPDX-License-Identifier: Apache-2.0
// Route traces made up for tests: from a formula, with every field in use.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "coli/moe/route_trace.hpp"
#include "coli/moe/route_trace_writer.hpp"

namespace coli::test {

/// A folder that goes away with the test.
class ScratchFolder {
 public:
  ScratchFolder() : path_(std::filesystem::temp_directory_path() / ("coli-test-" + std::to_string(::getpid()) + "-" + std::to_string(count_++))) { std::filesystem::create_directories(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return path_ / name; }

 private:
  static inline int count_ = 0;
  std::filesystem::path path_;
};

inline std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
inline void write_bytes(const std::string& path, std::string_view bytes) { std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size())); }

/// Layer 0 is dense, layer 2's experts are larger.
inline RouteHeader planted_header(std::uint32_t n_layers = 4, std::uint32_t n_experts = 16, std::uint32_t top_k = 3) {
  RouteHeader h;
  h.model = "planted.gguf", h.architecture = "qwen3moe", h.model_sha256 = std::string(64, 'a'), h.prompt_sha256 = std::string(64, '0');
  h.n_experts = n_experts, h.top_k = top_k;
  for (std::uint32_t l = 0; l < n_layers; ++l) h.layers.push_back({l == 0 ? std::array<std::uint64_t, 3>{} : std::array<std::uint64_t, 3>{640, 640, l == 2 ? 1280U : 640U}, 1000 + l});
  h.sampler = {{"temperature", 0}};
  h.lossy = {{"expert_dropping", false}};
  h.settings = {{"policy", "lru"}};
  h.source = {{"kind", "planted"}};
  return h;
}

/// A prompt of `n_prompt` tokens in one pass, then tokens one by one.
inline std::vector<RouteToken> planted_tokens(const RouteHeader& h, std::uint32_t n_prompt, std::uint32_t n_decoded, std::uint64_t seed = 1) {
  std::vector<RouteToken> tokens;
  std::uint64_t state = seed * 0x9E3779B97F4A7C15U + 1;
  const auto below = [&](std::uint64_t n) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state % n;
  };
  for (std::uint32_t t = 0; t < n_prompt + n_decoded; ++t) {
    RouteToken& token = tokens.emplace_back();
    token.position = t;
    token.pass = t < n_prompt ? 0 : t - n_prompt + (n_prompt > 0 ? 1 : 0);
    token.phase = t < n_prompt ? RoutePhase::prefill : RoutePhase::decode;
    for (std::uint32_t l = 0; l < h.n_layers(); ++l) {
      if (h.layers[l].expert() == 0) continue;
      std::vector<ExpertId> ids;
      std::vector<float> weights;
      std::vector<std::uint8_t> resident;
      while (ids.size() < h.top_k) {
        const ExpertId id{static_cast<std::uint32_t>(below(2) == 0 ? below(h.n_experts / 2) : below(h.n_experts))};
        if (std::find(ids.begin(), ids.end(), id) != ids.end()) continue;
        ids.push_back(id);
        weights.push_back(static_cast<float>(below(1000)) / 997);
        resident.push_back(static_cast<std::uint8_t>(below(2)));
      }
      token.add_row(LayerId{l}, static_cast<float>(below(1000)) / 333, static_cast<float>(below(10)) * 1e-4F, ids, weights, resident);
    }
  }
  return tokens;
}

/// Writes and closes it.
inline void write_trace(const std::string& path, const RouteHeader& h, std::span<const RouteToken> tokens, const RouteHeader::Json& counted = {{"hits", 0}, {"misses", 0}}) {
  auto writer = RouteTraceWriter::create(path, h);
  BOOST_REQUIRE(writer);
  BOOST_REQUIRE(writer->append(tokens));
  BOOST_REQUIRE(writer->finish(counted));
}

}  // namespace coli::test
