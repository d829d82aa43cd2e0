// SPDX-License-Identifier: Apache-2.0
// The kit's laws of samplers inside Boost.Test.
#pragma once

#include <utility>

#include "coli/conformance/sampler_laws.hpp"
#include "laws.hpp"

namespace coli::test {

using conformance::kNever;

template <Sampler S, class Make>
void check_sampler_laws(Make&& make) {
  expect_obeyed(conformance::check_sampler_laws<S>(std::forward<Make>(make)));
}
template <Sampler S, class Make>
void check_is_greedy(Make&& make) {
  expect_obeyed(conformance::check_is_greedy<S>(std::forward<Make>(make)));
}

}  // namespace coli::test
