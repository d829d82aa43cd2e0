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
/// The stop text that is complete first counts; of several that end together, the one that began first. So what comes
/// out does not depend on how the text was cut into tokens.
class StopMatcher {
 public:
  /// Requires stops that are not empty.
  explicit StopMatcher(std::span<const std::string> stops) : stops_(stops.begin(), stops.end()) {}

  /// Appends what may be shown to `out`; true where a stop text is complete: the text ends before it.
  bool push(std::string_view text, std::string& out) {
    held_ += text;
    std::size_t begin = std::string::npos, end = std::string::npos;
    for (const std::string& stop : stops_) {
      const std::size_t at = held_.find(stop);
      if (at == std::string::npos || at + stop.size() > end) continue;
      begin = at + stop.size() == end ? std::min(begin, at) : at;
      end = at + stop.size();
    }
    if (end != std::string::npos) {
      out.append(held_, 0, begin);
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

/// What one step decided.
struct Choice {
  TokenId token;
  float margin;
};

/// Errors: those of the logits and of the sampler; a logit that is not finite is an error that names the step.
inline Result<Choice> choose(RandomSampler& sampler, const Result<std::span<const float>>& logits, std::uint32_t step) {
  if (!logits) return Error(logits.error());
  const auto at_step = [&](Error error) {
    error.subject = "step " + std::to_string(step);
    return error;
  };
  auto top = top_two(*logits);
  if (!top) return at_step(std::move(top).error());
  auto token = sampler.next(*logits);
  if (!token) return at_step(std::move(token).error());
  sampler.saw(*token);
  return Choice{*token, top->margin()};
}

/// Refuses what can't be done before anything is computed. Errors: usage.
inline Result<void> check_request(std::size_t prompt_tokens, std::uint32_t context, bool has_tokenizer, const GenerationOptions& options) {
  COLI_CHECK(options.sampling.validate());
  for (const std::string& stop : options.stops)
    if (stop.empty()) return Error{Errc::usage, "an empty text can't end generation", "--stop"};
  if (!has_tokenizer && !options.stops.empty()) return Error{Errc::usage, "stop texts need a model with a tokenizer", "--stop"};
  if (prompt_tokens == 0) return Error{Errc::usage, "the prompt has no tokens"};
  if (prompt_tokens <= context && options.max_tokens <= context - prompt_tokens) return {};
  const std::string fits = prompt_tokens < context ? "at most " + std::to_string(context - prompt_tokens) + " can be generated" : "the prompt alone fills it";
  return Error{Errc::usage, "a prompt of " + std::to_string(prompt_tokens) + " tokens and " + std::to_string(options.max_tokens) +
                                " to generate do not fit the context of " + std::to_string(context) + ": " + fits};
}

/// Generates after `prompt`, reusing the longest prefix that the sequence already holds (bits are those of a fresh
/// prefill). `on_token(GeneratedToken) -> bool` sees each token; false ends with StopReason::cancelled. Text that was
/// held back when generation ends is given to `on_token` never; it is returned in `tail`, also with an error.
/// `sequence` is an engine, or anything with its tokens/truncate/prefill/step. `tokenizer` may be null: no texts then.
/// Errors: usage (options, no prompt, prompt and max_tokens beyond the context: before any compute), and the engine's.
template <class Sequence, class OnToken>
Result<StopReason> generate(Sequence& sequence, const Tokenizer* tokenizer, std::span<const TokenId> prompt, const GenerationOptions& options,
                            std::string& tail, OnToken&& on_token) {
  tail.clear();
  COLI_CHECK(check_request(prompt.size(), sequence.context(), tokenizer != nullptr, options));
  if (options.max_tokens == 0) return StopReason::length;

  RandomSampler sampler(options.sampling);
  for (const TokenId token : prompt) sampler.saw(token);
  StopMatcher stops(options.stops);
  std::optional<Detokenizer> detokenizer;
  if (tokenizer != nullptr) {
    detokenizer.emplace(tokenizer->vocabulary());
    for (const TokenId token : prompt) (void)detokenizer->push(token);  // is what comes now the start of a text?
    (void)detokenizer->flush();
  }
  const auto end = [&](StopReason reason) {
    if (!detokenizer) return reason;
    if (stops.push(detokenizer->flush(), tail)) return StopReason::stop_text;
    tail += stops.flush();
    return reason;
  };

  const std::span<const TokenId> held = sequence.tokens();
  std::size_t same = 0;
  while (same < std::min(held.size(), prompt.size() - 1) && held[same] == prompt[same]) ++same;  // the last one is always computed
  COLI_CHECK(sequence.truncate(static_cast<std::uint32_t>(same)));
  auto logits = sequence.prefill(prompt.subspan(same));

  std::string text;
  for (std::uint32_t n = 0;; ++n) {
    auto choice = choose(sampler, logits, n);
    if (!choice) {
      const StopReason reason = end(StopReason::cancelled);
      if (choice.error().code == Errc::interrupted) return reason;
      return std::move(choice).error();
    }
    const TokenId token = choice->token;
    const bool ends = options.stop_at_end_tokens && tokenizer != nullptr && tokenizer->vocabulary().ends_generation(token);
    text.clear();
    const bool stopped = !ends && detokenizer && stops.push(detokenizer->push(token), text);
    const bool goes_on = on_token(GeneratedToken{token, text, *logits, choice->margin});
    if (stopped) return StopReason::stop_text;
    if (ends) return end(StopReason::end_token);
    if (!goes_on) return end(StopReason::cancelled);
    if (n + 1 == options.max_tokens) return end(StopReason::length);
    logits = sequence.step(token);
  }
}

}  // namespace coli
