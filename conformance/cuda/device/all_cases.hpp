// SPDX-License-Identifier: Apache-2.0
// Every case of every body over one device, and what came of them as text.
#pragma once

#include <cstdio>
#include <cstring>

#include "conformance/grid/cases_attend.hpp"
#include "conformance/grid/cases_choice.hpp"
#include "conformance/grid/cases_groups.hpp"
#include "conformance/grid/cases_matmul.hpp"
#include "conformance/grid/cases_rmsnorm.hpp"
#include "conformance/grid/cases_rows.hpp"
#include "conformance/grid/cases_verbs.hpp"

namespace coli::grid::cases {

template <class Device>
void all(Device& device, Report& report) {
  verbs(device, report);
  quantise(device, report);
  matmul(device, report);
  rmsnorm_rows(device, report);
  rmsnorm_quantised(device, report);
  exponential(device, report);
  rope(device, report);
  swiglu(device, report);
  combine(device, report);
  embed(device, report);
  attend(device, report);
  top_k(device, report);
  group_by_expert(device, report);
  expert_groups(device, report);
  set_groups(device, report);
  argmax(device, report);
}

/// Failures to standard error, the first `n_digests` digests to the file of --digests, a summary to standard output.
/// Returns the exit status.
inline int tell(const Report& report, std::size_t n_digests, int argc, char** argv) {
  for (const std::string& failure : report.failures()) std::fprintf(stderr, "WRONG %s\n", failure.c_str());
  if (argc == 3 && std::strcmp(argv[1], "--digests") == 0) {
    std::FILE* const file = std::fopen(argv[2], "w");
    if (file == nullptr) return std::perror(argv[2]), 1;
    for (std::size_t i = 0; i < n_digests; ++i) std::fprintf(file, "%016llx %s\n", static_cast<unsigned long long>(report.digests()[i].hash), report.digests()[i].of.c_str());
    if (std::fclose(file) != 0) return std::perror(argv[2]), 1;
  } else if (argc != 1) {
    return std::fprintf(stderr, "expected --digests FILE\n"), 2;
  }
  std::printf("%zu checks, %zu failed, %zu outputs\n", report.n_checks(), report.failures().size(), n_digests);
  return report.failures().empty() ? 0 : 1;
}

}  // namespace coli::grid::cases
