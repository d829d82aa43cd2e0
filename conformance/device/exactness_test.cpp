// SPDX-License-Identifier: Apache-2.0
// What must not change a bit on a device: recording, chunks, how late work is done, how much of the model is there. And
// what must: a wait that is forgotten.
#include <array>

#include "support.hpp"

namespace coli::conformance {
namespace {

const std::vector<TokenId> kPrompt = [] {
  std::vector<TokenId> ids;
  for (int i = 0; i < 21; ++i) ids.push_back(TokenId{(i * 53 + 7) % 250});
  return ids;
}();
constexpr std::size_t kTokens = 8;

struct Run {
  std::string hash;
  DeviceTierStats tier;
  HostQueues::Counts counts;
};

Result<Run> run_with(const std::string& file, const EngineOptions& options, HostQueuesOptions queues = {}) {
  const auto kernels = on_queues(queues);
  COLI_TRY(engine, coli::engine<device>::open(fixture(file), options, kernels));
  (void)kernels.device->take_counts();
  COLI_TRY(decisions, try_decide(engine, kPrompt, kTokens));
  return Run{decisions.hash, engine.stats().device, kernels.device->take_counts()};
}
Run run(const std::string& file, const EngineOptions& options, HostQueuesOptions queues = {}) {
  auto result = run_with(file, options, queues);
  require_ok(result);
  return std::move(*result);
}

/// What a refusal says would do.
Bytes least_of(const std::string& file, const EngineOptions& options, HostQueuesOptions queues = {}) {
  const auto refused = run_with(file, options, queues);
  BOOST_REQUIRE(!refused && refused.error().code == Errc::over_budget);
  const std::string& text = refused.error().message;
  const std::size_t at = text.find("give at least ");
  BOOST_REQUIRE_NE(at, std::string::npos);
  return Bytes{std::stoull(text.substr(at + 14))};
}

BOOST_AUTO_TEST_SUITE(device_exactness)

BOOST_AUTO_TEST_CASE(chunks_haste_and_recording_change_no_bit) {
  for (const std::string file : {"tiny_q4_k_m.gguf", "tiny_dense1.gguf"}) {
    const Run reference = run(file, {});
    BOOST_CHECK_EQUAL(reference.counts.replays, kTokens - 2);  // the first decode pass is plain, the last token is not fed back
    for (const std::uint32_t chunk : {1U, 5U})
      BOOST_CHECK_MESSAGE(run(file, {.chunk = chunk}).hash == reference.hash, file << " differs in chunks of " << chunk);
    BOOST_CHECK_MESSAGE(run(file, {}, {.haste = Haste::eager}).hash == reference.hash, file << " differs when nothing is deferred");
    // Somebody who watches sees every layer of every pass: nothing is recorded.
    const auto kernels = on_queues();
    auto watched = open_fixture<device>(file, {}, kernels);
    std::size_t seen = 0;
    watched.observer().on_hidden = [&](LayerId, std::uint32_t, std::span<const float>) { ++seen; };
    BOOST_CHECK_EQUAL(decide(watched, kPrompt, kTokens).hash, reference.hash);
    BOOST_CHECK_EQUAL(seen, kTokens * watched.hyperparams().n_layers);
    BOOST_CHECK_EQUAL(kernels.device->take_counts().replays, 0U);
  }
}

BOOST_AUTO_TEST_CASE(memory_of_the_device_and_of_the_host_changes_no_bit) {
  for (const std::string file : {"tiny_mixed.gguf", "tiny_top1.gguf"}) {
    const Run all = run(file, {.chunk = 16});
    BOOST_CHECK_EQUAL(all.tier.hits + all.tier.misses, 0U);  // nobody was asked
    const Bytes least = least_of(file, {.chunk = 16, .vram = Bytes{1000}});
    BOOST_CHECK_EQUAL(run_with(file, {.chunk = 16, .vram = Bytes{least.value - 1}}).error().subject, "--vram");
    for (const auto& [limit, haste] : {std::pair{least, Haste::lazy}, {least, Haste::eager}, {least, Haste::copies_last}, {Bytes{(least.value + all.tier.held.value) / 2}, Haste::lazy}}) {
      const Run part = run(file, {.chunk = 16, .vram = limit}, {.haste = haste});
      BOOST_CHECK_MESSAGE(part.hash == all.hash, file << " differs with " << limit.value << " bytes on the device");
      BOOST_CHECK_LE(part.tier.held.value, limit.value);
      BOOST_CHECK_LT(part.tier.slots, all.tier.slots);
      BOOST_CHECK_GT(part.tier.misses, 0U);
      BOOST_CHECK_EQUAL(part.counts.replays, 0U);
    }
    BOOST_CHECK_EQUAL(run(file, {.chunk = 4, .vram = least}).hash, all.hash);
  }
}

BOOST_AUTO_TEST_CASE(a_budget_covers_what_the_device_takes_for_itself) {
  const EngineOptions options{.chunk = 4, .vram = Bytes{1000}};
  constexpr std::uint64_t kOwn = 64 << 10;
  const Bytes least = least_of("tiny_top1.gguf", options), with_own = least_of("tiny_top1.gguf", options, {.own_memory = Bytes{kOwn}});
  BOOST_CHECK_EQUAL(with_own.value, least.value + kOwn);
  const Run run_so = run("tiny_top1.gguf", {.chunk = 4, .vram = with_own}, {.own_memory = Bytes{kOwn}});
  BOOST_CHECK_LE(run_so.tier.held.value, with_own.value);
  BOOST_CHECK_GT(run_so.tier.held.value, least.value - kOwn);
}

BOOST_AUTO_TEST_CASE(three_tiers_change_no_bit) {
  const std::string file = "tiny_q4_k_m.gguf";
  const Bytes vram = least_of(file, {.chunk = 4, .vram = Bytes{1000}});
  const Bytes memory = Bytes{least_of(file, {.chunk = 4, .memory = Bytes{1000}, .vram = vram}).value + 4 * kMiB};  // the process grows from test to test
  const Run part = run(file, {.chunk = 4, .memory = memory, .vram = vram});
  BOOST_CHECK_EQUAL(part.hash, run(file, {}).hash);
  BOOST_CHECK_GT(part.tier.misses, 0U);
}

// A test of the tests: on this device a forgotten wait shows.
BOOST_AUTO_TEST_CASE(forgotten_waits_are_seen) {
  const std::string file = "tiny_q4_k_m.gguf";
  const Bytes vram = least_of(file, {.chunk = 4, .vram = Bytes{1000}});
  const auto unordered = run_with(file, {.chunk = 4, .vram = vram}, {.haste = Haste::copies_last, .forget_after = true});
  BOOST_CHECK(!unordered || unordered->hash != run(file, {.chunk = 4}).hash);
}

BOOST_AUTO_TEST_CASE(kernels_without_a_device_are_refused) {
  const auto nothing = engine<device>::open(fixture("tiny_f32.gguf"));
  BOOST_REQUIRE(!nothing);
  BOOST_CHECK(nothing.error().code == Errc::usage);
  BOOST_CHECK_EQUAL(nothing.error().subject, "kernels");
}

BOOST_AUTO_TEST_CASE(options_that_a_device_does_not_have_are_refused) {
  const auto guessing = run_with("tiny_f32.gguf", {.prefetch = 2});
  BOOST_REQUIRE(!guessing);
  BOOST_CHECK(guessing.error().code == Errc::unavailable);
  const auto on_a_cpu = engine<profiles::scalar>::open(fixture("tiny_f32.gguf"), {.vram = Bytes{kGiB}});
  BOOST_REQUIRE(!on_a_cpu);
  BOOST_CHECK(on_a_cpu.error().code == Errc::usage);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli::conformance
