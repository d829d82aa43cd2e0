// SPDX-License-Identifier: Apache-2.0
// What every sampler must do, whatever it is: the laws of contracts/sampler.hpp, run over any of them.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "coli/conformance/findings.hpp"
#include "coli/contracts/sampler.hpp"

namespace coli::conformance {

inline constexpr float kNever = -std::numeric_limits<float>::infinity();

/// Logits of which about a third are ties and a tenth may never be sampled; the last is always a candidate.
inline std::vector<float> some_logits(std::mt19937& random, std::size_t n) {
  std::vector<float> logits(n);
  for (float& logit : logits) {
    const auto r = random();
    logit = r % 10 == 0 ? kNever : r % 3 == 0 ? 1.5F : static_cast<float>(static_cast<int>(r >> 8) % 4001 - 2000) / 500;
  }
  logits.back() = 0.25F;
  return logits;
}

/// `make(seed)` gives a fresh sampler; one that draws nothing ignores the seed.
template <Sampler S, class Make>
Findings check_sampler_laws(Make&& make) {
  static_assert(require_sampler<S>());
  Findings laws("sampler");
  std::mt19937 random(7);
  std::vector<std::vector<float>> steps;
  for (std::size_t step = 0; step < 200; ++step) steps.push_back(some_logits(random, 1 + step % 67));

  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, std::numeric_limits<std::uint64_t>::max()}) {
    S one = make(seed), two = make(seed);
    for (const std::vector<float>& logits : steps) {
      const std::vector<float> before = logits;
      const Result<TokenId> a = one.next(logits), b = two.next(logits);
      if (!laws.check(a && b, "finite logits give a token")) continue;
      laws.check(*a == *b, "the same seed and logits give the same tokens");
      if (!laws.check(a->value >= 0 && static_cast<std::size_t>(a->value) < logits.size(), "a token is one of those that have a logit")) continue;
      laws.check(logits[static_cast<std::size_t>(a->value)] != kNever, "a token of logit -infinity is never picked");
      laws.check(logits == before, "logits are only read");
    }
  }

  for (std::size_t n : {1U, 2U, 65U, 1000U})
    for (const std::size_t at : {std::size_t{0}, n / 2, n - 1})
      for (const float value : {-std::numeric_limits<float>::max(), -90.0F, 0.0F, 88.0F, std::numeric_limits<float>::max()}) {
        std::vector<float> logits(n, kNever);
        logits[at] = value;
        S sampler = make(3);
        const Result<TokenId> token = sampler.next(logits);
        laws.check(token && token->value == static_cast<std::int32_t>(at), "one candidate is the answer, wherever it stands");
      }

  const float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const float bad : {kNan, -kNan, std::numeric_limits<float>::infinity()})
    for (const std::size_t at : {0U, 1U, 4U}) {
      S sampler = make(5);
      std::vector<float> logits{1, 5, kNever, 2, 3};
      logits[at] = bad;
      const Result<TokenId> token = sampler.next(logits);
      if (!laws.check(!token, "a logit of NaN or +infinity is an error")) continue;
      laws.check(token.error().code == Errc::internal && token.error().line().find('\n') == std::string::npos, "the error is internal, and one line", token.error().line());
      laws.check(sampler.next(std::vector<float>{1, 2}).has_value(), "a sampler goes on after an error");
    }
  for (const std::size_t n : {0U, 1U, 40U}) {
    S sampler = make(5);
    laws.check(!sampler.next(std::vector<float>(n, kNever)), "no candidate is an error");
    laws.check(!sampler.next(std::vector<float>(n + 1, kNan)), "a logit of NaN or +infinity is an error");
    laws.check(sampler.next(std::vector<float>{1, 2}).has_value(), "a sampler goes on after an error");
  }
  return laws;
}

/// Of a sampler whose temperature is 0 in any spelling: the largest logit, the lower id where it stands more than once.
template <Sampler S, class Make>
Findings check_is_greedy(Make&& make) {
  Findings laws("greedy sampler");
  S sampler = make();
  const auto expect = [&](std::vector<float> logits, std::int32_t id, std::string_view law) {
    const auto token = sampler.next(logits);
    laws.check(token && token->value == id, law);
  };
  constexpr std::string_view kTies = "ties go to the lower id", kLargest = "the largest logit wins";
  expect({1, 2, 2, 1}, 1, kTies);
  expect({2, 1, 2}, 0, kTies);
  expect({-0.0F, 0.0F}, 0, kTies);
  expect({0.0F, -0.0F}, 0, kTies);
  expect({-3, -2, -2}, 1, kTies);
  expect({kNever, -1e30F, kNever, -1e30F}, 1, kTies);
  expect({1, std::nextafter(1.0F, 2.0F)}, 1, kLargest);
  std::mt19937 random(11);
  for (std::size_t step = 0; step < 300; ++step) {
    const std::vector<float> logits = some_logits(random, 1 + step);
    std::size_t best = 0;
    for (std::size_t i = 1; i < logits.size(); ++i)
      if (logits[i] > logits[best]) best = i;
    expect(logits, static_cast<std::int32_t>(best), kLargest);
  }
  return laws;
}

}  // namespace coli::conformance
