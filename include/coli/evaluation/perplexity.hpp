// SPDX-License-Identifier: Apache-2.0
// How surprised is a model by a text? Nats a token and bits a byte, over windows that every run cuts alike.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>
#include <string>

#include "coli/core/error.hpp"
#include "coli/core/ids.hpp"

namespace coli::evaluation {

/// Window w holds tokens [w * stride, w * stride + window); of every window but the first, the first window - stride
/// predictions were made by the one before and are context only.
struct PerplexityOptions {
  std::uint32_t window = 512;
  std::uint32_t stride = 256;
};

struct Perplexity {
  double nats = 0;  // summed in the order of the tokens, so that equal logits give equal bits
  std::uint64_t n_predicted = 0;
  std::uint64_t n_bytes = 0;  // of the whole text
  double nats_per_token() const { return nats / static_cast<double>(n_predicted); }
  double bits_per_byte() const { return nats / std::numbers::ln2 / static_cast<double>(n_bytes); }
};

/// -log of the softmax at `target`, in f64. Ids that may not be sampled (-infinity) count for nothing; to predict one is
/// infinitely surprising, which is an error. Errors: internal, where that is so or a logit is NaN.
inline Result<double> surprise(std::span<const float> logits, TokenId target) {
  const double best = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - best);
  const double nats = best + std::log(sum) - logits[static_cast<std::size_t>(target.value)];
  if (!std::isfinite(nats)) return Error{Errc::internal, "the model gives token " + std::to_string(target.value) + " no finite probability", "perplexity"};
  return nats;
}

/// `Sequence` is an engine, or anything with its truncate and prefill(tokens, each(position, logits)).
/// Errors: usage (a window that does not fit), nothing_compared (fewer than two tokens), the engine's.
template <class Sequence>
Result<Perplexity> perplexity(Sequence& sequence, std::span<const TokenId> tokens, std::uint64_t n_bytes, const PerplexityOptions& options) {
  if (options.stride == 0 || options.stride > options.window)
    return Error{Errc::usage, "a stride of " + std::to_string(options.stride) + " does not go with a window of " + std::to_string(options.window) + ": it must be from 1 to that", "--stride"};
  if (options.window > sequence.context())
    return Error{Errc::usage, "a window of " + std::to_string(options.window) + " tokens does not fit the context of " + std::to_string(sequence.context()), "--window"};
  if (tokens.size() < 2) return Error{Errc::nothing_compared, "a text of " + std::to_string(tokens.size()) + " tokens predicts nothing", "--perplexity"};
  Perplexity result;
  result.n_bytes = n_bytes;
  const std::size_t n = tokens.size() - 1;  // the last token is predicted, and predicts nothing
  for (std::size_t start = 0; start < n; start += options.stride) {
    const std::size_t length = std::min<std::size_t>(options.window, n - start);
    const std::size_t skip = start == 0 ? 0 : options.window - options.stride;
    if (length <= skip) break;
    COLI_CHECK(sequence.truncate(0));
    Result<void> seen;
    const auto each = [&](std::uint32_t position, std::span<const float> logits) {
      if (position < skip || !seen) return;
      auto nats = surprise(logits, tokens[start + position + 1]);
      if (!nats) {
        seen = std::move(nats).error();
        return;
      }
      result.nats += *nats;
      ++result.n_predicted;
    };
    const auto logits = sequence.prefill(tokens.subspan(start, length), each);
    if (!logits) return Error(logits.error());
    COLI_CHECK(std::move(seen));
  }
  return result;
}

}  // namespace coli::evaluation
