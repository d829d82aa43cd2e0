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

}  // namespace coli::grid::cases
