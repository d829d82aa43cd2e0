// SPDX-License-Identifier: Apache-2.0
// From a prompt to a text: sample, stop, and hand out each token with the characters it completes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"
#include "coli/sample/greedy.hpp"
#include "coli/sample/random_sampler.hpp"
#include "coli/text/detokenizer.hpp"
#include "coli/text/tokenizer.hpp"

namespace coli {

struct GenerationOptions {
  SamplingOptions sampling;
  std::uint32_t max_tokens = 256;
  std::vector<std::string> stops;  // text that ends generation; it is not part of the output
  bool stop_at_end_tokens = true;
};

enum class StopReason : std::uint8_t { length, end_token, stop_text, cancelled };
constexpr std::string_view name_of(StopReason reason) {
  switch (reason) {
    case StopReason::length: return "length";
    case StopReason::end_token: return "eos";
    case StopReason::stop_text: return "stop";
    case StopReason::cancelled: return "interrupted";
  }
  __builtin_unreachable();
}

/// One generated token. `text` is what it adds to the output: complete characters, "" while one is unfinished or where
/// a stop text may have begun; valid during the callback.
struct GeneratedToken {
  TokenId id;
  std::string_view text;
  std::span<const float> logits;  // that it was chosen from
  float margin;                   // largest minus second largest logit
};

/// Holds back text that may be the start of a stop text. No stops: everything passes at once.
class StopMatcher {
 public:
  explicit StopMatcher(std::span<const std::string> stops) : stops_(stops.begin(), stops.end()) {
    std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
  }

  /// Appends what may be shown to `out`; true where a stop text is complete (the earliest match ends the text).
  bool push(std::string_view text, std::string& out) {
    held_ += text;
    std::size_t earliest = std::string::npos;
    for (const std::string& stop : stops_) earliest = std::min(earliest, held_.find(stop));
    if (earliest != std::string::npos) {
      out.append(held_, 0, earliest);
      held_.clear();
      return true;
    }
    std::size_t keep = 0;  // the longest end of held_ that some stop text begins with
    for (const std::string& stop : stops_)
      for (std::size_t n = std::min(stop.size() - 1, held_.size()); n > keep; --n)
        if (held_.ends_with(std::string_view(stop).substr(0, n))) {
          keep = n;
          break;
        }
    out.append(held_, 0, held_.size() - keep);
    held_.erase(0, held_.size() - keep);
    return false;
  }
  /// The text ended otherwise: what was held back is plain text after all.
  std::string flush() { return std::exchange(held_, {}); }

 private:
  std::vector<std::string> stops_;
  std::string held_;
};

/// Generates after `prompt`, reusing the longest prefix that the sequence already holds (bits are those of a fresh
/// prefill). `on_token(GeneratedToken) -> bool` sees each token; false ends with StopReason::cancelled. Text that was
/// held back when generation ends is given to `on_token` never; it is returned in `tail`.
/// `sequence` is an engine, or anything with its tokens/truncate/prefill/step. `tokenizer` may be null: no texts then.
/// Errors: usage (options, no prompt, prompt and max_tokens beyond the context: before any compute), and the engine's.
template <class Sequence, class OnToken>
Result<StopReason> generate(Sequence& sequence, const Tokenizer* tokenizer, std::span<const TokenId> prompt, const GenerationOptions& options,
                            std::string& tail, OnToken&& on_token) {
  COLI_CHECK(options.sampling.validate());
  if (prompt.empty()) return Error{Errc::usage, "the prompt has no tokens"};
  if (prompt.size() > sequence.context() || options.max_tokens > sequence.context() - prompt.size())
    return Error{Errc::usage, "a prompt of " + std::to_string(prompt.size()) + " tokens and " + std::to_string(options.max_tokens) +
                                  " to generate do not fit the context of " + std::to_string(sequence.context())};
  if (options.max_tokens == 0) return StopReason::length;
  if (tokenizer == nullptr && !options.stops.empty()) return Error{Errc::usage, "stop texts need a model with a tokenizer", "--stop"};

  RandomSampler sampler(options.sampling);
  for (const TokenId token : prompt) sampler.saw(token);
  StopMatcher stops(options.stops);
  std::optional<Detokenizer> detokenizer;
  if (tokenizer != nullptr) detokenizer.emplace(tokenizer->vocabulary());

  const std::span<const TokenId> held = sequence.tokens();
  std::size_t same = 0;
  while (same < std::min(held.size(), prompt.size() - 1) && held[same] == prompt[same]) ++same;  // the last one is always computed
  COLI_CHECK(sequence.truncate(static_cast<std::uint32_t>(same)));
  auto logits = sequence.prefill(prompt.subspan(same));

  std::string text;
  for (std::uint32_t n = 0;; ++n) {
    if (!logits) {
      if (logits.error().code == Errc::interrupted) break;
      return std::move(logits).error();
    }
    COLI_TRY(top, top_two(*logits));
    COLI_TRY(token, sampler.next(*logits));
    sampler.saw(token);
    const bool ends = options.stop_at_end_tokens && tokenizer != nullptr && tokenizer->vocabulary().ends_generation(token);
    text.clear();
    const bool stopped = !ends && detokenizer && stops.push(detokenizer->push(token), text);
    if (!on_token(GeneratedToken{token, text, *logits, top.margin()})) break;
    if (stopped) return StopReason::stop_text;
    if (ends || n + 1 == options.max_tokens) {
      if (detokenizer) {
        text.clear();
        if (!stops.push(detokenizer->flush(), text)) text += stops.flush();
        tail = text;
      }
      return ends ? StopReason::end_token : StopReason::length;
    }
    logits = sequence.step(token);
  }
  if (detokenizer) tail = stops.flush();
  return StopReason::cancelled;
}

}  // namespace coli
