// SPDX-License-Identifier: Apache-2.0
// Bodies that race, one std::thread a GPU thread: the thread sanitizer must report each, and nothing without a fault.
#include <cstdio>
#include <cstring>
#include <vector>

#include "coli/kernels/grid/host_grid.hpp"

namespace {

using namespace coli;
using namespace coli::grid;

enum class Fault { none, barrier, blocks };

struct Racing {
  static constexpr FixedName name{"racing"};
  struct Shared {
    Array<float, 64> values;
  };
  Fault fault;
  float* out;  // [2, 64]

  template <Thread T>
  COLI_DEVICE void operator()(T& t, Shared& shared) const {
    t.store(shared.values, t.thread(), 1.0f);
    if (fault != Fault::barrier) t.sync_block();
    const float sum = t.reduce_warp(t.load(shared.values, 63 - t.thread()), Plus{});
    const std::uint32_t row = fault == Fault::blocks ? 0 : t.block().x;
    t.store(out + row * 64 + t.thread(), sum);
  }
};

}  // namespace

int main(int argc, char** argv) {
  const auto asked = [&](const char* what) { return argc > 1 && std::strcmp(argv[1], what) == 0; };
  const Fault fault = asked("barrier") ? Fault::barrier : asked("blocks") ? Fault::blocks : Fault::none;
  ThreadPool pool(1);
  HostGrid grid(pool, {Scheduler::threads, 1, false, Planted::nothing});
  std::vector<float> out(128);
  const auto done = grid.launch(Racing{fault, out.data()}, {2, 1, 64});
  std::puts(done && out[0] == 32 ? "done" : "wrong");
  return 0;
}
