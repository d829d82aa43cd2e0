// SPDX-License-Identifier: Apache-2.0
// Two processors: does the placement alone decide the bits, and do decisions stay the oracle's whoever computes?
#include <array>

#include "support.hpp"

namespace coli::conformance {
namespace {

const std::vector<TokenId> kPrompt{TokenId{7}, TokenId{60}, TokenId{113}, TokenId{166}, TokenId{219}, TokenId{22}, TokenId{75}};
constexpr std::size_t kTokens = 6;

struct Run {
  std::string hash;
  DeviceTierStats tier;
};
Result<Run> run_with(const EngineOptions& options, HostQueuesOptions queues = {}) {
  COLI_TRY(engine, coli::engine<device>::open(fixture("tiny_q4_k_m.gguf"), options, on_queues(queues)));
  COLI_TRY(decisions, try_decide(engine, kPrompt, kTokens));
  return Run{decisions.hash, engine.stats().device};
}
Run run(const EngineOptions& options, HostQueuesOptions queues = {}) {
  auto result = run_with(options, queues);
  require_ok(result);
  return std::move(*result);
}
Bytes least_of(const EngineOptions& options) {
  const auto refused = run_with(options);
  BOOST_REQUIRE(!refused);
  const std::size_t at = refused.error().message.find("give at least ");
  BOOST_REQUIRE_NE(at, std::string::npos);
  return Bytes{std::stoull(refused.error().message.substr(at + 14))};
}

BOOST_AUTO_TEST_SUITE(hybrid)

BOOST_AUTO_TEST_CASE(equal_placement_is_equal_bits) {
  const Run shared = run({.chunk = 4, .cpu_experts = 2});
  BOOST_CHECK_EQUAL(shared.tier.cpu_experts, 2U);
  BOOST_CHECK_GT(shared.tier.on_cpu, 0U);
  BOOST_CHECK_GT(shared.tier.hits + shared.tier.misses, 0U);  // and the device had its own
  const Bytes vram = least_of({.chunk = 4, .vram = Bytes{1000}, .cpu_experts = 2});
  for (const Haste haste : {Haste::lazy, Haste::eager, Haste::copies_last}) {
    const Run part = run({.threads = 3, .chunk = 4, .vram = vram, .cpu_experts = 2}, {.haste = haste});
    BOOST_CHECK_EQUAL(part.hash, shared.hash);
    BOOST_CHECK_LE(part.tier.held.value, vram.value);
    BOOST_CHECK_GT(part.tier.misses, 0U);
  }
  BOOST_CHECK_EQUAL(run({.chunk = 1, .cpu_experts = 2}).hash, shared.hash);
  // Little of this machine's memory: uploads and the CPU take turns at the host's slots.
  const Bytes memory{least_of({.chunk = 4, .memory = Bytes{1000}, .vram = vram, .cpu_experts = 2}).value + 4 * kMiB};
  BOOST_CHECK_EQUAL(run({.chunk = 4, .memory = memory, .vram = vram, .cpu_experts = 2}).hash, shared.hash);
  // Other processors, other bits: what is compared above could differ.
  BOOST_CHECK_NE(run({.chunk = 4}).hash, shared.hash);
  BOOST_CHECK_NE(run({.chunk = 4, .cpu_experts = 3}).hash, shared.hash);
}

BOOST_AUTO_TEST_CASE(decisions_are_the_oracles_whoever_computes) {
  for (const std::uint32_t cpu_experts : {2U, 5U}) {
    auto engine = open_fixture<device>("tiny_q4_k_m.gguf", {.cpu_experts = cpu_experts}, on_queues());
    const GoldenCount count = count_decisions(engine, "tiny_q4_k_m", std::to_string(cpu_experts) + " on the CPU,");
    BOOST_CHECK_MESSAGE(count.near_ties * 20 < count.same && count.same > 0, count.near_ties << " near-ties to " << count.same << " decisions");
  }
}

BOOST_AUTO_TEST_CASE(measured_rates_place_experts_once) {
  const Bytes vram = least_of({.chunk = 4, .vram = Bytes{1000}});
  const SplitRates slow_link{.upload = 1e9, .compute = 3e9, .memory = 0};
  const Run split = run({.chunk = 4, .vram = vram, .split = slow_link});
  BOOST_CHECK_GT(split.tier.cpu_experts, 0U);
  BOOST_CHECK_EQUAL(split.hash, run({.chunk = 4, .vram = vram, .cpu_experts = split.tier.cpu_experts}).hash);
  BOOST_CHECK_EQUAL(run({.chunk = 4, .vram = vram, .split = SplitRates{.upload = 1e12, .compute = 1e6, .memory = 0}}).tier.cpu_experts, 0U);
  BOOST_CHECK_EQUAL(run({.chunk = 4, .split = slow_link}).tier.cpu_experts, 0U);  // all fit on the device: there is nothing to share
}

BOOST_AUTO_TEST_CASE(what_cannot_be_shared_is_refused) {
  const auto too_many = run_with({.cpu_experts = 1000});
  BOOST_REQUIRE(!too_many);
  BOOST_CHECK(too_many.error().code == Errc::usage);
  DeviceKernels<HostQueues> alone{std::make_shared<HostQueues>(HostQueuesOptions{})};
  const auto nobody = coli::engine<device>::open(fixture("tiny_q4_k_m.gguf"), {.cpu_experts = 1}, std::move(alone));
  BOOST_REQUIRE(!nobody);
  BOOST_CHECK(nobody.error().code == Errc::unavailable);
  const auto on_a_cpu = engine<profiles::scalar>::open(fixture("tiny_f32.gguf"), {.cpu_experts = 1});
  BOOST_REQUIRE(!on_a_cpu);
  BOOST_CHECK(on_a_cpu.error().code == Errc::usage);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli::conformance
