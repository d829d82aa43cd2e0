// SPDX-License-Identifier: Apache-2.0
// The one kernel: any body of kernels/grid, on a CUDA device.
#pragma once

#include "coli/kernels/cuda/thread.cuh"
//
#include <type_traits>

#include "coli/kernels/cuda/launch.hpp"

namespace coli::cuda {

template <class B>
__global__ void __launch_bounds__(grid::threads_of<B>() != 0 ? grid::threads_of<B>() : grid::kMostThreadsUnsaid) run(const __grid_constant__ B body) {
  using Shared = typename B::Shared;
  constexpr std::size_t kBytes = std::is_empty_v<Shared> ? 16 : sizeof(Shared);
  static_assert(kBytes + kVerbBytes <= 48 * 1024, "static shared memory of a block is at most 48 KiB");
  __shared__ alignas(16) std::byte verbs[kVerbBytes];  // taken only where a verb uses it
  __shared__ alignas(128) std::byte shared[kBytes];
  CudaThread<grid::threads_of<B>()> t(verbs);
  body(t, *reinterpret_cast<Shared*>(shared));
}

template <grid::Body B>
int launch(const B& body, LaunchShape shape, void* stream) {
  static_assert(std::is_trivially_copyable_v<B> && sizeof(B) <= 4096);
  if (!grid::takes<B>(shape)) return static_cast<int>(cudaErrorInvalidConfiguration);
  run<B><<<dim3(shape.blocks_x, shape.blocks_y), shape.threads, 0, static_cast<cudaStream_t>(stream)>>>(body);
  return static_cast<int>(cudaGetLastError());
}

}  // namespace coli::cuda

/// Compiles a body for the device. Variadic: a body may be a template with commas.
#define COLI_CUDA_BODY(...) template int coli::cuda::launch<__VA_ARGS__>(const __VA_ARGS__&, coli::LaunchShape, void*)
