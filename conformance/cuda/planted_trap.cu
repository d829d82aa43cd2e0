// SPDX-License-Identifier: Apache-2.0
// Planted: a host's table, indexed by device code. nvcc says nothing and compiles a trap; no_traps.sh must see it.
#include "coli/kernels/cuda/launch.cuh"
//
#include <array>

namespace {
struct Holder {
  static constexpr std::array<int, 4> kTable{3, 1, 4, 1};
  static constexpr int at(unsigned i) { return kTable[i]; }
};
}  // namespace

__global__ void planted(const unsigned* i, int* out) { *out = Holder::at(*i); }
