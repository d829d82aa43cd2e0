// SPDX-License-Identifier: Apache-2.0
// How does host code that no CUDA compiler sees start a body? A declaration; launch.cuh defines it where nvcc reads it.
#pragma once

#include "coli/contracts/device.hpp"
#include "coli/kernels/grid/thread.hpp"

namespace coli::cuda {

/// Puts `body` on a stream (a cudaStream_t). Returns CUDA's error number, 0 for none. Each body that a program launches is
/// instantiated once, in a file compiled by nvcc: COLI_CUDA_BODY(grid::RmsNorm).
template <grid::Body B>
int launch(const B& body, LaunchShape shape, void* stream);

}  // namespace coli::cuda
