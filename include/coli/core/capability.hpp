// SPDX-License-Identifier: Apache-2.0
// Can a graphics card run what was compiled for this compute capability and later ones? Words where it can't.
#pragma once

#include <string>

namespace coli {

/// In tens, as compilers name them: 80 is 8.0. Ampere has asynchronous copies into shared memory, which kernels count on.
inline constexpr int kLeastCapability = 80;

/// What a card of capability major.minor lacks where the lowest that code was built for is `least`; empty where it lacks
/// nothing. Machine code runs on later cards of its generation, and the PTX beside it on later generations: never on earlier ones.
inline std::string capability_lacks(int major, int minor, int least = kLeastCapability) {
  if (10 * major + minor >= least) return {};
  const auto dotted = [](int a, int b) { return std::to_string(a) + "." + std::to_string(b); };
  return "compute capability " + dotted(major, minor) + "; " + dotted(least / 10, least % 10) + " is the least" + (least > kLeastCapability ? " that this build has code for" : "");
}

}  // namespace coli
