// SPDX-License-Identifier: Apache-2.0
// Where in a text do added tokens stand? They are cut out first, leftmost and longest, before any other rule sees the text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"
#include "coli/gguf/metadata.hpp"
#include "coli/text/pair_map.hpp"
#include "coli/text/vocabulary.hpp"

namespace coli {

/// A trie of the user-defined tokens (always matched) and the control tokens (on request). Immutable.
class SpecialSplitter {
 public:
  static constexpr std::size_t kLongestToken = 4096;  // bytes; bounds the work at each byte of text

  /// Errors: bad_input, for an added token that is absurdly long.
  static Result<SpecialSplitter> from(const gguf::Metadata& metadata, const Vocabulary& vocabulary) {
    std::size_t n_bytes = 0;
    std::vector<TokenId> added;
    for (std::size_t i = 0; i < vocabulary.size(); ++i) {
      const TokenId id{static_cast<std::int32_t>(i)};
      const TokenType type = vocabulary.type(id);
      const bool matches = type == TokenType::user_defined || type == TokenType::control;
      if (!matches || vocabulary.is_padding(id) || vocabulary.text(id).empty()) continue;
      if (vocabulary.text(id).size() > kLongestToken)
        return metadata.error_at(Vocabulary::kTokensKey, "added token " + std::to_string(i) + " is " +
                                                             std::to_string(vocabulary.text(id).size()) + " bytes long; at most " +
                                                             std::to_string(kLongestToken) + " are supported");
      n_bytes += vocabulary.text(id).size();
      added.push_back(id);
    }
    SpecialSplitter splitter;
    splitter.edges_ = PairMap(n_bytes);
    splitter.nodes_.emplace_back();
    for (const TokenId id : added) {
      if (!splitter.add(vocabulary.text(id), id, vocabulary.type(id) == TokenType::control))
        return metadata.error_at(Vocabulary::kTokensKey, "added tokens collide in their index (token " + std::to_string(id.value) +
                                                             "): no real vocabulary's do");
    }
    return splitter;
  }

  /// Calls `on_text(std::string_view, std::size_t offset)` for each stretch between added tokens (never empty) and
  /// `on_token(TokenId)` for each of them, in order. Control tokens are text unless `control` is true.
  template <class OnText, class OnToken>
  Result<void> split(std::string_view text, bool control, const OnText& on_text, const OnToken& on_token) const {
    std::size_t begin = 0;
    for (std::size_t at = 0; at < text.size();) {
      const Found found = starts_[static_cast<unsigned char>(text[at])] ? longest_at(text.substr(at), control) : Found{};
      if (found.n_bytes == 0) {
        ++at;
        continue;
      }
      if (at > begin) COLI_CHECK(on_text(text.substr(begin, at - begin), begin));
      on_token(found.id);
      begin = at += found.n_bytes;
    }
    if (text.size() > begin) COLI_CHECK(on_text(text.substr(begin), begin));
    return {};
  }

 private:
  struct Node {
    TokenId id{-1};  // the token that ends here
    bool control = false;
  };
  struct Found {
    TokenId id{-1};
    std::size_t n_bytes = 0;
  };

  bool add(std::string_view text, TokenId id, bool control) {
    starts_[static_cast<unsigned char>(text.front())] = true;
    std::uint32_t node = 0;
    for (const char c : text) {
      const auto byte = static_cast<std::uint32_t>(static_cast<unsigned char>(c));
      const auto fresh = static_cast<std::uint32_t>(nodes_.size());
      switch (edges_.insert(node, byte, {0, fresh})) {
        case Inserted::fresh: nodes_.emplace_back(); node = fresh; break;
        case Inserted::repeated: node = edges_.find(node, byte).id; break;
        case Inserted::flooded: return false;
      }
    }
    if (nodes_[node].id.value < 0) nodes_[node] = {id, control};  // of equal texts the lowest id counts
    return true;
  }

  Found longest_at(std::string_view text, bool control) const {
    Found best;
    std::uint32_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const Merge edge = edges_.find(node, static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])));
      if (!edge) break;
      node = edge.id;
      if (nodes_[node].id.value >= 0 && (control || !nodes_[node].control)) best = {nodes_[node].id, i + 1};
    }
    return best;
  }

  std::array<bool, 256> starts_{};
  PairMap edges_;  // (node, byte) -> node
  std::vector<Node> nodes_;
};

}  // namespace coli
