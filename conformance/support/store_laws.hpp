// SPDX-License-Identifier: Apache-2.0
// The kit's laws of stores inside Boost.Test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "coli/conformance/store_laws.hpp"
#include "expert_files.hpp"
#include "laws.hpp"
#include "watchdog.hpp"

namespace coli::test {

template <ExpertStore S>
std::size_t check_every_ticket_completes_once(S& store, const ExpertFiles& files, std::uint64_t seed, bool cancels, bool may_fail = false) {
  conformance::Findings laws("store " + std::string(S::name.view()));
  const std::size_t n_failed = conformance::check_every_ticket_completes_once(laws, store, files, seed, cancels, may_fail);
  expect_obeyed(laws);
  return n_failed;
}

template <class Make>
void check_store_laws(const ExpertFiles& files, Make&& make) {
  expect_obeyed(conformance::check_store_laws(files, std::forward<Make>(make)));
}

}  // namespace coli::test
