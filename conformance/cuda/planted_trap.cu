// SPDX-License-Identifier: Apache-2.0
// Planted: a format's own decoder, whose table is a host's. nvcc says nothing and compiles a trap; no_traps.sh must see it.
#include <cstddef>

#include "coli/quant/mxfp4.hpp"

__global__ void planted(const std::byte* block, float* values) {
  std::byte bytes[coli::MXFP4::kBytesPerBlock];
  float decoded[coli::MXFP4::kValuesPerBlock];
  for (std::size_t i = 0; i < sizeof(bytes); ++i) bytes[i] = block[i];
  coli::MXFP4::decode(bytes, decoded);
  for (std::size_t i = 0; i < coli::MXFP4::kValuesPerBlock; ++i) values[i] = decoded[i];
}
