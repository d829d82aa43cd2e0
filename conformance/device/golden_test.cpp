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
    std::size_t same = 0, near_ties = 0, decoded = 0;
    for (const GoldenCase& c : read_goldens(stem)) {
      require_ok(engine.truncate(0));
      auto logits = engine.prefill(c.prompt);
      for (std::size_t step = 0; step < c.ids.size(); ++step) {
        if (step != 0) logits = engine.step(c.ids[step - 1]), ++decoded;
        require_ok(logits);
        if (top_two(*logits)->best == c.ids[step]) ++same;
        else if (c.is_near_tie(step)) ++near_ties;
        else BOOST_ERROR(stem << " " << c.id << " step " << step << ": got " << top_two(*logits)->best.value << ", the oracle says " << c.ids[step].value);
      }
    }
    BOOST_CHECK_MESSAGE(near_ties * 20 < same, stem << ": " << near_ties << " near-ties to " << same << " decisions");
    const auto counts = kernels.device->take_counts();
    BOOST_CHECK_MESSAGE(counts.replays + 4 >= decoded && decoded > 0, stem << ": " << counts.replays << " of " << decoded << " decode passes were replays");
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli::conformance
