// SPDX-License-Identifier: Apache-2.0
// Which tokens do the filters leave, how often is each drawn, and is it the same everywhere?
#include "coli/sample/random_sampler.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "laws_sampler.hpp"

namespace coli {
namespace {

using test::kNever;
using Ids = std::vector<std::int32_t>;

SamplingOptions plain() { return {.temperature = 1}; }

/// What a sampler of these options can draw: the ids seen in 3000 draws. Every candidate of the tests below is likelier
/// than one in 50, so none is missed by chance.
std::set<std::int32_t> drawn_from(const std::vector<float>& logits, SamplingOptions options, const Ids& seen = {}) {
  options.seed = 99;
  RandomSampler sampler(options);
  for (const std::int32_t id : seen) sampler.saw(TokenId{id});
  std::set<std::int32_t> ids;
  for (int i = 0; i < 3000; ++i) ids.insert(sampler.next(logits)->value);
  return ids;
}
using Set = std::set<std::int32_t>;

BOOST_AUTO_TEST_SUITE(random_sampler)

BOOST_AUTO_TEST_CASE(laws) {
  SamplingOptions every = plain();
  every.top_k = 7, every.top_p = 0.9, every.min_p = 0.02, every.repeat_penalty = 1.3;
  for (SamplingOptions options : {plain(), SamplingOptions{}, every, SamplingOptions{.temperature = 0}, SamplingOptions{.temperature = 1e6}})
    test::check_sampler_laws<RandomSampler>([options](std::uint64_t seed) {
      SamplingOptions seeded = options;
      seeded.seed = seed;
      return RandomSampler(seeded);
    });
}

BOOST_AUTO_TEST_CASE(no_temperature_is_greedy) {
  for (const double zero : {0.0, -0.0})
    test::check_is_greedy<RandomSampler>([&] { return RandomSampler(SamplingOptions{.temperature = zero, .top_k = 3, .top_p = 0.5, .seed = 4}); });
  test::check_is_greedy<RandomSampler>([] { return RandomSampler(SamplingOptions{.temperature = 1, .top_k = 1}); });
}

// Dividing by next to nothing gives infinities; they must not become NaN.
BOOST_AUTO_TEST_CASE(next_to_no_temperature_draws_among_the_largest_only) {
  for (const double temperature : {1e-30, std::numeric_limits<double>::denorm_min()}) {
    const SamplingOptions cold{.temperature = temperature};
    BOOST_TEST((drawn_from({1, 3, std::nextafter(3.0F, 0.0F), 2}, cold) == Set{1}));
    BOOST_TEST((drawn_from({3, 1, 3, kNever, 3}, cold) == Set{0, 2, 4}));  // ties are equally likely, not an error
    BOOST_TEST((drawn_from({-std::numeric_limits<float>::max(), std::numeric_limits<float>::max()}, cold) == Set{1}));
  }
}

// Ids that another implementation drew from the definition: xoshiro256**, weights exp((logit - largest) / temperature),
// the first candidate whose cumulated weight passes uniform * total, in order of ids, or of rank where top-k or top-p
// ranked them. No draw lies closer than 1e-4 to a boundary, so no libm's last bit can move it.
BOOST_AUTO_TEST_CASE(golden_draws) {
  const std::vector<float> logits{1.5F, -0.25F, 3, 0.75F, 2.25F, -4, 2.25F, 0, kNever, 1};
  const auto draw = [&](SamplingOptions options, const Ids& seen = {}) {
    RandomSampler sampler(options);
    for (const std::int32_t id : seen) sampler.saw(TokenId{id});
    Ids ids;
    for (int i = 0; i < 20; ++i) {
      ids.push_back(sampler.next(logits)->value);
      sampler.saw(TokenId{ids.back()});
    }
    return ids;
  };
  BOOST_TEST((draw({.temperature = 1, .seed = 0}) == Ids{4, 6, 1, 2, 4, 9, 2, 3, 6, 6, 2, 0, 2, 4, 2, 2, 4, 2, 4, 0}));
  BOOST_TEST((draw({.temperature = 1, .seed = 42}) == Ids{0, 2, 4, 6, 9, 6, 4, 6, 6, 4, 4, 2, 6, 2, 4, 6, 4, 6, 4, 4}));
  BOOST_TEST((draw({.temperature = 0.5, .seed = 42}) == Ids{2, 2, 2, 6, 9, 4, 4, 6, 4, 2, 2, 2, 4, 2, 4, 6, 2, 6, 4, 4}));
  BOOST_TEST((draw({.temperature = 1, .top_k = 3, .seed = 7}) == Ids{4, 2, 6, 6, 6, 6, 2, 2, 2, 2, 4, 4, 6, 6, 2, 4, 2, 2, 2, 2}));
  BOOST_TEST((draw({.temperature = 1, .top_p = 0.8, .seed = 7}) == Ids{6, 2, 6, 0, 0, 6, 2, 2, 2, 2, 4, 6, 0, 6, 2, 4, 2, 4, 2, 2}));
  BOOST_TEST((draw({.temperature = 1, .min_p = 0.2, .seed = 7}) == Ids{4, 2, 6, 6, 6, 6, 0, 2, 2, 2, 2, 4, 6, 6, 2, 2, 2, 2, 2, 2}));
  BOOST_TEST((draw({.temperature = 1.3, .top_k = 6, .top_p = 0.9, .min_p = 0.1, .repeat_penalty = 1.2, .seed = 123456789}, {2, 5}) ==
              Ids{0, 0, 2, 4, 0, 6, 4, 6, 2, 2, 2, 4, 2, 2, 9, 6, 4, 6, 0, 2}));
}

BOOST_AUTO_TEST_CASE(another_seed_draws_other_tokens) {
  const std::vector<float> logits(100, 0.5F);
  RandomSampler one({.temperature = 1, .seed = 1}), two({.temperature = 1, .seed = 2});
  int same = 0;
  for (int i = 0; i < 100; ++i) same += *one.next(logits) == *two.next(logits);
  BOOST_TEST(same < 10);
}

// 40,000 draws; each count within four standard deviations of what the softmax says.
BOOST_AUTO_TEST_CASE(tokens_are_drawn_as_often_as_they_are_likely) {
  const std::vector<float> logits{0, 1, 2, -1, kNever, 1};
  for (const double temperature : {0.7, 1.0, 2.0}) {
    RandomSampler sampler({.temperature = temperature, .seed = 2026});
    constexpr int kDraws = 40000;
    std::vector<double> counts(logits.size());
    for (int i = 0; i < kDraws; ++i) ++counts[static_cast<std::size_t>(sampler.next(logits)->value)];
    double total = 0;
    for (const float logit : logits) total += std::exp(logit / temperature);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const double p = std::exp(logits[i] / temperature) / total;
      BOOST_TEST(std::abs(counts[i] - kDraws * p) <= 4 * std::sqrt(kDraws * p * (1 - p)), "token " << i << " at " << temperature);
    }
  }
}

BOOST_AUTO_TEST_CASE(top_k) {
  const std::vector<float> logits{1, 2, 2, 1.5F, 2};
  auto keep = [&](std::uint32_t k) {
    SamplingOptions options = plain();
    options.top_k = k;
    return drawn_from(logits, options);
  };
  BOOST_TEST((keep(0) == Set{0, 1, 2, 3, 4}));  // off
  BOOST_TEST((keep(1) == Set{1}));
  BOOST_TEST((keep(2) == Set{1, 2}));  // the tie at the edge goes to the lower id
  BOOST_TEST((keep(3) == Set{1, 2, 4}));
  BOOST_TEST((keep(4) == Set{1, 2, 3, 4}));
  BOOST_TEST((keep(5) == Set{0, 1, 2, 3, 4}));
  BOOST_TEST((keep(4'000'000'000U) == Set{0, 1, 2, 3, 4}));
}

// Tied logits have the weight 1 exactly, so that the boundary is exact too.
BOOST_AUTO_TEST_CASE(top_p) {
  const auto keep = [](const std::vector<float>& logits, double p) {
    SamplingOptions options = plain();
    options.top_p = p;
    return drawn_from(logits, options);
  };
  const std::vector<float> four{3, 3, 3, 3};
  BOOST_TEST((keep(four, 1e-12) == Set{0}));  // never fewer than one
  BOOST_TEST((keep(four, 0.25) == Set{0}));
  BOOST_TEST((keep(four, 0.5) == Set{0, 1}));
  BOOST_TEST((keep(four, std::nextafter(0.5, 1.0)) == Set{0, 1, 2}));
  BOOST_TEST((keep(four, 0.75) == Set{0, 1, 2}));
  BOOST_TEST((keep(four, std::nextafter(1.0, 0.0)) == Set{0, 1, 2, 3}));
  BOOST_TEST((keep(four, 1) == Set{0, 1, 2, 3}));
  // Probabilities .64, .24, .09, .03 (powers of e apart): the likeliest first, whatever their ids.
  const std::vector<float> falling{1, 3, 0, 2};
  BOOST_TEST((keep(falling, 0.6) == Set{1}));
  BOOST_TEST((keep(falling, 0.7) == Set{1, 3}));
  BOOST_TEST((keep(falling, 0.9) == Set{0, 1, 3}));
  BOOST_TEST((keep(falling, 0.98) == Set{0, 1, 2, 3}));
  // More candidates than are sorted at first: the boundary lies in the second and third stretch.
  const std::vector<float> many(1000, -1.0F);
  for (const std::size_t n : {64U, 65U, 600U}) {
    RandomSampler sampler({.temperature = 1, .top_p = static_cast<double>(n) / 1000, .seed = 5});
    std::int32_t largest = 0;
    for (int i = 0; i < 20000; ++i) largest = std::max(largest, sampler.next(many)->value);
    BOOST_TEST(largest == static_cast<std::int32_t>(n) - 1);
  }
}

BOOST_AUTO_TEST_CASE(min_p) {
  const auto keep = [](const std::vector<float>& logits, double p) {
    SamplingOptions options = plain();
    options.min_p = p;
    return drawn_from(logits, options);
  };
  const std::vector<float> falling{1, 3, 0, 2};  // relative to the likeliest: .135, 1, .050, .368
  BOOST_TEST((keep(falling, 0) == Set{0, 1, 2, 3}));
  BOOST_TEST((keep(falling, 0.04) == Set{0, 1, 2, 3}));
  BOOST_TEST((keep(falling, 0.1) == Set{0, 1, 3}));
  BOOST_TEST((keep(falling, 0.3) == Set{1, 3}));
  BOOST_TEST((keep(falling, 0.5) == Set{1}));
  BOOST_TEST((keep({3, 1, 3}, 1) == Set{0, 2}));  // as likely as the likeliest
}

// A token that the logits don't have, the first of those above all: not penalised, and nothing beyond them is touched.
BOOST_AUTO_TEST_CASE(tokens_outside_the_vocabulary_are_seen_in_vain) {
  RandomSampler sampler({.temperature = 0, .repeat_penalty = 1.5});
  for (const std::int32_t id : {-1, 4, 5, 1 << 30}) sampler.saw(TokenId{id});
  const std::vector<float> logits{1, 3, 2, 2.5F};
  BOOST_TEST(sampler.next(logits)->value == 1);
}

BOOST_AUTO_TEST_CASE(repetition_penalty) {
  const auto greedy = [](const std::vector<float>& logits, double penalty, const Ids& seen) {
    return *drawn_from(logits, {.temperature = 0, .repeat_penalty = penalty}, seen).begin();
  };
  BOOST_TEST(greedy({3, 2, -1}, 1, {0, 0}) == 0);        // off
  BOOST_TEST(greedy({3, 2, -1}, 2, {0}) == 1);           // 3 / 2
  BOOST_TEST(greedy({3, 2, -1}, 1.5, {0}) == 0);         // 3 / 1.5 ties with 2: the lower id
  BOOST_TEST(greedy({3, 2, -1}, 1.4, {0, 0, 0}) == 0);   // once, however often it was seen
  BOOST_TEST(greedy({-1, -1.5F}, 2, {0}) == 1);          // negative logits are multiplied
  BOOST_TEST(greedy({0, -0.5F}, 1000, {0}) == 0);        // nothing to divide
  BOOST_TEST(greedy({3, 2.9F}, 0.5, {1}) == 1);          // below 1 it rewards
  BOOST_TEST(greedy({3, 2}, 2, {-1, 7, 2147483647}) == 0);  // ids beyond the logits
  // Never sampled stays so, and a huge factor makes no infinity.
  BOOST_TEST(greedy({kNever, -5}, 0.001, {0}) == 1);
  BOOST_TEST(greedy({kNever, -5}, 1000, {0, 1}) == 1);
  BOOST_TEST(greedy({3e38F, 1}, 1e-6, {0}) == 0);
  BOOST_TEST(greedy({-3e38F, -3.1e38F}, 1e6, {0, 1}) == 0);
  RandomSampler nan({.temperature = 0, .repeat_penalty = 2});
  nan.saw(TokenId{0});
  BOOST_TEST(!nan.next(std::vector<float>{std::numeric_limits<float>::quiet_NaN(), 1}).has_value());
}

BOOST_AUTO_TEST_CASE(filters_apply_in_their_order) {
  // top-k leaves two of four, of which top-p's half is one; the other way round both would stay.
  BOOST_TEST((drawn_from({3, 3, 3, 3}, {.temperature = 1, .top_k = 2, .top_p = 0.5}) == Set{0}));
  // The temperature comes before top-p and min-p: .88 and .12 at 1 are .62 and .38 at 4.
  BOOST_TEST((drawn_from({2, 0}, {.temperature = 1, .top_p = 0.8}) == Set{0}));
  BOOST_TEST((drawn_from({2, 0}, {.temperature = 4, .top_p = 0.8}) == Set{0, 1}));
  BOOST_TEST((drawn_from({2, 0}, {.temperature = 1, .min_p = 0.3}) == Set{0}));
  BOOST_TEST((drawn_from({2, 0}, {.temperature = 4, .min_p = 0.3}) == Set{0, 1}));
  // The penalty comes before top-k.
  BOOST_TEST((drawn_from({3, 2, -1}, {.temperature = 1, .top_k = 1, .repeat_penalty = 2}, {0}) == Set{1}));
  // min-p after top-p: two thirds of {1, 1, e^-1.2} are the first two, and both are as likely as the likeliest.
  BOOST_TEST((drawn_from({3, 1.8F, 3}, {.temperature = 1, .top_p = 0.6, .min_p = 0.5}) == Set{0, 2}));
}

BOOST_AUTO_TEST_CASE(options_out_of_range_are_named) {
  const auto line = [](SamplingOptions options) {
    const auto valid = options.validate();
    if (valid) return std::string("ok");
    BOOST_TEST((valid.error().code == Errc::usage));
    return valid.error().line();
  };
  BOOST_TEST(line({}) == "ok");
  BOOST_TEST(line({.temperature = 0, .top_k = 1, .top_p = 1e-300, .min_p = 1, .repeat_penalty = 1e-300}) == "ok");
  BOOST_TEST(line({.temperature = 1e6, .repeat_penalty = 1e6}) == "ok");
  BOOST_TEST(line({.temperature = -1}) == "--temp: -1 is out of range; expected 0 (greedy) to 1000000");
  BOOST_TEST(line({.temperature = -1e-9}) == "--temp: -1e-09 is out of range; expected 0 (greedy) to 1000000");
  BOOST_TEST(line({.temperature = std::nan("")}) == "--temp: nan is out of range; expected 0 (greedy) to 1000000");
  BOOST_TEST(line({.temperature = 1e7}) == "--temp: 1e+07 is out of range; expected 0 (greedy) to 1000000");
  BOOST_TEST(line({.top_p = 0}) == "--top-p: 0 is out of range; expected more than 0, at most 1");
  BOOST_TEST(line({.top_p = 1.5}) == "--top-p: 1.5 is out of range; expected more than 0, at most 1");
  BOOST_TEST(line({.top_p = std::nan("")}) == "--top-p: nan is out of range; expected more than 0, at most 1");
  BOOST_TEST(line({.min_p = -0.1}) == "--min-p: -0.1 is out of range; expected 0 to 1");
  BOOST_TEST(line({.min_p = 2}) == "--min-p: 2 is out of range; expected 0 to 1");
  BOOST_TEST(line({.repeat_penalty = 0}) == "--repeat-penalty: 0 is out of range; expected more than 0, at most 1000000; 1 is off");
  BOOST_TEST(line({.repeat_penalty = -std::numeric_limits<double>::infinity()}) ==
             "--repeat-penalty: -inf is out of range; expected more than 0, at most 1000000; 1 is off");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli
