// SPDX-License-Identifier: Apache-2.0
// Products of one vector, for the device.
#include "coli/kernels/cuda/launch.cuh"
//
#include "coli/kernels/grid/tuning.hpp"
#include "driver/cuda/formats.hpp"

#define COLI_PRODUCT(F) COLI_CUDA_BODY(coli::grid::SingleMatmul<coli::F>);
COLI_EACH_FORMAT(COLI_PRODUCT)
