// SPDX-License-Identifier: Apache-2.0
// Rows of an embedding, for the device.
#include "coli/kernels/cuda/launch.cuh"
//
#include "coli/kernels/grid/embed.hpp"
#include "driver/cuda/formats.hpp"

#define COLI_EMBED(F)                                              \
  COLI_CUDA_BODY(coli::grid::Embed<coli::F, coli::Layout::plain>); \
  COLI_CUDA_BODY(coli::grid::Embed<coli::F, coli::Layout::prepared>);
COLI_EACH_FORMAT(COLI_EMBED)
