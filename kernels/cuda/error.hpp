// SPDX-License-Identifier: Apache-2.0
// Which CUDA call failed, on what, and what does that mean here?
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <string_view>

#include "coli/core/error.hpp"

namespace coli::cuda {

/// A CUDA error as ours: out of memory is over_budget, no usable device or driver is unavailable, the rest is internal.
inline Error to_error(cudaError_t error, std::string_view call, std::string_view detail = {}) {
  Errc code = Errc::internal;
  switch (error) {
    case cudaErrorMemoryAllocation: code = Errc::over_budget; break;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorDevicesUnavailable:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorInitializationError: code = Errc::unavailable; break;
    default: break;
  }
  std::string message(call);
  if (!detail.empty()) message += " (" + std::string(detail) + ")";
  message += std::string(": ") + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")";
  return Error{code, std::move(message), "CUDA"};
}

}  // namespace coli::cuda

/// `COLI_CUDA_CHECK(cudaEventRecord(event, stream));` returns the error of a failed call, which it names. The runtime forgets
/// it: it would be the next launch's otherwise, by cudaGetLastError.
#define COLI_CUDA_CHECK(...)                                                                              \
  do {                                                                                                    \
    if (const cudaError_t coli_cuda_error = (__VA_ARGS__); coli_cuda_error != cudaSuccess) {              \
      (void)cudaGetLastError();                                                                           \
      return ::coli::cuda::to_error(coli_cuda_error, #__VA_ARGS__);                                       \
    }                                                                                                     \
  } while (false)
