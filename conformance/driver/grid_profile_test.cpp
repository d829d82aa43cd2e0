// SPDX-License-Identifier: Apache-2.0
// Does the shipped profile grid, the whole engine on GPU kernels without a GPU, decide what the oracle decided?
#include <boost/test/unit_test.hpp>

#include "coli/sample/greedy.hpp"
#include "conformance/support/golden.hpp"
#include "driver/registry.hpp"

namespace {

using namespace coli;
using namespace coli::conformance;

BOOST_AUTO_TEST_CASE(the_profile_grid_decides_as_the_oracle_outside_near_ties) {
  const auto profile = colidrv::find_profile("grid");
  if (!profile) {
    BOOST_TEST_MESSAGE("SKIP: the profile grid is not in this build");
    return;
  }
  for (const auto& [stem, name] : golden_models())
    for (const KvFormat kv : {KvFormat::f16, KvFormat::f32}) {
      auto file = gguf::ModelFile::open(fixture(name));
      require_ok(file);
      auto session = (*profile)->open(*std::move(file), {.kv = kv, .threads = 2});
      require_ok(session);
      std::size_t same = 0, near_ties = 0;
      for (const GoldenCase& c : read_goldens(stem)) {
        require_ok((*session)->truncate(0));
        auto logits = (*session)->prefill(c.prompt);
        for (std::size_t step = 0; step < c.ids.size(); ++step) {
          if (step != 0) logits = (*session)->step(c.ids[step - 1]);
          require_ok(logits);
          const TokenId got = top_two(*logits)->best;
          if (got == c.ids[step]) ++same;
          else if (c.is_near_tie(step)) ++near_ties;
          else BOOST_ERROR(stem << " " << c.id << " step " << step << ": got " << got.value << ", the oracle says " << c.ids[step].value);
        }
      }
      BOOST_TEST_MESSAGE("grid, " << name_of(kv) << ": " << stem << ": " << same << " decisions are the oracle's, " << near_ties << " near-ties are not");
      BOOST_CHECK_MESSAGE(near_ties * 20 < same, stem << ": " << near_ties << " near-ties to " << same << " decisions");
    }
}

}  // namespace
