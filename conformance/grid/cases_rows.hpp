// SPDX-License-Identifier: Apache-2.0
// Cases of the bodies that take rows value by value: rope, SwiGLU, combine, add, embed; and of exp.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "cases.hpp"
#include "coli/kernels/grid/combine.hpp"
#include "coli/kernels/grid/embed.hpp"
#include "coli/kernels/grid/rope.hpp"
#include "coli/kernels/grid/swiglu.hpp"
#include "coli/kernels/ref/rope.hpp"
#include "coli/kernels/ref/swiglu.hpp"
#include "conformance/kernels/random_matrix.hpp"
#include "conformance/kernels/ref_random.hpp"
#include "conformance/support/tolerance.hpp"

namespace coli::grid::cases {

inline constexpr double kExpError = 0x1p-22;  // relative; math.hpp states it

struct Exp {
  static constexpr FixedName name{"exp"};
  using Shared = NoShared;
  float* x;
  std::uint32_t n;
  template <Thread T>
  COLI_DEVICE void operator()(T& t, Shared&) const {
    const std::uint32_t i = t.block().x * t.n_threads() + t.thread();
    if (i < n) t.store(x + i, exp(t, t.load(x + i)));
  }
};

template <class Device>
void exponential(Device& device, Report& report) {
  report.context("exp");
  std::vector<float> x{0, -0.0f, 1, -1, 88.7f, 88.73f, 100, -87.3f, -87.34f, -200, kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), 1e-30f};
  const std::size_t n_special = x.size();
  for (const float v : test::random_floats(1500, 3, 87)) x.push_back(v);
  const auto at = device.upload(x);
  if (!report.expect_ok(device.launch(Exp{at.get(), static_cast<std::uint32_t>(x.size())}, {(static_cast<std::uint32_t>(x.size()) + 63) / 64, 1, 64}))) return;
  const std::vector<float> y = download(device, at, report);
  const float wanted[] = {1, 1, -1, -1, -1, kInfinity, kInfinity, -1, 0, 0, kInfinity, 0, -2, 1};  // -1: by the bound, -2: NaN
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (i < n_special && wanted[i] == -2) report.expect(std::isnan(y[i]), "of NaN is not NaN");
    else if (i < n_special && wanted[i] >= 0) report.expect(y[i] == wanted[i], "of " + std::to_string(x[i]) + " is " + std::to_string(y[i]));
    else {
      const double exact = std::exp(static_cast<double>(x[i]));
      report.expect(std::abs(static_cast<double>(y[i]) - exact) <= kExpError * exact, "of " + std::to_string(x[i]) + " is off by " + std::to_string(static_cast<double>(y[i]) / exact - 1));
    }
  }
}

template <class Device>
void rope(Device& device, Report& report) {
  for (const std::uint32_t head_dim : {2u, 6u, 64u, 128u})
    for (const std::uint32_t n_heads : {1u, 3u}) {
      report.context("rope " + std::to_string(n_heads) + "x" + std::to_string(head_dim));
      constexpr std::uint32_t kTokens = 2;
      const std::vector<float> x = test::random_floats(std::size_t{kTokens} * n_heads * head_dim, head_dim, 2);
      std::vector<float> table(kTokens * head_dim);
      for (std::uint32_t i = 0; i < table.size(); ++i) table[i] = i % head_dim < head_dim / 2 ? std::cos(static_cast<float>(i)) : std::sin(static_cast<float>(i));
      const auto x_at = device.upload(x);
      const auto table_at = device.upload(table);
      if (!report.expect_ok(device.launch(Rope{x_at.get(), table_at.get(), n_heads, head_dim}, Rope::shape(kTokens)))) continue;
      const std::vector<float> y = download(device, x_at, report);
      std::vector<float> exact = x;
      for (std::uint32_t h = 0; h < kTokens * n_heads; ++h) ref::rope_from_table(exact.data() + h * head_dim, table.data() + h / n_heads * head_dim, head_dim);
      const double ratio = worst(y, exact, [&](std::size_t i) {
        const std::size_t head = i / head_dim * head_dim, pair = i % head_dim % (head_dim / 2);
        return test::gamma_n(3) * (std::abs(static_cast<double>(x[head + pair])) + std::abs(static_cast<double>(x[head + head_dim / 2 + pair])));
      });
      report.expect(y.size() == x.size() && ratio <= 1, "off by " + std::to_string(ratio) + " bounds");
    }
}

