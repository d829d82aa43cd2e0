// SPDX-License-Identifier: Apache-2.0
// Products of many vectors, for the device.
#include "coli/kernels/cuda/launch.cuh"
//
#include "coli/kernels/grid/tuning.hpp"
#include "driver/cuda/formats.hpp"

#define COLI_PRODUCT(F) COLI_CUDA_BODY(coli::grid::BatchMatmul<coli::F>);
COLI_EACH_FORMAT(COLI_PRODUCT)
