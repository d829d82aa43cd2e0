// SPDX-License-Identifier: Apache-2.0
// Engines over fixtures, and what they decide.
#pragma once

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <string>
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
