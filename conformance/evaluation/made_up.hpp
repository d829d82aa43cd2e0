// SPDX-License-Identifier: Apache-2.0
// A model of four tokens and two experts whose every number is known: what evaluations are tested on.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"
#include "coli/moe/routing.hpp"

namespace coli::test {

/// After a token t the logits are table[t]; each position chooses expert t % 2, then those of `more`, with a gap of gaps[t].
class MadeUpModel {
 public:
  struct Observer {
    std::function<void(LayerId, std::uint32_t, const Routing&)> on_routing;
  };
  std::vector<std::vector<float>> table{{0, 1, 2.5F, -1}, {3, 0, 1, 2}, {1, 1, 1, 4}, {2, 2.25F, 0, 0}};
  std::vector<float> gaps{0.5F, 0.25F, 2, 4};
  std::vector<std::uint32_t> more;  // by rank

  std::uint32_t context() const { return 16; }
  Observer& observer() { return observer_; }
  Result<void> truncate(std::uint32_t position) {
    tokens_.resize(position);
    return {};
  }
  Result<std::span<const float>> step(TokenId token) { return prefill({&token, 1}); }
  Result<std::span<const float>> prefill(std::span<const TokenId> tokens) {
    return prefill(tokens, [](std::uint32_t, std::span<const float>) {});
  }
  template <class Each>
  Result<std::span<const float>> prefill(std::span<const TokenId> tokens, Each&& each) {
    const auto first = static_cast<std::uint32_t>(tokens_.size());
    Routing routing;
    const std::size_t k = 1 + more.size();
    routing.resize(static_cast<std::uint32_t>(tokens.size()), static_cast<std::uint32_t>(k));
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto t = static_cast<std::size_t>(tokens[i].value);
      routing.ids[i * k] = ExpertId{static_cast<std::uint32_t>(t % 2)}, routing.gaps[i] = gaps[t];
      for (std::size_t r = 1; r < k; ++r) routing.ids[i * k + r] = ExpertId{more[r - 1]};
      tokens_.push_back(tokens[i]);
    }
    if (observer_.on_routing) observer_.on_routing(LayerId{0}, first, routing);
    for (std::size_t i = 0; i < tokens.size(); ++i) each(first + static_cast<std::uint32_t>(i), std::span<const float>(table[static_cast<std::size_t>(tokens[i].value)]));
    return std::span<const float>(table[static_cast<std::size_t>(tokens.back().value)]);
  }

 private:
  Observer observer_;
  std::vector<TokenId> tokens_;
};

inline std::vector<TokenId> ids(std::initializer_list<int> list) {
  std::vector<TokenId> out;
  for (const int id : list) out.push_back(TokenId{id});
  return out;
}

}  // namespace coli::test
