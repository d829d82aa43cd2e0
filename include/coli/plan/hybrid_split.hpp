// SPDX-License-Identifier: Apache-2.0
// Of the experts that a device lacks, how many go to it and how many are computed by the CPU? And which, for a whole run?
//
// Uploads and CPU work go on at once; a layer is done when both are. Pure functions of measured rates, no state: a run
// asks once, when it opens, so that the same experts are computed by the same processor until it ends.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "coli/core/bytes.hpp"

namespace coli {

/// Bytes a second, each measured with the others idle; 0, negative or not finite: not measured.
struct SplitRates {
  double upload = 0;   // pinned host memory to device, as uploads run
  double compute = 0;  // weights that all cores multiply with one vector
  double memory = 0;   // what all cores can read: an upload takes its bytes out of it; not measured: it takes nothing
};

struct HybridSplit {
  std::uint32_t uploaded = 0;
  std::uint32_t on_cpu = 0;
  friend constexpr bool operator==(const HybridSplit&, const HybridSplit&) = default;
};

namespace detail {
inline bool is_rate(double rate) { return std::isfinite(rate) && rate > 0; }
}  // namespace detail

/// The CPU's rate while uploads run: they read the same memory.
inline double compute_beside_uploads(const SplitRates& rates) {
  return detail::is_rate(rates.memory) ? std::min(rates.compute, std::max(rates.memory - rates.upload, 0.0)) : rates.compute;
}

/// Seconds that a layer waits for `n_missing` experts of `bytes` each if `uploaded` of them go to the device. Once the
/// last upload is done the CPU has its full rate. Requires upload and compute rates.
inline double split_seconds(std::uint32_t n_missing, std::uint32_t uploaded, Bytes bytes, const SplitRates& rates) {
  const double per_expert = static_cast<double>(bytes.value);
  const double uploading = uploaded * per_expert / rates.upload;
  const double work = (n_missing - uploaded) * per_expert;
  const double meanwhile = uploading * compute_beside_uploads(rates);
  return work <= meanwhile ? uploading : uploading + (work - meanwhile) / rates.compute;
}

/// The split that waits least; on a tie the one that uploads less. Closed form: with uploads at U and the CPU at C beside
/// them, both end together where q / U = (n - q) / C, so q = n U / (U + C), C = min(compute, memory - U). Waiting falls
/// (or stays, where the CPU alone uses all of the memory's rate: then uploads gain nothing) up to that point and rises
/// after it, so that the best whole number is one of its neighbours, or 0. Where one rate is not measured, all goes the
/// other way; where neither is, all is uploaded.
inline HybridSplit hybrid_split(std::uint32_t n_missing, Bytes bytes, const SplitRates& rates) {
  if (!detail::is_rate(rates.compute)) return {n_missing, 0};
  if (!detail::is_rate(rates.upload)) return {0, n_missing};
  const double even = n_missing * (rates.upload / (rates.upload + compute_beside_uploads(rates)));
  const auto below = static_cast<std::uint32_t>(std::min(std::floor(even), static_cast<double>(n_missing)));  // rounding may end above
  std::uint32_t best = 0;
  for (const std::uint32_t q : {below, std::min(below + 1, n_missing)})
    if (split_seconds(n_missing, q, bytes, rates) < split_seconds(n_missing, best, bytes, rates)) best = q;
  return {best, n_missing - best};
}

/// Who computes an expert, for a whole run.
enum class RunsOn : std::uint8_t { device, cpu };

/// A fixed placement of every layer's experts: of n_experts, `on_cpu` belong to the CPU, spread evenly over the ids. A
/// function of its three numbers alone: equal numbers, equal placement, equal bits.
struct Placement {
  std::uint32_t n_experts = 0;
  std::uint32_t on_cpu = 0;  // of each layer; at most n_experts

  constexpr RunsOn of(std::uint32_t expert) const {
    const auto before = [&](std::uint64_t e) { return e * on_cpu / n_experts; };
    return before(std::uint64_t{expert} + 1) != before(expert) ? RunsOn::cpu : RunsOn::device;
  }
};

/// The placement whose share of the experts that are not resident on the device follows `hybrid_split`.
/// `resident`: a layer's experts that the device keeps; they are never the CPU's.
inline Placement place_experts(std::uint32_t n_experts, std::uint32_t resident, Bytes bytes, const SplitRates& rates) {
  const std::uint32_t rest = n_experts - std::min(resident, n_experts);
  return {n_experts, hybrid_split(rest, bytes, rates).on_cpu};
}

}  // namespace coli
