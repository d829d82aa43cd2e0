// SPDX-License-Identifier: Apache-2.0
// What did the cache do for one layer of one pass? Kept only while somebody watches.
#pragma once

#include <cstdint>
#include <vector>

namespace coli {

struct LeaseNotes {
  std::vector<std::uint8_t> resident;  // by expert, 1: had its slot when it was asked for; meaningful for the pass's own
  double wait_seconds = 0;             // that compute stood still for this layer's reads
};

}  // namespace coli
