// SPDX-License-Identifier: Apache-2.0
// Cases of attention and of the cache's writes: within a derived bound of kernels/ref, one set of bits however many
// tokens and heads go together, and nothing read past a token's position.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "cases.hpp"
#include "coli/kernels/grid/attend.hpp"
#include "coli/kernels/ref/attend.hpp"
#include "coli/quant/half.hpp"
#include "conformance/kernels/ref_random.hpp"
#include "conformance/support/tolerance.hpp"

namespace coli::grid::cases {

namespace detail {

/// A layer's cache, written by KvWrite itself, and a batch of queries over it.
template <class Element, class Device>
struct AttendCase {
  Device& device;
  Report& report;
  std::uint32_t n_kv_heads, per_kv, dim, capacity;
  decltype(device.upload(std::vector<Element>())) cache;
  std::vector<float> keys, values;  // [capacity, n_kv_heads, dim], rounded as the cache rounds

  AttendCase(Device& d, Report& r, std::uint32_t kv_heads, std::uint32_t queries_per_kv, std::uint32_t head_dim, std::uint32_t positions)
      : device(d), report(r), n_kv_heads(kv_heads), per_kv(queries_per_kv), dim(head_dim), capacity(positions + 3),
        cache(d.upload(std::vector<Element>(std::size_t{2} * kv_heads * capacity * head_dim, Element(-1)))),
        keys(test::random_floats(std::size_t{positions} * kv_heads * head_dim, 5, 2)), values(test::random_floats(keys.size(), 6)) {
    const auto keys_at = device.upload(keys);
    const auto values_at = device.upload(values);
    const auto zero_at = device.upload(std::vector<std::uint32_t>{0});
    report.expect_ok(device.launch(KvWrite<Element>{keys_at.get(), values_at.get(), layer(), zero_at.get()}, KvWrite<Element>::shape(positions)));
    if constexpr (!std::is_same_v<Element, float>)
      for (std::vector<float>* all : {&keys, &values})
        for (float& v : *all) v = f16_to_f32(f32_to_f16(v));
  }
  KvLayer<Element> layer() const { return {cache.get(), n_kv_heads, capacity, dim}; }

  /// Output [n, n_heads, dim] of n tokens at positions first.. .
  std::vector<float> run(const std::vector<float>& queries, std::uint32_t first, std::uint32_t n, std::uint32_t spare_splits = 0) {
    const std::uint32_t n_heads = n_kv_heads * per_kv, n_splits = AttendPartials::splits(first + n) + spare_splits;
    const auto queries_at = device.upload(queries);
    const auto first_at = device.upload(std::vector<std::uint32_t>{first});
    const auto partials_at = device.upload(std::vector<float>(AttendPartials::floats(n, n_heads, n_splits, dim), std::numeric_limits<float>::quiet_NaN()));
    const auto out_at = device.upload(std::vector<float>(std::size_t{n} * n_heads * dim, -9));
    const AttendPartials partials = AttendPartials::over(partials_at.get(), n, n_heads, n_splits);
    const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim)));
    report.expect_ok(device.launch(AttendSplit<Element>{queries_at.get(), layer(), first_at.get(), partials, n_heads, scale}, AttendSplit<Element>::shape(n, n_heads, n_kv_heads, n_splits)));
    report.expect_ok(device.launch(AttendMerge{partials, first_at.get(), out_at.get(), n_heads, dim}, AttendMerge::shape(n, n_heads)));
    return download(device, out_at, report);
  }

  /// Against kernels/ref. A score is off by at most e = (gamma(dim + 2) + u) * scale * sum |q k|; so a weight, relative to the
  /// others, by expm1(2 (e + rounding of its argument)) + 3 exp errors, and the sums by gamma(positions + splits + 10): in all of sum w |v| / sum w.
  void check(const std::vector<float>& queries, const std::vector<float>& out, std::uint32_t first, std::uint32_t n) {
    const std::uint32_t n_heads = n_kv_heads * per_kv;
    double worst = out.size() == std::size_t{n} * n_heads * dim ? 0 : 1e9;
    for (std::uint32_t t = 0; t < n && worst < 1e9; ++t)
      for (std::uint32_t h = 0; h < n_heads; ++h) {
        const std::uint32_t kv = h / per_kv, positions = first + t + 1, stride = n_kv_heads * dim;
        const float* q = queries.data() + (std::size_t{t} * n_heads + h) * dim;
        std::vector<double> weights(positions);
        std::vector<float> exact(dim);
        ref::attend(q, keys.data() + kv * dim, values.data() + kv * dim, positions, dim, stride, weights.data(), exact.data());
        double score_error = 0, range = 0, total = 0;
        for (std::uint32_t p = 0; p < positions; ++p) {
          double magnitude = 0;
          for (std::uint32_t d = 0; d < dim; ++d) magnitude += std::abs(static_cast<double>(q[d]) * static_cast<double>(keys[p * stride + kv * dim + d]));
          magnitude /= std::sqrt(static_cast<double>(dim));
          score_error = std::max(score_error, test::gamma_n(dim + 3) * magnitude);
          range = std::max(range, magnitude);
          total += weights[p];
        }
        const double relative = std::expm1(2 * (score_error + 4 * test::kRoundoff * 2 * range)) + 4 * 0x1p-22 + test::gamma_n(positions + AttendPartials::splits(positions) + 12);
        for (std::uint32_t d = 0; d < dim; ++d) {
          double magnitude = 0;
          for (std::uint32_t p = 0; p < positions; ++p) magnitude += weights[p] / total * std::abs(static_cast<double>(values[p * stride + kv * dim + d]));
          const double off = std::abs(static_cast<double>(out[(std::size_t{t} * n_heads + h) * dim + d]) - static_cast<double>(exact[d]));
          worst = off <= 2 * relative * magnitude ? std::max(worst, off / (2 * relative * magnitude + 1e-300)) : 1e9;
          if (worst >= 1e9) break;
        }
      }
    report.expect(worst <= 1, "off by " + std::to_string(worst) + " bounds");
  }
};

