// SPDX-License-Identifier: Apache-2.0
// Seeded test vectors, the same with every standard library.
#pragma once

#include <cstddef>
#include <random>
#include <vector>

namespace coli::test {

/// n values evenly from [-scale, scale).
inline std::vector<float> random_floats(std::size_t n, unsigned seed, float scale = 1) {
  std::mt19937 random(seed);
  std::vector<float> values(n);
  for (float& v : values) v = (static_cast<float>(random() >> 8) * 0x1p-23f - 1) * scale;
  return values;
}

}  // namespace coli::test
