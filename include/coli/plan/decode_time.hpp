// SPDX-License-Identifier: Apache-2.0
// How long does one token take when some of its experts must come from disk? A layer-by-layer model, pure arithmetic.
//
// Layer l+1's experts are unknown until layer l ends, so a read overlaps only its own layer's resident experts:
//   token = head + sum over layers of [trunk + max(compute of resident experts, missed bytes / disk rate)
//                                            + compute of the last arrival]
// and no layer takes less than the compute of all its experts (which binds only where the disk is faster than that).
// This is the bound that streamed decode is measured against; reads guessed a layer ahead may beat it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace coli {

/// What one token asks of one layer. Seconds are with all threads at work; a dense layer has no experts, and all of it
/// is trunk.
struct LayerLoad {
  double trunk_seconds = 0;   // attention, router, norms
  double expert_seconds = 0;  // compute of one expert
  double expert_bytes = 0;    // that a miss reads
  std::uint32_t resident = 0;
  std::uint32_t missed = 0;
};

/// Seconds, and which of them computing and waiting for reads account for.
struct DecodeTime {
  double compute_seconds = 0;
  double wait_seconds = 0;  // what no computing of the same layer could hide

  double seconds() const { return compute_seconds + wait_seconds; }
  double rate() const { return seconds() > 0 ? 1 / seconds() : 0; }
  DecodeTime& operator+=(const DecodeTime& other) {
    compute_seconds += other.compute_seconds;
    wait_seconds += other.wait_seconds;
    return *this;
  }
  friend DecodeTime operator*(double weight, const DecodeTime& t) { return {weight * t.compute_seconds, weight * t.wait_seconds}; }
};

/// One layer of one token. `disk_rate` is in bytes a second; it is not looked at where nothing is missed.
inline DecodeTime layer_time(const LayerLoad& layer, double disk_rate) {
  const double computing = (layer.resident + layer.missed) * layer.expert_seconds;
  if (layer.missed == 0) return {layer.trunk_seconds + computing, 0};
  const double reading = layer.missed * layer.expert_bytes / disk_rate;
  const double experts = std::max(layer.resident * layer.expert_seconds, reading) + layer.expert_seconds;
  return {layer.trunk_seconds + computing, std::max(0.0, experts - computing)};
}

/// One token: what comes after the last layer (norm, output matrix, and whatever else is outside layers), and all layers.
inline DecodeTime token_time(double head_seconds, std::span<const LayerLoad> layers, double disk_rate) {
  DecodeTime token{head_seconds, 0};
  for (const LayerLoad& layer : layers) token += layer_time(layer, disk_rate);
  return token;
}

/// The expectation of `layer_time` where each of a token's `top_k` experts is resident with probability `hit_rate`,
/// independently (the counts in `layer` are not looked at). The time is convex in the misses: the layer of the average
/// miss count is faster than the average layer.
inline DecodeTime expected_layer_time(LayerLoad layer, std::uint32_t top_k, double hit_rate, double disk_rate) {
  const double hit = std::clamp(hit_rate, 0.0, 1.0);
  DecodeTime expected;
  // Walks outwards from the likeliest count, whose weight is set to 1: no power of a probability can vanish or overflow.
  const auto likeliest = static_cast<std::uint32_t>(std::min<double>(top_k, (top_k + 1.0) * (1 - hit)));
  double total = 0;
  const auto add = [&](std::uint32_t missed, double weight) {
    layer.missed = missed;
    layer.resident = top_k - missed;
    expected += weight * layer_time(layer, disk_rate);
    total += weight;
  };
  add(likeliest, 1);
  double weight = 1;
  for (std::uint32_t m = likeliest; m > 0 && weight > 0; --m) {
    weight *= m * hit / ((top_k - m + 1.0) * (1 - hit));
    add(m - 1, weight);
  }
  weight = 1;
  for (std::uint32_t m = likeliest; m < top_k && hit > 0 && weight > 0; ++m) {
    weight *= (top_k - m) * (1 - hit) / ((m + 1.0) * hit);
    add(m + 1, weight);
  }
  return 1 / total * expected;
}

}  // namespace coli
