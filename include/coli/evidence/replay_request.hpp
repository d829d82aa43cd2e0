// SPDX-License-Identifier: Apache-2.0
// Which policies, how much memory, how leased, how fast a disk? What a replay is asked, in words and as values.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "coli/cache/access_trace.hpp"
#include "coli/cache/eviction/belady.hpp"
#include "coli/cache/eviction/expected_use.hpp"
#include "coli/cache/eviction/lfu_decay.hpp"
#include "coli/cache/eviction/lru.hpp"
#include "coli/cache/eviction/s3_fifo.hpp"
#include "coli/cache/eviction/sieve.hpp"
#include "coli/core/bytes.hpp"
#include "coli/core/error.hpp"

namespace coli {

template <class P>
struct PolicyTag {
  using Policy = P;
};
/// Calls `fn(PolicyTag<P>{})` for every policy that can be replayed, Belady last.
template <class Fn>
void for_each_replay_policy(Fn&& fn) {
  const auto each = [&]<class... P>(PolicyTag<P>... tags) { (fn(tags), ...); };
  each(PolicyTag<Lru>{}, PolicyTag<LfuDecay>{}, PolicyTag<S3Fifo>{}, PolicyTag<Sieve>{}, PolicyTag<ExpectedUse>{}, PolicyTag<Belady>{});
}

/// How slots are sized. typed: as the engine does it, one class a size of expert. uniform: every slot fits any expert.
enum class SlotKind { typed, uniform };

/// Memory for slots: bytes; a share of all experts; or what the trace's own run had.
struct ReplayBudget {
  enum class Kind { bytes, share, recorded };
  Kind kind = Kind::share;
  Bytes bytes{};
  double share = 1;
  std::string text;  // as it was asked for
};

/// Rates for predicted times; a rate of 0 is not known, and nothing is predicted.
struct TimeModel {
  double disk_rate = 0;        // bytes a second that misses are read at, at the depth in use
  double weights_rate = 0;     // bytes of weights a second that computing takes
  bool overlap = true;         // reads run while resident experts are computed
  double prefetch_recall = 0;  // share of misses that were guessed a layer ahead, and read while the disk idled
  std::string origin;          // where the rates come from

  bool known() const noexcept { return disk_rate > 0 && weights_rate > 0; }
};

struct ReplayRequest {
  std::vector<std::string> policies;
  std::vector<ReplayBudget> budgets;
  Grouping grouping = Grouping::recorded;
  std::optional<SlotKind> slots{};  // otherwise uniform for shares ("12.5 % of the experts"), typed for bytes
  TimeModel time{};
  bool per_layer = false;
};

inline std::vector<std::string> replay_policy_names() {
  std::vector<std::string> names;
  for_each_replay_policy([&]<class P>(PolicyTag<P>) { names.emplace_back(P::name.view()); });
  return names;
}

/// "lru,sieve" or "all". Errors: usage, naming what there is.
inline Result<std::vector<std::string>> parse_policies(std::string_view list) {
  const std::vector<std::string> all = replay_policy_names();
  if (list == "all") return all;
  std::vector<std::string> names;
  for (bool more = true; more;) {
    const std::string_view word = list.substr(0, list.find(','));
    more = word.size() < list.size();
    if (std::find(all.begin(), all.end(), word) == all.end()) {
      std::string there;
      for (const std::string& name : all) there += " " + name;
      return Error{Errc::usage, "there is no policy '" + std::string(word) + "'; there are:" + there, "--policies"};
    }
    if (std::find(names.begin(), names.end(), word) == names.end()) names.emplace_back(word);
    if (more) list.remove_prefix(word.size() + 1);
  }
  return names;
}

/// "1G,25%,recorded". Errors: usage, naming what is none of these.
inline Result<std::vector<ReplayBudget>> parse_budgets(std::string_view list) {
  std::vector<ReplayBudget> budgets;
  for (bool more = true; more;) {
    const std::string_view word = list.substr(0, list.find(','));
    more = word.size() < list.size();
    ReplayBudget& budget = budgets.emplace_back();
    budget.text = word;
    if (word == "recorded") {
      budget.kind = ReplayBudget::Kind::recorded;
    } else if (word.ends_with('%')) {
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size() - 1, budget.share);
      if (error != std::errc{} || end != word.data() + word.size() - 1 || !(budget.share > 0 && budget.share <= 100)) return Error{Errc::usage, "'" + std::string(word) + "' is not a share; expected more than 0%, at most 100%", "--budgets"};
      budget.share /= 100;
    } else if (const auto bytes = parse_bytes(word)) {
      budget.kind = ReplayBudget::Kind::bytes;
      budget.bytes = *bytes;
    } else {
      return Error{Errc::usage, "'" + std::string(word) + "' is not a budget; expected a size (1G), a share of the experts (25%) or recorded", "--budgets"};
    }
    if (more) list.remove_prefix(word.size() + 1);
  }
  return budgets;
}

/// Errors: usage.
inline Result<Grouping> parse_grouping(std::string_view name) {
  constexpr std::array kNames{std::pair{std::string_view("recorded"), Grouping::recorded}, std::pair{std::string_view("token"), Grouping::token}, std::pair{std::string_view("access"), Grouping::access}};
  for (const auto& [text, grouping] : kNames)
    if (name == text) return grouping;
  return Error{Errc::usage, "'" + std::string(name) + "' is not recorded, token or access", "--grouping"};
}
inline constexpr std::string_view name_of(Grouping grouping) noexcept {
  return grouping == Grouping::recorded ? "recorded" : grouping == Grouping::token ? "token" : "access";
}

}  // namespace coli
