// SPDX-License-Identifier: Apache-2.0
// Which scale (and minimum) makes a group's integers come closest to its values?
//
// Used by the encoders alone, so nothing here defines a format. The search is a short fixed list of candidate scales,
// each refined by least squares on the integers it gives: deterministic, O(candidates x values), no allocation.
// Non-finite values give some valid integers, never undefined behaviour.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "coli/quant/half.hpp"

namespace coli::fit {

/// The integer in [low, high] nearest to `value` (ties to even); `low` for NaN. |low|, |high| < 2^22.
inline int nearest(float value, int low, int high) noexcept {
  if (value >= static_cast<float>(high)) return high;
  if (!(value > static_cast<float>(low))) return low;
  constexpr float kToInteger = 0x1.8p23f;  // floats of this size are integers, so the sum rounds; no libm call
  return static_cast<int>((value + kToInteger) - kToInteger);
}

/// 1/scale, or 0 where the scale is 0, so that a group of zeros gets zeros.
inline float inverse(float scale) noexcept { return scale != 0 ? 1.0f / scale : 0.0f; }

/// `scale` as the decoder will see it: rounded to f16, and the largest finite f16 where it would overflow.
inline float as_f16(float scale) noexcept { return f16_to_f32(f32_to_f16(std::clamp(scale, -65504.0f, 65504.0f))); }

/// values[i] ~ scale * q, q an integer in [low, high] with -low >= high. The value of largest magnitude takes the
/// longer side, so the scale may be negative.
inline float symmetric_scale(const float* values, std::size_t n, int low, int high) noexcept {
  float extreme = 0;
  for (std::size_t i = 0; i < n; ++i)
    if (std::abs(values[i]) > std::abs(extreme)) extreme = values[i];
  if (extreme == 0 || !std::isfinite(extreme)) return 0;
  float best_scale = extreme / static_cast<float>(low);
  float best_gain = -1;
  constexpr int kSteps = 5;
  for (int step = -kSteps; step <= kSteps; ++step) {
    const float inv = (static_cast<float>(low) + 0.15f * static_cast<float>(step)) / extreme;
    // Weighting by the square of the value keeps large weights, which matter most, the closest.
    float xq = 0, qq = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const auto q = static_cast<float>(nearest(values[i] * inv, low, high));
      const float weight = values[i] * values[i];
      xq += weight * values[i] * q;
      qq += weight * q * q;
    }
    if (qq > 0 && xq * xq / qq > best_gain) {
      best_gain = xq * xq / qq;
      best_scale = xq / qq;
    }
  }
  return best_scale;
}

/// values[i] ~ scale * q - minimum, q an integer in [0, levels], scale >= 0.
struct Affine {
  float scale;
  float minimum;
};

/// The best affine fit found; `minimum` is at least 0 where the format keeps it without a sign.
inline Affine affine_fit(const float* values, std::size_t n, int levels, bool minimum_has_sign) noexcept {
  float low = values[0], high = values[0], sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    low = std::min(low, values[i]);
    high = std::max(high, values[i]);
    sum += values[i];
  }
  if (!minimum_has_sign) low = std::min(low, 0.0f);
  if (!(high > low) || !std::isfinite(high - low)) return {0, minimum_has_sign || low < 0 ? -low : 0.0f};

  const auto count = static_cast<float>(n);
  Affine best{(high - low) / static_cast<float>(levels), -low};
  float best_error = -1;
  constexpr int kSteps = 6;
  for (int step = 0; step <= kSteps; ++step) {
    const float inv = (static_cast<float>(levels) + 0.25f * static_cast<float>(step - 2)) / (high - low);
    float q_sum = 0, qq = 0, xq = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const auto q = static_cast<float>(nearest((values[i] - low) * inv, 0, levels));
      q_sum += q;
      qq += q * q;
      xq += values[i] * q;
    }
    const float determinant = count * qq - q_sum * q_sum;
    Affine candidate{1.0f / inv, -low};
    if (determinant > 0) {
      candidate = {(count * xq - sum * q_sum) / determinant, (xq * q_sum - sum * qq) / determinant};
      if (!minimum_has_sign && candidate.minimum < 0) candidate = {xq / qq, 0};
    }
    if (!(candidate.scale > 0)) continue;
    float error = 0;
    const float candidate_inv = 1.0f / candidate.scale;
    for (std::size_t i = 0; i < n; ++i) {
      const auto q = static_cast<float>(nearest((values[i] + candidate.minimum) * candidate_inv, 0, levels));
      const float off = candidate.scale * q - candidate.minimum - values[i];
      error += off * off;
    }
    if (best_error < 0 || error < best_error) {
      best_error = error;
      best = candidate;
    }
  }
  return best;
}

}  // namespace coli::fit
