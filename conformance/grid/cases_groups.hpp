// SPDX-License-Identifier: Apache-2.0
// Cases of the groups that products read: an expert's matrices and uses for one token and for many, experts that are not
// there, choices that are no expert; and the few groups that come as a launch's own parameters.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cases.hpp"
#include "coli/kernels/grid/expert_groups.hpp"

namespace coli::grid::cases {

namespace detail {

inline bool same(const MatmulGroup& a, const MatmulGroup& b) {
  return a.weights == b.weights && a.out == b.out && a.n_rows == b.n_rows && a.first_use == b.first_use && a.n_uses == b.n_uses;
}

/// As download(), without a digest: addresses are each device's own.
template <class Device, class Buffer>
std::vector<MatmulGroup> groups_of(Device& device, const Buffer& buffer, Report& report) {
  auto groups = device.download(buffer);
  report.expect(groups.has_value(), groups ? std::string() : groups.error().line());
  return groups ? std::move(*groups) : std::vector<MatmulGroup>();
}

inline constexpr MatmulGroup kUntouchedGroup{nullptr, nullptr, 77, 77, 77};
inline constexpr Use kUntouchedUse{77, 77};

/// A layer of experts, of which some are not there, and what ExpertGroups writes of it. No byte of a matrix is read.
template <class Device>
struct ExpertGroupsCase {
  static constexpr std::uint32_t kExperts = 40, kFfn = 96, kHidden = 64;

  Device& device;
  Report& report;
  decltype(std::declval<Device&>().upload(std::vector<std::byte>())) weights;
  decltype(std::declval<Device&>().upload(std::vector<float>())) out;
  std::vector<ExpertAddress> table;

  ExpertGroupsCase(Device& d, Report& r) : device(d), report(r), weights(d.upload(std::vector<std::byte>(3 * kExperts))), out(d.upload(std::vector<float>(3))) {
    for (std::uint32_t e = 0; e < kExperts; ++e) {
      const std::byte* const at = weights.get() + 3 * e;
      table.push_back(is_there(e) ? ExpertAddress{at, at + 1, at + 2} : ExpertAddress{nullptr, nullptr, nullptr});
    }
  }
  static bool is_there(std::uint32_t expert) { return expert < kExperts && expert % 5 != 2; }

  /// `ids` as one token's choice; or, where it is empty, `first` and `uses` of many.
  void run(const std::vector<std::uint32_t>& ids, const std::vector<std::uint32_t>& first, const std::vector<Use>& uses) {
    const bool single = !ids.empty();
    const auto n_groups = static_cast<std::uint32_t>(single ? ids.size() : kExperts);
    const auto table_at = device.upload(table);
    const auto ids_at = device.upload(ids);
    const auto first_at = device.upload(first);
    const auto uses_at = device.upload(uses);
    const auto down_uses_at = device.upload(std::vector<Use>(uses.size(), kUntouchedUse));
    const auto gate_at = device.upload(std::vector<MatmulGroup>(std::size_t{2} * n_groups, kUntouchedGroup));
    const auto down_at = device.upload(std::vector<MatmulGroup>(n_groups, kUntouchedGroup));
    const ExpertGroups body{table_at.get(), single ? ids_at.get() : nullptr, single ? nullptr : first_at.get(), uses_at.get(), down_uses_at.get(), gate_at.get(), down_at.get(),
                            out.get(), out.get() + 1, out.get() + 2, n_groups, kExperts, kFfn, kHidden};
    if (!report.expect_ok(device.launch(body, body.shape(n_groups)))) return;
    const std::vector<MatmulGroup> gate = groups_of(device, gate_at, report), down = groups_of(device, down_at, report);
    const std::vector<Use> uses_after = download(device, uses_at, report), down_uses = download(device, down_uses_at, report);
    if (gate.size() != 2 * n_groups || down.size() != n_groups || uses_after.size() != uses.size() || down_uses.size() != uses.size()) return;

    std::vector<Use> wanted_uses = uses, wanted_down(uses.size(), kUntouchedUse);
    for (std::uint32_t i = 0; i < n_groups; ++i) {
      const std::uint32_t expert = single ? ids[i] : i, begin = single ? i : first[i], end = single ? i + 1 : first[i + 1];
      const ExpertAddress at = is_there(expert) ? table[expert] : ExpertAddress{nullptr, nullptr, nullptr};
      const std::uint32_t n_uses = is_there(expert) ? end - begin : 0;
      const std::string which = "group " + std::to_string(i) + " of expert " + std::to_string(expert);
      report.expect(same(gate[i], {at.gate, out.get(), kFfn, begin, n_uses}), which + ": gate");
      report.expect(same(gate[n_groups + i], {at.up, out.get() + 1, kFfn, begin, n_uses}), which + ": up");
      report.expect(same(down[i], {at.down, out.get() + 2, kHidden, begin, n_uses}), which + ": down");
      if (single) wanted_uses[i] = {0, i};
      for (std::uint32_t u = begin; u < begin + n_uses; ++u) wanted_down[u] = {wanted_uses[u].row, wanted_uses[u].row};
    }
    report.expect(uses_after == wanted_uses, "other uses of gate and up");
    report.expect(down_uses == wanted_down, "other uses of down, or some of an expert that is not there");
  }
};

}  // namespace detail

template <class Device>
void expert_groups(Device& device, Report& report) {
  detail::ExpertGroupsCase<Device> layer(device, report);
  report.context("expert_groups of one token");
  layer.run({3}, {}, {detail::kUntouchedUse});
  // More than a warp of ranks; choices that are no expert are those of logits that are not finite.
  std::vector<std::uint32_t> ids;
  for (std::uint32_t i = 0; i < 35; ++i) ids.push_back(i * 11 % layer.kExperts);
  ids[4] = layer.kExperts, ids[33] = 0xFFFF'FFFFu;
  layer.run(ids, {}, std::vector<Use>(ids.size(), detail::kUntouchedUse));

  report.context("expert_groups of many tokens");
  // Expert e has e % 4 uses, in rows that are not its own order.
  std::vector<std::uint32_t> first{0};
  for (std::uint32_t e = 0; e < layer.kExperts; ++e) first.push_back(first.back() + e % 4);
  std::vector<Use> uses;
  for (std::uint32_t u = 0; u < first.back(); ++u) uses.push_back({u * 7 % first.back() / 3, u * 7 % first.back()});
  layer.run({}, first, uses);
}

template <class Device>
void set_groups(Device& device, Report& report) {
  const auto weights = device.upload(std::vector<std::byte>(3));
  const auto out = device.upload(std::vector<float>(3));
  for (std::uint32_t n = 1; n <= SetGroups::kMost; ++n) {
    report.context("set_groups " + std::to_string(n));
    const auto to = device.upload(std::vector<MatmulGroup>(SetGroups::kMost, detail::kUntouchedGroup));
    SetGroups body{{}, to.get(), n};
    for (std::uint32_t i = 0; i < SetGroups::kMost; ++i) body.groups[i] = {weights.get() + i, out.get() + i, 10 + i, 20 + i, 30 + i};
    if (!report.expect_ok(device.launch(body, body.shape()))) continue;
    const std::vector<MatmulGroup> got = detail::groups_of(device, to, report);
    for (std::uint32_t i = 0; i < got.size(); ++i) report.expect(detail::same(got[i], i < n ? body.groups[i] : detail::kUntouchedGroup), "group " + std::to_string(i));
  }
}

}  // namespace coli::grid::cases