template <class Device>
void swiglu(Device& device, Report& report) {
  for (const std::uint32_t dim : {1u, 33u, 96u, 768u}) {
    report.context("swiglu " + std::to_string(dim));
    std::vector<float> gate = test::random_floats(std::size_t{2} * dim, dim, 20), up = test::random_floats(std::size_t{2} * dim, dim + 1, 3);
    gate[0] = -1000, gate[dim] = 1000;
    const auto gate_at = device.upload(gate);
    const auto up_at = device.upload(up);
    const bool wants_q8 = dim % 32 == 0;
    const auto q8_at = device.upload(std::vector<std::byte>(q8_bytes(2, dim / 32 * 32) + 16));
    const auto again_at = device.upload(std::vector<std::byte>(q8_bytes(2, dim / 32 * 32) + 16));
    const Q8Rows q8 = wants_q8 ? q8_rows(q8_at.get(), 2, dim) : Q8Rows{};
    if (!report.expect_ok(device.launch(Swiglu{gate_at.get(), up_at.get(), gate_at.get(), q8, dim}, Swiglu::shape(2, dim)))) continue;
    const std::vector<float> y = download(device, gate_at, report);
    std::vector<float> exact(y.size());
    ref::swiglu(gate.data(), up.data(), exact.size(), exact.data());
    const double ratio = worst(y, exact, [&](std::size_t i) { return (test::gamma_n(5) + kExpError) * std::abs(static_cast<double>(exact[i])) + 0x1p-126; });
    report.expect(y.size() == gate.size() && ratio <= 1, "off by " + std::to_string(ratio) + " bounds");
    if (!wants_q8) continue;
    // Straight in 8 bits is what quantising the floats gives.
    report.expect_ok(device.launch(Quantise{gate_at.get(), q8_rows(again_at.get(), 2, dim)}, Quantise::shape(2, dim)));
    report.expect(download(device, q8_at, report) == download(device, again_at, report), "8 bits are not those of the floats");
  }
}

template <class Device>
void combine(Device& device, Report& report) {
  for (const std::uint32_t top_k : {1u, 8u})
    for (const std::uint32_t dim : {1u, 130u}) {
      report.context("combine " + std::to_string(top_k) + " of " + std::to_string(dim));
      const std::vector<float> rows = test::random_floats(std::size_t{3} * top_k * dim, dim, 5), weights = test::random_floats(std::size_t{3} * top_k, 9), x = test::random_floats(std::size_t{3} * dim, 11);
      const auto rows_at = device.upload(rows);
      const auto weights_at = device.upload(weights);
      const auto x_at = device.upload(x);
      if (!report.expect_ok(device.launch(Combine{rows_at.get(), weights_at.get(), x_at.get(), top_k, dim}, Combine::shape(3, dim)))) continue;
      const std::vector<float> y = download(device, x_at, report);
      for (std::uint32_t i = 0; i < 3 * dim && i < y.size(); ++i) {
        double sum = 0, magnitude = 0;
        for (std::uint32_t r = 0; r < top_k; ++r) {
          const double term = static_cast<double>(weights[i / dim * top_k + r]) * static_cast<double>(rows[(std::size_t{i / dim} * top_k + r) * dim + i % dim]);
          sum += term, magnitude += std::abs(term);
        }
        const double off = std::abs(static_cast<double>(y[i]) - (static_cast<double>(x[i]) + sum));
        report.expect(off <= test::gamma_n(top_k + 1) * (magnitude + std::abs(static_cast<double>(x[i]))), "value " + std::to_string(i) + " is off by " + std::to_string(off));
      }

      report.context("add " + std::to_string(dim));
      const auto sum_at = device.upload(x);
      const auto y_at = device.upload(rows);
      report.expect_ok(device.launch(Add{y_at.get(), sum_at.get(), 3 * dim}, Add::shape(3 * dim)));
      const std::vector<float> sum = download(device, sum_at, report);
      for (std::uint32_t i = 0; i < sum.size(); ++i) report.expect(sum[i] == x[i] + rows[i], "value " + std::to_string(i));
    }
}

template <class Device>
void embed(Device& device, Report& report) {
  test::for_each_format([&]<class F>(Format) {
    report.context("embed " + std::string(F::name.view()));
    const std::uint32_t dim = F::kValuesPerBlock == 1 ? 37 : 3 * F::kValuesPerBlock, n_rows = 21;
    const std::vector<std::byte> plain = test::test_matrix<F>(n_rows, dim, 5);
    std::vector<std::byte> prepared(plain.size());
    prepare<F>(plain.data(), n_rows, dim / F::kValuesPerBlock, prepared.data());
    const std::vector<std::uint32_t> ids{20, 0, 16, 15, 20};
    const auto ids_at = device.upload(ids);
    const auto plain_at = device.upload(plain);
    const auto prepared_at = device.upload(prepared);
    std::vector<float> exact(ids.size() * dim);
    for (std::size_t t = 0; t < ids.size(); ++t)
      for (std::uint32_t b = 0; b < dim / F::kValuesPerBlock; ++b)
        F::decode(plain.data() + ids[t] * bytes_for<F>(dim) + b * F::kBytesPerBlock, exact.data() + t * dim + b * F::kValuesPerBlock);
    const auto check = [&](auto body, const std::byte* weights) {
      const auto out_at = device.upload(std::vector<float>(exact.size(), -7));
      body.weights = weights, body.ids = ids_at.get(), body.out = out_at.get(), body.n_rows = n_rows, body.dim = dim;
      if (report.expect_ok(device.launch(body, body.shape(static_cast<std::uint32_t>(ids.size()))))) report.expect(download(device, out_at, report) == exact, "is not the decoded row");
    };
    check(Embed<F, Layout::plain>{}, plain_at.get());
    check(Embed<F, Layout::prepared>{}, prepared_at.get());
  });
}

}  // namespace coli::grid::cases
