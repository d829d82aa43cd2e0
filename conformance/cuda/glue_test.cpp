// SPDX-License-Identifier: Apache-2.0
// Do the body that groups tokens by expert and Thrust's stable sort agree? On the emulator and Thrust's host system.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <vector>

#include <thrust/execution_policy.h>

#include "coli/core/thread_pool.hpp"
#include "coli/kernels/cuda/group_by_sort.hpp"
#include "coli/kernels/grid/group_by_expert.hpp"
#include "coli/kernels/grid/host_grid.hpp"

namespace {

using namespace coli;
using grid::GroupByExpert;
using grid::Use;

BOOST_AUTO_TEST_CASE(grouping_is_a_stable_sort) {
  struct Shape {
    std::uint32_t n_experts, top_k, n_tokens;
  };
  ThreadPool pool(2);
  for (const Shape s : {Shape{1, 1, 1}, {4, 4, 33}, {128, 8, 40}, {300, 2, 129}}) {
    const std::uint32_t n = s.n_tokens * s.top_k;
    std::vector<std::uint32_t> ids(n), keys(n), rows(n), wanted_first(s.n_experts + 1), first(s.n_experts + 1);
    std::uint32_t state = 1;
    for (std::uint32_t& id : ids) id = (state = state * 1664525 + 1013904223) % 7 == 0 ? 0 : state % s.n_experts;  // one is favoured
    std::vector<Use> wanted(n), uses(n);
    coli::cuda::group_by_sort(thrust::host, ids.data(), n, s.top_k, s.n_experts, wanted_first.data(), wanted.data(), keys.data(), rows.data());
    grid::HostGrid emulator(pool, {});
    BOOST_REQUIRE(emulator.launch(GroupByExpert{ids.data(), first.data(), uses.data(), n, s.top_k, s.n_experts}, GroupByExpert::shape(s.n_experts)));
    BOOST_TEST(first == wanted_first, boost::test_tools::per_element());
    BOOST_TEST((uses == wanted));
    BOOST_TEST(wanted_first.back() == n);
    ids[n / 2] = (ids[n / 2] + 1) % s.n_experts;  // another choice is another list
    if (s.n_experts > 1) {
      BOOST_REQUIRE(emulator.launch(GroupByExpert{ids.data(), first.data(), uses.data(), n, s.top_k, s.n_experts}, GroupByExpert::shape(s.n_experts)));
      BOOST_TEST((first != wanted_first || !(uses == wanted)));
    }
  }
}

}  // namespace
