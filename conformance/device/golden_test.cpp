// SPDX-License-Identifier: Apache-2.0
// Does the whole engine on the emulator decide what the oracle decided, by recorded passes where it decodes?
#include "support.hpp"

namespace coli::conformance {
namespace {

BOOST_AUTO_TEST_SUITE(on_a_device)

BOOST_AUTO_TEST_CASE(decisions_are_the_oracles_outside_near_ties) {
  for (const auto& [stem, file] : golden_models()) {
    const auto kernels = on_queues();
    auto engine = open_fixture<device>(file, {}, kernels);
    (void)kernels.device->take_counts();
    const GoldenCount count = count_decisions(engine, stem, "on queues");
    BOOST_CHECK_MESSAGE(count.near_ties * 20 < count.same, stem << ": " << count.near_ties << " near-ties to " << count.same << " decisions");
    const auto counts = kernels.device->take_counts();
    BOOST_CHECK_MESSAGE(counts.replays + 4 >= count.decoded && count.decoded > 0, stem << ": " << counts.replays << " of " << count.decoded << " decode passes were replays");
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli::conformance
