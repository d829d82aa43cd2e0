// SPDX-License-Identifier: Apache-2.0
// What every sampler must do, whatever it is: the laws of contracts/sampler.hpp, run over any of them.
#pragma once

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "coli/contracts/sampler.hpp"

namespace coli::test {

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
void check_sampler_laws(Make&& make) {
  static_assert(require_sampler<S>());
  std::mt19937 random(7);
  std::vector<std::vector<float>> steps;
  for (std::size_t step = 0; step < 200; ++step) steps.push_back(some_logits(random, 1 + step % 67));

  // The same seed and logits give the same tokens; what may never be sampled never is; the logits are only read.
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, std::numeric_limits<std::uint64_t>::max()}) {
    S one = make(seed), two = make(seed);
    for (const std::vector<float>& logits : steps) {
      const std::vector<float> before = logits;
      const Result<TokenId> a = one.next(logits), b = two.next(logits);
      BOOST_TEST_REQUIRE(a.has_value());
      BOOST_TEST_REQUIRE(b.has_value());
      BOOST_TEST((*a == *b));
      BOOST_TEST_REQUIRE((a->value >= 0 && static_cast<std::size_t>(a->value) < logits.size()));
      BOOST_TEST(logits[static_cast<std::size_t>(a->value)] != kNever);
      BOOST_TEST((logits == before));
    }
  }

  // One candidate is the answer, wherever it stands.
  for (std::size_t n : {1U, 2U, 65U, 1000U})
    for (const std::size_t at : {std::size_t{0}, n / 2, n - 1})
      for (const float value : {-std::numeric_limits<float>::max(), -90.0F, 0.0F, 88.0F, std::numeric_limits<float>::max()}) {
        std::vector<float> logits(n, kNever);
        logits[at] = value;
        S sampler = make(3);
        const Result<TokenId> token = sampler.next(logits);
        BOOST_TEST_REQUIRE(token.has_value());
        BOOST_TEST(token->value == static_cast<std::int32_t>(at));
      }

  // What is not finite, or leaves no candidate, is an error; the sampler goes on afterwards.
  const float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const float bad : {kNan, -kNan, std::numeric_limits<float>::infinity()})
    for (const std::size_t at : {0U, 1U, 4U}) {
      S sampler = make(5);
      std::vector<float> logits{1, 5, kNever, 2, 3};
      logits[at] = bad;
      const Result<TokenId> token = sampler.next(logits);
      BOOST_TEST_REQUIRE(!token.has_value());
      BOOST_TEST((token.error().code == Errc::internal));
      BOOST_TEST(token.error().line().find('\n') == std::string::npos);
      BOOST_TEST(sampler.next(std::vector<float>{1, 2}).has_value());
    }
  for (const std::size_t n : {0U, 1U, 40U}) {
    S sampler = make(5);
    BOOST_TEST(!sampler.next(std::vector<float>(n, kNever)).has_value());
    BOOST_TEST(!sampler.next(std::vector<float>(n + 1, kNan)).has_value());
    BOOST_TEST(sampler.next(std::vector<float>{1, 2}).has_value());
  }
}

/// Of a sampler whose temperature is 0 in any spelling: the largest logit, the lower id where it stands more than once.
template <Sampler S, class Make>
void check_is_greedy(Make&& make) {
  S sampler = make();
  const auto next = [&](std::vector<float> logits) { return sampler.next(logits)->value; };
  BOOST_TEST(next({1, 2, 2, 1}) == 1);
  BOOST_TEST(next({2, 1, 2}) == 0);
  BOOST_TEST(next({-0.0F, 0.0F}) == 0);  // equal
  BOOST_TEST(next({0.0F, -0.0F}) == 0);
  BOOST_TEST(next({-3, -2, -2}) == 1);
  BOOST_TEST(next({kNever, -1e30F, kNever, -1e30F}) == 1);
  BOOST_TEST(next({1, std::nextafter(1.0F, 2.0F)}) == 1);
  std::mt19937 random(11);
  for (std::size_t step = 0; step < 300; ++step) {
    const std::vector<float> logits = some_logits(random, 1 + step);
    std::size_t best = 0;
    for (std::size_t i = 1; i < logits.size(); ++i)
      if (logits[i] > logits[best]) best = i;
    BOOST_TEST(next(logits) == static_cast<std::int32_t>(best));
  }
}

}  // namespace coli::test
