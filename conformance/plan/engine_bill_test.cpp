// SPDX-License-Identifier: Apache-2.0
// Does an engine hold what was planned? Class by class, slot by slot, on every fixture that runs, streamed and resident.
#include <boost/test/unit_test.hpp>
#include <string>

#include "coli/engine.hpp"
#include "coli/expert_memory.hpp"
#include "coli/planner.hpp"
#include "coli/profiles.hpp"

namespace coli::conformance {
namespace {

using Scalar = profiles::scalar;

BOOST_AUTO_TEST_CASE(the_engine_charges_what_the_plan_says) {
  for (const std::string name : {"bard", "tiny_q4_k_m", "tiny_dense1", "tiny_top1", "tiny_mixed", "tiny_split-00001-of-00003"}) {
    const std::string path = std::string(COLI_FIXTURES_DIR) + "/" + name + ".gguf";
    for (const std::uint64_t extra : {0ULL, 100'000ULL, 1ULL << 30}) {
      auto file = gguf::ModelFile::open(path);
      BOOST_TEST_REQUIRE(file.has_value());
      const auto needs = model_needs(*file);
      BOOST_TEST_REQUIRE(needs.has_value());
      auto machine = read_machine();
      BOOST_TEST_REQUIRE(machine.has_value());
      machine->direct_block = 512;
      PlanWishes wishes;
      wishes.memory = Bytes{0};
      const PlannedProfile profile = planned_profile<Scalar>({});
      wishes.memory = plan_run(*needs, profile, *machine, wishes, ReuseCurve::fallback()).refusal->needed + Bytes{extra};
      const auto plan = plan_run(*needs, profile, *machine, wishes, ReuseCurve::fallback()).plan;
      BOOST_TEST_REQUIRE(plan.has_value());

      // The engine's own base is what the process has by then: more than when the plan was made, by less than a mebibyte.
      EngineOptions options{.context = plan->shape.context, .kv = plan->shape.kv, .threads = plan->threads, .chunk = plan->shape.chunk};
      const auto base = process_size("VmHWM");
      options.memory = plan->total() - plan->bill.base + **base + kEngineSlack + Bytes{kMiB};
      auto opened = engine<Scalar>::open(std::move(*file), options, {});
      BOOST_TEST_REQUIRE(opened.has_value(), (opened ? "" : opened.error().line()));
      BOOST_TEST_CONTEXT(name << " with " << extra << " bytes more than the least") {
        const Accountant& held = opened->memory();
        BOOST_TEST(held.held(MemoryClass::trunk).value == plan->bill.trunk.value);
        BOOST_TEST(held.held(MemoryClass::kv).value == plan->bill.kv.value);
        BOOST_TEST(held.held(MemoryClass::scratch).value == plan->bill.scratch.value);
        BOOST_TEST(held.held(MemoryClass::io).value <= plan->bill.io.value);
        if (plan->resident) BOOST_TEST(held.held(MemoryClass::slots).value == plan->cache.value);
        BOOST_TEST(opened->stats().slots >= plan->slots.total());
      }
    }
  }
}

}  // namespace
}  // namespace coli::conformance