template <class Element, class Device>
void attend_shapes(Device& device, Report& report, const std::string& element) {
  struct Shape {
    std::uint32_t kv_heads, per_kv, dim, first, n;
  };
  for (const Shape s : shapes<Device>({Shape{1, 1, 2, 0, 1}, {2, 2, 16, 0, 3}, {1, 9, 24, 127, 2}, {2, 4, 64, 260, 1}, {1, 1, 128, 128, 1}, {1, 2, 256, 5, 1}, {1, 3, 264, 2, 1}}, {Shape{1, 9, 16, 1, 2}})) {
    report.context("attend " + element + " " + std::to_string(s.kv_heads) + "x" + std::to_string(s.per_kv) + "x" + std::to_string(s.dim) + " at " + std::to_string(s.first));
    AttendCase<Element, Device> c(device, report, s.kv_heads, s.per_kv, s.dim, s.first + s.n);
    const std::uint32_t n_heads = s.kv_heads * s.per_kv;
    const std::vector<float> queries = test::random_floats(std::size_t{s.n} * n_heads * s.dim, 9, 3);
    const std::vector<float> out = c.run(queries, s.first, s.n);
    c.check(queries, out, s.first, s.n);
    // The last token alone, with splits to spare, has the same bits.
    const std::size_t row = std::size_t{n_heads} * s.dim;
    const std::vector<float> alone = c.run({queries.end() - static_cast<std::ptrdiff_t>(row), queries.end()}, s.first + s.n - 1, 1, 2);
    report.expect(alone.size() == row && std::equal(alone.begin(), alone.end(), out.end() - static_cast<std::ptrdiff_t>(row)), "the last token alone differs");
  }
}

}  // namespace detail

template <class Device>
void attend(Device& device, Report& report) {
  detail::attend_shapes<float>(device, report, "f32");
  detail::attend_shapes<std::uint16_t>(device, report, "f16");

  if (Device::kQuick) return;
  report.context("attend: one position is its value");
  detail::AttendCase<float, Device> one(device, report, 1, 1, 48, 1);
  report.expect(one.run(test::random_floats(48, 4), 0, 1) == one.values, "is not");

  report.context("attend: NaN in a key");
  detail::AttendCase<float, Device> c(device, report, 1, 1, 32, 200);
  const auto bad_at = device.upload(std::vector<float>(32, std::numeric_limits<float>::quiet_NaN()));
  const auto position_at = device.upload(std::vector<std::uint32_t>{100});
  report.expect_ok(device.launch(KvWrite<float>{bad_at.get(), bad_at.get(), c.layer(), position_at.get()}, KvWrite<float>::shape(1)));
  const std::vector<float> query = test::random_floats(32, 4);
  for (const float v : c.run(query, 150, 1)) report.expect(std::isnan(v), "does not reach the output");
  for (const float v : c.run(query, 99, 1)) report.expect(std::isfinite(v), "is read before its position");
}

}  // namespace coli::grid::cases
