// SPDX-License-Identifier: Apache-2.0
// Does the emulator mean what a device means, and does it catch what a device would not say?
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <numeric>
#include <string>

#include "cases_verbs.hpp"
#include "host_device.hpp"
#include "on_the_emulator.hpp"

namespace coli::grid {
namespace {

using cases::HostDevice;
using cases::kThreadSanitizer;

constexpr LaunchShape kTwoBlocks{2, 1, 64};

/// A body with a planted fault each (or none): how does the emulator answer?
enum class Fault { none, no_barrier, no_barrier_again, out_of_bounds, divergent_barrier, other_barrier, half_a_warp, cross_block, same_place, unwritten, misaligned, no_wait };

struct Faulty {
  static constexpr FixedName name{"faulty"};
  struct Shared {
    Array<float, 64> values;
    Array<float, 4> after;
  };
  Fault fault;
  const float* in;  // [64]
  float* out;       // [2, 64], 1 more for a wide store that is not aligned

  template <Thread T>
  COLI_DEVICE void operator()(T& t, Shared& shared) const {
    const std::uint32_t i = t.thread();
    float* mine = out + t.block().x * 64;
    if (fault == Fault::no_barrier_again) {
      t.store(shared.values, i, 0.0f);
      t.sync_block();
    }
    if (fault == Fault::no_wait) t.load_async(shared.values, i, in + i);
    else if (fault != Fault::unwritten) t.store(shared.values, fault == Fault::out_of_bounds ? i + 1 : i, t.load(in + i));
    if (fault == Fault::divergent_barrier && i >= 32) return;
    if (fault == Fault::other_barrier && i < 32)
      t.sync_block();
    else if (fault != Fault::no_barrier && fault != Fault::no_barrier_again)
      t.sync_block();
    if (fault == Fault::half_a_warp && t.lane() < 16) t.sync_warp();
    t.store(mine + i, t.load(shared.values, 63 - i) + t.load(shared.values, i));
    if (fault == Fault::cross_block && i == 0) t.store(out, t.load(out) + 1);
    if (fault == Fault::same_place) t.store(mine, 1.0f);
    if (fault == Fault::misaligned && i == 0) t.store(reinterpret_cast<Float4*>(mine + 1), Float4{});
  }
};

Result<void> run(Fault fault, GridOptions options) {
  HostDevice device(options);
  std::vector<float> in(64);
  std::iota(in.begin(), in.end(), 0.0f);
  const auto in_at = device.upload(in);
  const auto out_at = device.upload(std::vector<float>(129, -1));
  auto done = device.launch(Faulty{fault, in_at.get(), out_at.get()}, kTwoBlocks);
  if (fault == Fault::none && done)
    for (std::size_t i = 0; i < 128; ++i) BOOST_TEST(out_at.get()[i] == 63);
  return done;
}

void expect_fault(Fault fault, GridOptions options, const std::string& words) {
  const auto done = run(fault, options);
  BOOST_REQUIRE_MESSAGE(!done, "nobody noticed: " << words);
  BOOST_TEST(done.error().line().find(words) != std::string::npos, done.error().line() << " does not say: " << words);
  BOOST_TEST(done.error().line().find("kernel faulty") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE(emulator)

BOOST_AUTO_TEST_CASE(the_right_body_is_right_on_both_schedulers) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    BOOST_TEST(run(Fault::none, {Scheduler::threads, seed}).has_value());
    if (kThreadSanitizer) continue;
    BOOST_TEST(run(Fault::none, {Scheduler::fibers, seed}).has_value());
    BOOST_TEST(run(Fault::none, {Scheduler::fibers, seed, true}).has_value());
  }
}

BOOST_AUTO_TEST_CASE(divergent_barriers_and_bounds_are_caught_by_both_schedulers) {
  for (const Scheduler scheduler : {Scheduler::fibers, Scheduler::threads}) {
    if (kThreadSanitizer && scheduler == Scheduler::fibers) continue;
    const GridOptions options{scheduler};
    expect_fault(Fault::divergent_barrier, options, "divergent barrier: thread ");
    expect_fault(Fault::divergent_barrier, options, " has returned");
    expect_fault(Fault::other_barrier, options, "divergent barrier: thread 0 is at sync_block (line ");
    expect_fault(Fault::half_a_warp, options, "divergent barrier: thread ");
    expect_fault(Fault::out_of_bounds, options, "shared access out of bounds: element 64 of 64");
    expect_fault(Fault::misaligned, options, "an access of 16 bytes at an address that is no multiple of 16");
  }
}

BOOST_AUTO_TEST_CASE(races_are_caught_by_the_access_log) {
  if (kThreadSanitizer) return;  // its own reports do this there: conformance/CMakeLists.txt, grid.planted_race
  const GridOptions options{Scheduler::fibers, 1, true};
  expect_fault(Fault::no_barrier, options, "reads shared memory that nobody has written");
  expect_fault(Fault::no_barrier_again, options, "with no barrier between them, in shared memory");
  expect_fault(Fault::cross_block, options, "with no barrier between them, in global memory");
  expect_fault(Fault::same_place, options, "with no barrier between them, in global memory");
  expect_fault(Fault::unwritten, options, "reads shared memory that nobody has written");
  expect_fault(Fault::no_wait, options, "reads shared memory that nobody has written");
  expect_fault(Fault::out_of_bounds, options, "shared access out of bounds: element 64 of 64");
}

// Without the log, as a whole engine runs: an early read meets poison, and the order of threads changes by the seed.
BOOST_AUTO_TEST_CASE(a_removed_barrier_reads_poison) {
  if (kThreadSanitizer) return;
  HostDevice device({Scheduler::fibers, 3});
  const auto in_at = device.upload(std::vector<float>(64, 1));
  const auto out_at = device.upload(std::vector<float>(129, 1));
  BOOST_REQUIRE(device.launch(Faulty{Fault::no_barrier, in_at.get(), out_at.get()}, kTwoBlocks));
  std::size_t n_poisoned = 0;
  for (std::size_t i = 0; i < 128; ++i) n_poisoned += std::isnan(out_at.get()[i]);
  BOOST_TEST(n_poisoned > 20u);
}

BOOST_AUTO_TEST_CASE(a_fault_does_not_reach_the_next_launch) {
  if (kThreadSanitizer) return;
  HostDevice device({Scheduler::fibers, 1});
  const auto in_at = device.upload(std::vector<float>(64, 1));
  const auto out_at = device.upload(std::vector<float>(129, 0));
  for (int i = 0; i < 3; ++i) {
    BOOST_TEST(!device.launch(Faulty{Fault::divergent_barrier, in_at.get(), out_at.get()}, kTwoBlocks).has_value());
    BOOST_REQUIRE(device.launch(Faulty{Fault::none, in_at.get(), out_at.get()}, kTwoBlocks));
    BOOST_TEST(out_at.get()[77] == 2);
  }
}

BOOST_AUTO_TEST_CASE(blocks_are_whole_warps) {
  HostDevice device;
  const auto out_at = device.upload(std::vector<float>(129, 0));
  for (const std::uint32_t threads : {0u, 33u, 2048u})
    BOOST_TEST(!device.launch(Faulty{Fault::none, out_at.get(), out_at.get()}, {1, 1, threads}).has_value());
}

BOOST_AUTO_TEST_CASE(verbs_mean_what_the_contract_says) {
  cases::on_the_emulator([](auto& device, cases::Report& report) { cases::verbs(device, report); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli::grid
