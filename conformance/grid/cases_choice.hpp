// SPDX-License-Identifier: Apache-2.0
// Cases of the choices: router top-k, tokens by expert, the next token. Ids are exact; ties go to the lower one.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "cases.hpp"
#include "coli/kernels/grid/group_by_expert.hpp"
#include "coli/kernels/grid/top_k.hpp"
#include "coli/kernels/ref/argmax.hpp"
#include "coli/kernels/ref/top_k.hpp"
#include "conformance/kernels/ref_random.hpp"
#include "conformance/support/tolerance.hpp"

namespace coli::grid::cases {

template <class Device>
void top_k(Device& device, Report& report) {
  struct Shape {
    std::uint32_t n_experts, k;
  };
  constexpr std::uint32_t kTokens = 3;
  for (const Shape s : {Shape{1, 1}, {8, 8}, {31, 4}, {64, 8}, {128, 8}, {130, 65}, {512, 10}})
    for (const bool renormalise : {true, false})
      for (const bool ties : {false, true}) {
        report.context("top_k " + std::to_string(s.k) + " of " + std::to_string(s.n_experts) + (renormalise ? " renormalised" : "") + (ties ? " with ties" : ""));
        std::vector<float> logits = test::random_floats(std::size_t{kTokens} * s.n_experts, s.n_experts, 9);
        if (ties)
          for (float& v : logits) v = v < 0 ? -0.0f : std::round(v / 5);  // a few values, zeros of both signs
        const auto logits_at = device.upload(logits);
        const auto ids_at = device.upload(std::vector<std::uint32_t>(kTokens * s.k, 9999));
        const auto weights_at = device.upload(std::vector<float>(kTokens * s.k, -1));
        const auto gaps_at = device.upload(std::vector<float>(kTokens, -1));
        const auto bad_at = device.upload(std::vector<std::uint32_t>(kTokens, 7));
        const TopK body{logits_at.get(), ids_at.get(), weights_at.get(), gaps_at.get(), bad_at.get(), s.n_experts, s.k, renormalise, 0.5f};
        if (!report.expect_ok(device.launch(body, TopK::shape(kTokens)))) continue;
        const auto ids = download(device, ids_at, report);
        const auto weights = download(device, weights_at, report);
        const auto gaps = download(device, gaps_at, report);
        report.expect(download(device, bad_at, report) == std::vector<std::uint32_t>(kTokens, 0), "calls finite logits bad");
        for (std::uint32_t t = 0; t < kTokens; ++t) {
          const float* mine = logits.data() + std::size_t{t} * s.n_experts;
          std::vector<std::uint32_t> wanted(std::min(s.k + 1, s.n_experts));
          report.expect(ref::top_k(mine, s.n_experts, wanted.size(), wanted.data()), "the reference refuses");
          report.expect(std::equal(ids.begin() + t * s.k, ids.begin() + (t + 1) * s.k, wanted.begin()), "other ids for token " + std::to_string(t));
          report.expect(gaps[t] == (s.k < s.n_experts ? mine[wanted[s.k - 1]] - mine[wanted[s.k]] : kInfinity), "another gap");
          double sum = 0;
          for (std::uint32_t i = 0; i < (renormalise ? s.k : s.n_experts); ++i) sum += std::exp(static_cast<double>(mine[renormalise ? wanted[i] : i]) - static_cast<double>(mine[wanted[0]]));
          for (std::uint32_t i = 0; i < s.k; ++i) {
            const double exact = std::exp(static_cast<double>(mine[wanted[i]]) - static_cast<double>(mine[wanted[0]])) / sum * 0.5;
            // exp's argument is rounded: relative to a range of 18, that is 18 u in the result
            report.expect(std::abs(static_cast<double>(weights[t * s.k + i]) - exact) <= (test::gamma_n(s.n_experts + 40) + 0x1p-20) * exact, "weight " + std::to_string(i) + " of token " + std::to_string(t));
          }
        }
      }
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity}) {
    report.context("top_k with " + std::to_string(bad));
    std::vector<float> logits = test::random_floats(2 * 40, 3);
    logits[75] = bad;
    const auto logits_at = device.upload(logits);
    const auto ids_at = device.upload(std::vector<std::uint32_t>(4));
    const auto weights_at = device.upload(std::vector<float>(4));
    const auto bad_at = device.upload(std::vector<std::uint32_t>(2, 7));
    report.expect_ok(device.launch(TopK{logits_at.get(), ids_at.get(), weights_at.get(), nullptr, bad_at.get(), 40, 2, true, 1}, TopK::shape(2)));
    report.expect(download(device, bad_at, report) == std::vector<std::uint32_t>({0, 1}), "is not noticed");
  }
}

