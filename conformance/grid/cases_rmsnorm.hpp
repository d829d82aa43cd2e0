// SPDX-License-Identifier: Apache-2.0
// Cases of the RMSNorm body: within its bound of kernels/ref, row by row, whatever the number of rows.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "cases.hpp"
#include "coli/kernels/grid/rmsnorm.hpp"
#include "coli/kernels/ref/rmsnorm.hpp"
#include "conformance/kernels/ref_random.hpp"
#include "conformance/support/tolerance.hpp"

namespace coli::grid::cases {

template <class Device>
void rmsnorm_rows(Device& device, Report& report) {
  constexpr float kEpsilon = 1e-6f;
  for (const std::uint32_t dim : shapes<Device>({1u, 31u, 32u, 64u, 255u, 256u, 257u, 2048u}, {31u, 257u}))
    for (const std::uint32_t n_rows : shapes<Device>({1u, 3u}, {3u})) {
      report.context("rmsnorm " + std::to_string(n_rows) + "x" + std::to_string(dim));
      const std::vector<float> x = test::random_floats(std::size_t{n_rows} * dim, dim, 3), weight = test::random_floats(dim, dim + 1);
      const auto x_at = device.upload(x);
      const auto weight_at = device.upload(weight);
      const auto y_at = device.upload(std::vector<float>(x.size(), -1));
      const auto run = [&](const float* from, float* to, std::uint32_t rows) {
        return report.expect_ok(rmsnorm(from, weight_at.get(), to, dim, kEpsilon, {}, [&](const auto& body) { return device.launch(body, body.shape(rows)); }));
      };
      if (!run(x_at.get(), y_at.get(), n_rows)) continue;
      const std::vector<float> y = download(device, y_at, report);
      std::vector<float> exact(x.size());
      for (std::uint32_t r = 0; r < n_rows; ++r) ref::rmsnorm(x.data() + std::size_t{r} * dim, weight.data(), dim, kEpsilon, exact.data() + std::size_t{r} * dim);
      const double roundings = static_cast<double>(dim) / (dim <= 256 ? 32 : 256) + 1 + 10 + 8;
      const double ratio = worst(y, exact, [&](std::size_t i) { return test::gamma_n(roundings) * std::abs(static_cast<double>(exact[i])); });
      report.expect(y.size() == x.size() && ratio <= 1, "off by " + std::to_string(ratio) + " bounds");

      // In place, and each row alone, are the same bits.
      const auto same_at = device.upload(x);
      run(same_at.get(), same_at.get(), n_rows);
      report.expect(download(device, same_at, report) == y, "in place differs");
      const auto last_at = device.upload(std::vector<float>(x.end() - dim, x.end()));
      run(last_at.get(), last_at.get(), 1);
      const std::vector<float> last = download(device, last_at, report);
      report.expect(last == std::vector<float>(y.end() - dim, y.end()), "the last row alone differs");
    }
}

/// The 8 bits that the norm leaves are those that Quantise makes of its output, and leaving them changes no bit of that.
template <class Device>
void rmsnorm_quantised(Device& device, Report& report) {
  constexpr std::uint32_t kRows = 3;
  for (const std::uint32_t dim : shapes<Device>({32u, 256u, 288u, 2048u}, {288u})) {
    report.context("rmsnorm in 8 bits too, " + std::to_string(dim));
    const auto x_at = device.upload(test::random_floats(std::size_t{kRows} * dim, dim, 3));
    const auto weight_at = device.upload(test::random_floats(dim, dim + 1));
    const auto y_at = device.upload(std::vector<float>(std::size_t{kRows} * dim, -1)), alone_at = device.upload(std::vector<float>(std::size_t{kRows} * dim, -1));
    const auto bits_at = device.upload(std::vector<std::byte>(q8_bytes(kRows, dim), std::byte{0x55})), wanted_at = device.upload(std::vector<std::byte>(q8_bytes(kRows, dim), std::byte{0xAA}));
    const auto run = [&](float* to, const Q8Rows& q8) {
      return report.expect_ok(rmsnorm(x_at.get(), weight_at.get(), to, dim, 1e-6f, q8, [&](const auto& body) { return device.launch(body, body.shape(kRows)); }));
    };
    if (!run(alone_at.get(), {}) || !run(y_at.get(), q8_rows(bits_at.get(), kRows, dim))) continue;
    if (!report.expect_ok(device.launch(Quantise{alone_at.get(), q8_rows(wanted_at.get(), kRows, dim)}, Quantise::shape(kRows, dim)))) continue;
    report.expect(download(device, y_at, report) == download(device, alone_at, report), "the norm itself differs");
    report.expect(download(device, bits_at, report) == download(device, wanted_at, report), "the 8 bits differ");
  }
}

}  // namespace coli::grid::cases
