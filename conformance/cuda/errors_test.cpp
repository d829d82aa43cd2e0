// SPDX-License-Identifier: Apache-2.0
// Where there is no GPU, does every CUDA call fail as a value, in one line that names the call? And are owners owners?
#include <boost/test/unit_test.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "coli/kernels/cuda/device.hpp"
#include "coli/kernels/grid/combine.hpp"
#include "coli/plan/devices.hpp"

namespace {

using namespace coli;
using cuda::CudaDevice;

bool has_device() {
  int n = 0;
  return cudaGetDeviceCount(&n) == cudaSuccess && n > 0;
}

void expect_line(const Error& error, Errc code, const std::string& call) {
  const std::string line = error.line();
  BOOST_TEST((error.code == code), line);
  BOOST_TEST(line.find(call) != std::string::npos, line);
  BOOST_TEST(line.find("(cudaError") != std::string::npos, line);
  BOOST_TEST(line.find('\n') == std::string::npos, line);
}

BOOST_AUTO_TEST_CASE(every_call_fails_as_a_value_that_names_it) {
  if (has_device()) {
    BOOST_TEST_MESSAGE("SKIP: this machine has a GPU: what calls say without one is not tested");
    return;
  }
  const auto check = CudaDevice::check();
  BOOST_REQUIRE(!check);
  expect_line(check.error(), Errc::unavailable, "cudaGetDeviceCount");
  const auto open = CudaDevice::open();
  BOOST_REQUIRE(!open);
  BOOST_TEST(open.error().line() == check.error().line());

  // What the backend calls, one by one, as if a device had gone away.
  void* at = nullptr;
  std::size_t free = 0, total = 0;
  cuda::Stream stream;
  cuda::Event event;
  cuda::Graph graph;
  const std::vector<std::pair<std::string, std::function<Result<void>()>>> calls{
      {"cudaSetDevice", [&]() -> Result<void> { COLI_CUDA_CHECK(cudaSetDevice(0)); return {}; }},
      {"cudaMalloc", [&]() -> Result<void> { COLI_CUDA_CHECK(cudaMalloc(&at, 16)); return {}; }},
      {"cudaMemGetInfo", [&]() -> Result<void> { COLI_CUDA_CHECK(cudaMemGetInfo(&free, &total)); return {}; }},
      {"cudaHostRegister", [&]() -> Result<void> { COLI_CUDA_CHECK(cudaHostRegister(&total, sizeof(total), cudaHostRegisterDefault)); return {}; }},
      {"cudaStreamCreateWithFlags", [&]() -> Result<void> { COLI_CUDA_CHECK(cudaStreamCreateWithFlags(stream.into(), cudaStreamNonBlocking)); return {}; }},
      {"cudaEventCreateWithFlags", [&]() -> Result<void> { COLI_CUDA_CHECK(cudaEventCreateWithFlags(event.into(), cudaEventDisableTiming)); return {}; }},
      {"cudaMemcpyAsync", [&]() -> Result<void> { COLI_CUDA_CHECK(cudaMemcpyAsync(&total, &free, 8, cudaMemcpyHostToDevice, nullptr)); return {}; }},
      {"cudaMemsetAsync", [&]() -> Result<void> { COLI_CUDA_CHECK(cudaMemsetAsync(&total, 0, 8, nullptr)); return {}; }},
      {"cudaStreamBeginCapture", [&]() -> Result<void> { COLI_CUDA_CHECK(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeThreadLocal)); return {}; }},
      {"cudaStreamSynchronize", [&]() -> Result<void> { COLI_CUDA_CHECK(cudaStreamSynchronize(nullptr)); return {}; }},
  };
  for (const auto& [name, call] : calls) {
    const auto done = call();
    BOOST_REQUIRE_MESSAGE(!done, name << " succeeded with no device");
    expect_line(done.error(), Errc::unavailable, name);
  }
  const grid::Add body{nullptr, nullptr, 128};
  const auto launched = static_cast<cudaError_t>(cuda::launch(body, body.shape(128), nullptr));
  BOOST_TEST((launched == cudaErrorInsufficientDriver || launched == cudaErrorNoDevice), cudaGetErrorName(launched));
}

BOOST_AUTO_TEST_CASE(impossible_launches_are_refused_before_the_runtime_sees_them) {
  const grid::Add body{nullptr, nullptr, 0};
  for (const LaunchShape& shape : {body.shape(0), LaunchShape{1, 1, 33}, LaunchShape{1, 65536, 128}, LaunchShape{1, 1, 512}})
    BOOST_TEST((static_cast<cudaError_t>(cuda::launch(body, shape, nullptr)) == cudaErrorInvalidConfiguration));
}

BOOST_AUTO_TEST_CASE(errors_mean_what_a_driver_of_this_program_should_do) {
  BOOST_TEST((cuda::to_error(cudaErrorMemoryAllocation, "cudaMalloc", "1 GiB wanted").code == Errc::over_budget));
  BOOST_TEST((cuda::to_error(cudaErrorNoDevice, "x").code == Errc::unavailable));
  BOOST_TEST((cuda::to_error(cudaErrorUnsupportedPtxVersion, "x").code == Errc::unavailable));
  BOOST_TEST((cuda::to_error(cudaErrorIllegalAddress, "cudaStreamSynchronize").code == Errc::internal));
  const std::string line = cuda::to_error(cudaErrorIllegalAddress, "launch of matmul", "1 x 2 blocks of 128 threads").line();
  BOOST_TEST(line == "CUDA: launch of matmul (1 x 2 blocks of 128 threads): an illegal memory access was encountered (cudaErrorIllegalAddress)");
}

int n_destroyed = 0;
cudaError_t destroy(int* object) {
  n_destroyed += *object;
  return cudaSuccess;
}

BOOST_AUTO_TEST_CASE(a_handle_destroys_what_it_owns_once) {
  int one = 1, ten = 10;
  {
    cuda::Handle<int*, &destroy> a(&one), b;
    BOOST_TEST(b.get() == nullptr);
    b = std::move(a);
    BOOST_TEST(b.get() == &one);
    cuda::Handle<int*, &destroy> c(std::move(b));
    *b.into() = &ten;
    BOOST_TEST(n_destroyed == 0);
  }
  BOOST_TEST(n_destroyed == 11);
}

}  // namespace