template <class Device>
void group_by_expert(Device& device, Report& report) {
  struct Shape {
    std::uint32_t n_experts, top_k, n_tokens;
  };
  for (const Shape s : {Shape{1, 1, 1}, {8, 8, 3}, {33, 2, 40}, {128, 8, 5}, {512, 10, 7}}) {
    report.context("group_by_expert " + std::to_string(s.n_experts) + " for " + std::to_string(s.n_tokens));
    const std::uint32_t n_uses = s.n_tokens * s.top_k;
    std::vector<std::uint32_t> ids(n_uses);
    for (std::uint32_t i = 0; i < n_uses; ++i) ids[i] = (i * i * 7 + i / s.top_k) % s.n_experts;
    const auto ids_at = device.upload(ids);
    const auto first_at = device.upload(std::vector<std::uint32_t>(s.n_experts + 1, 99));
    const auto uses_at = device.upload(std::vector<Use>(n_uses));
    if (!report.expect_ok(device.launch(GroupByExpert{ids_at.get(), first_at.get(), uses_at.get(), n_uses, s.top_k, s.n_experts}, GroupByExpert::shape(s.n_experts)))) continue;
    const auto first = download(device, first_at, report);
    const auto uses = download(device, uses_at, report);
    std::uint32_t at = 0;
    bool right = first.size() == s.n_experts + 1;
    for (std::uint32_t e = 0; e < s.n_experts && right; ++e) {
      right = first[e] == at;
      for (std::uint32_t row = 0; row < n_uses && right; ++row)
        if (ids[row] == e) right = uses[at].row == row && uses[at].token == row / s.top_k, ++at;
    }
    report.expect(right && first.back() == n_uses, "is not the stable grouping");
  }
}

template <class Device>
void argmax(Device& device, Report& report) {
  const auto run = [&](const std::vector<float>& logits) -> std::uint64_t {
    const auto n = static_cast<std::uint32_t>(logits.size());
    const auto logits_at = device.upload(logits);
    const auto keys_at = device.upload(std::vector<std::uint64_t>(Argmax::blocks(n), 1));
    const auto best_at = device.upload(std::vector<std::uint64_t>(1, 1));
    report.expect_ok(device.launch(Argmax{logits_at.get(), nullptr, keys_at.get(), n}, Argmax::first(n)));
    report.expect_ok(device.launch(Argmax{nullptr, keys_at.get(), best_at.get(), Argmax::blocks(n)}, Argmax::second()));
    const auto best = download(device, best_at, report);
    return best.empty() ? 1 : best[0];
  };
  for (const std::uint32_t n : shapes<Device>({1u, 2u, 63u, 4096u, 4097u, 9000u}, {4097u})) {
    report.context("argmax of " + std::to_string(n));
    std::vector<float> logits = test::random_floats(n, n, 3);
    report.expect(chosen_id(run(logits)) == *ref::argmax(logits.data(), n), "another token");
    logits[n / 2] = logits[n - 1] = 50;  // a tie, across blocks
    report.expect(chosen_id(run(logits)) == n / 2, "a tie is not the lower id's");
    for (float& v : logits) v = v == 50 && n > 2 ? -kInfinity : -1;
    report.expect(chosen_id(run(logits)) == 0, "padding is chosen");
    logits[n - 1] = std::numeric_limits<float>::quiet_NaN();
    report.expect(run(logits) == kBadLogit, "NaN is not noticed");
    logits[n - 1] = kInfinity;
    report.expect(run(logits) == kBadLogit, "infinity is not noticed");
    report.expect(run(std::vector<float>(n, -kInfinity)) == 0, "a token is chosen where there is none");
  }
}

}  // namespace coli::grid::cases
