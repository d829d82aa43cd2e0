// SPDX-License-Identifier: Apache-2.0
// Engines over fixtures, and what they decide.
#pragma once

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "coli/core/sha256.hpp"
#include "coli/engine.hpp"
#include "coli/generation.hpp"
#include "coli/profiles.hpp"
#include "golden.hpp"

namespace coli::conformance {

template <class Profile>
engine<Profile> open_fixture(const std::string& name, const EngineOptions& options = {}, typename Profile::Backend::KernelSet kernels = {}) {
  auto opened = engine<Profile>::open(fixture(name), options, std::move(kernels));
  require_ok(opened);
  return std::move(*opened);
}

struct Decisions {
  std::vector<TokenId> ids;
  std::vector<std::vector<float>> logits;  // by step
  std::string hash;                        // of all logits' bits
};

/// Greedy decisions after a prompt; never stops early. Asserts nothing: Boost.Test keeps its log for one thread.
template <class Engine>
Result<Decisions> try_decide(Engine& engine, std::span<const TokenId> prompt, std::size_t n, bool keep_logits = false) {
  GenerationOptions options;
  options.sampling.temperature = 0;
  options.stop_at_end_tokens = false;
  options.max_tokens = static_cast<std::uint32_t>(n);
  Decisions decisions;
  Sha256 hash;
  std::string tail;
  const auto stop = generate(engine, nullptr, prompt, options, tail, [&](const GeneratedToken& token) {
    decisions.ids.push_back(token.id);
    hash.update_values(token.logits);
    if (keep_logits) decisions.logits.emplace_back(token.logits.begin(), token.logits.end());
    return true;
  });
  if (!stop) return stop.error();
  decisions.hash = hash.hex();
  return decisions;
}

/// The same; an error fails the test.
template <class Engine>
Decisions decide(Engine& engine, std::span<const TokenId> prompt, std::size_t n, bool keep_logits = false) {
  auto decisions = try_decide(engine, prompt, n, keep_logits);
  require_ok(decisions);
  return std::move(*decisions);
}

/// How a lane with 8-bit activations decided a model's goldens: as the oracle, or otherwise at one of its near-ties.
struct GoldenCount {
  std::size_t same = 0, near_ties = 0;
  std::size_t decoded = 0;  // passes of one token
};

/// Follows the oracle's ids through every case of `stem`. Any other decision than at a near-tie is an error, said with `who`.
template <class Engine>
GoldenCount count_decisions(Engine& engine, const std::string& stem, std::string_view who) {
  GoldenCount count;
  for (const GoldenCase& c : read_goldens(stem)) {
    require_ok(engine.truncate(0));
    auto logits = engine.prefill(c.prompt);
    for (std::size_t step = 0; step < c.ids.size(); ++step) {
      if (step != 0) logits = engine.step(c.ids[step - 1]), ++count.decoded;
      require_ok(logits);
      const TokenId got = top_two(*logits)->best;
      if (got == c.ids[step]) ++count.same;
      else if (c.is_near_tie(step)) ++count.near_ties;
      else BOOST_ERROR(who << " " << stem << " " << c.id << " step " << step << ": got " << got.value << ", the oracle says " << c.ids[step].value);
    }
  }
  return count;
}

inline std::vector<std::int32_t> numbers(std::span<const TokenId> ids) {
  std::vector<std::int32_t> out;
  for (const TokenId id : ids) out.push_back(id.value);
  return out;
}

#define COLI_CHECK_SAME_IDS(got, expected)                                      \
  do {                                                                          \
    const auto coli_got = ::coli::conformance::numbers(got);                    \
    const auto coli_expected = ::coli::conformance::numbers(expected);          \
    BOOST_CHECK_EQUAL_COLLECTIONS(coli_got.begin(), coli_got.end(), coli_expected.begin(), coli_expected.end()); \
  } while (false)

}  // namespace coli::conformance
