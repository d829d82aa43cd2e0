// SPDX-License-Identifier: Apache-2.0
// Does a device say what it was asked for: the same bodies recorded or not, each of them timed, and all of the experts counted?
#include <map>
#include <string>

#include "support.hpp"

namespace coli::conformance {
namespace {

const std::vector<TokenId> kPrompt{TokenId{7}, TokenId{60}, TokenId{113}, TokenId{166}, TokenId{219}};
constexpr std::size_t kTokens = 6;

struct Run {
  std::string hash;
  DeviceTierStats tier;
};
Run run(const EngineOptions& options) {
  auto engine = open_fixture<device>("tiny_q4_k_m.gguf", options, on_queues());
  const std::string hash = decide(engine, kPrompt, kTokens).hash;
  return {hash, engine.stats().device};
}
constexpr EngineOptions plain() {
  EngineOptions options;
  options.parked.plain_passes = true;
  return options;
}

BOOST_AUTO_TEST_SUITE(work)

BOOST_AUTO_TEST_CASE(a_recording_plays_what_would_have_been_launched) {
  const Run recorded = run({}), launched = run(plain());
  BOOST_TEST(recorded.hash == launched.hash);
  BOOST_TEST(recorded.tier.work.replays == kTokens - 2);  // as exactness_test.cpp says
  BOOST_TEST(launched.tier.work.replays == 0U);
  BOOST_TEST(launched.tier.work.nodes == 0U);
  BOOST_TEST(recorded.tier.work.nodes > 0U);
  BOOST_TEST(recorded.tier.work.bodies() == launched.tier.work.bodies());
}

BOOST_AUTO_TEST_CASE(where_no_sequence_can_be_made_passes_are_launched) {
  const auto kernels = on_queues({.refuse_recordings = true});
  auto engine = open_fixture<device>("tiny_q4_k_m.gguf", {}, kernels);
  BOOST_TEST(decide(engine, kPrompt, kTokens).hash == run(plain()).hash);
  const auto counts = kernels.device->take_counts();
  BOOST_TEST(counts.replays == 0U);
  BOOST_TEST(counts.launches > 0U);
}

BOOST_AUTO_TEST_CASE(every_position_of_a_long_context_has_its_own_row) {
  constexpr std::uint32_t kContext = 700, kHeadDim = 8;
  const auto kernels = on_queues();
  DeviceBackend<HostQueues> backend(kernels, 1);
  Accountant memory;
  require_ok(backend.reserve(memory, {.max_tokens = kContext, .widest = 32, .expert_ffn = 32, .context = kContext, .n_layers = 1, .n_heads = 1, .head_dim = kHeadDim, .n_experts = 1, .top_k = 1}));
  const RopeTable table(1e4, kHeadDim);
  require_ok(backend.fill_positions(table));
  std::vector<float> wanted(std::size_t{kContext} * kHeadDim);
  for (std::uint32_t p = 0; p < kContext; ++p) table.fill(p, wanted.data() + std::size_t{p} * kHeadDim);
  auto out = backend.allocate(memory, MemoryClass::scratch, Bytes{wanted.size() * sizeof(float)});
  require_ok(out);
  auto* const rows = reinterpret_cast<float*>(out->data());
  const std::vector<TokenId> tokens(kContext);
  require_ok(backend.pass(tokens, 0, false, [&]() -> Result<void> {
    backend.positions(table, 0, kContext, kHeadDim, rows);
    return {};
  }));
  const auto got = backend.read(rows, wanted.size());
  require_ok(got);
  BOOST_TEST(std::vector<float>(got->begin(), got->end()) == wanted, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(memory_that_is_not_pinned_is_told) {
  auto pinned = open_fixture<device>("tiny_f32.gguf", {}, on_queues());
  auto refused = open_fixture<device>("tiny_f32.gguf", {}, on_queues({.refuse_pins = true}));
  const auto notes = refused.notes();
  BOOST_TEST_REQUIRE(notes.size() == pinned.notes().size() + 1);
  BOOST_TEST(notes.back().find("could not be pinned") != std::string::npos, notes.back());
}

BOOST_AUTO_TEST_CASE(a_recording_takes_neither_waits_nor_memory) {
  HostQueues queues;
  for (const bool waits : {true, false}) {
    queues.begin_capture();
    if (waits) {
      const auto waited = queues.finish(Queue::compute);
      BOOST_REQUIRE(!waited);
      BOOST_TEST(waited.error().line() == "grid: finish while a sequence is recorded");
    } else {
      const auto memory = queues.allocate(Bytes{16});
      BOOST_REQUIRE(!memory);
      BOOST_TEST(memory.error().line() == "grid: allocate while a sequence is recorded");
    }
    BOOST_TEST(!queues.end_capture());  // nor is there anything to play
  }
  queues.begin_capture();
  BOOST_TEST(queues.end_capture().has_value());  // the next is its own
  require_ok(queues.finish(Queue::compute));
}

BOOST_AUTO_TEST_CASE(the_host_waits_once_a_token_where_all_experts_are_there) {
  const auto kernels = on_queues();
  auto engine = open_fixture<device>("tiny_q4_k_m.gguf", {}, kernels);
  require_ok(engine.prefill(kPrompt));
  (void)kernels.device->take_counts();
  for (int token = 0; token < 4; ++token) require_ok(engine.step(TokenId{5 + token}));  // plain, recorded, played, played
  const auto counts = kernels.device->take_counts();
  BOOST_TEST(counts.finishes == 4U);  // for the logits
  BOOST_TEST(counts.replays == 3U);
}

BOOST_AUTO_TEST_CASE(a_pass_that_would_be_played_is_cancelled_too) {
  const auto kernels = on_queues();
  auto engine = open_fixture<device>("tiny_q4_k_m.gguf", {}, kernels);
  auto undisturbed = open_fixture<device>("tiny_q4_k_m.gguf", {}, on_queues());
  for (auto* each : {&engine, &undisturbed}) {
    require_ok(each->prefill(kPrompt));
    for (int token = 0; token < 3; ++token) require_ok(each->step(TokenId{5 + token}));
  }
  const std::uint32_t position = engine.position();
  (void)kernels.device->take_counts();
  engine.cancel();
  const auto cut = engine.step(TokenId{9});
  BOOST_REQUIRE(!cut);
  BOOST_CHECK(cut.error().code == Errc::interrupted);
  BOOST_TEST(engine.position() == position);
  BOOST_TEST(kernels.device->take_counts().replays == 0U);
  const auto next = engine.step(TokenId{9}), wanted = undisturbed.step(TokenId{9});  // asked for again, it runs
  require_ok(next);
  require_ok(wanted);
  BOOST_TEST(kernels.device->take_counts().replays == 1U);
  BOOST_TEST(std::vector<float>(next->begin(), next->end()) == std::vector<float>(wanted->begin(), wanted->end()), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(every_body_is_timed_and_none_of_the_bits_change) {
  const Run untimed = run({});
  BOOST_TEST(untimed.tier.bodies.empty());
  for (EngineOptions options : {EngineOptions{}, plain()}) {
    options.time_bodies = true;
    const Run timed = run(options);
    BOOST_TEST(timed.hash == untimed.hash);
    std::map<std::string, BodyTime> by_name;
    std::uint64_t runs = 0;
    for (const BodyTime& body : timed.tier.bodies) {
      BOOST_TEST(body.seconds > 0, body.name);
      BOOST_TEST(by_name.emplace(body.name, body).second, body.name);  // a name once
      runs += body.runs;
    }
    BOOST_TEST(runs == timed.tier.work.bodies());
    BOOST_TEST(by_name.count("matmul Q4_K") == 1U);
    BOOST_TEST(by_name.count("attend_split") == 1U);
    BOOST_TEST(by_name["attend_split"].runs == by_name["attend_merge"].runs);
  }
}

BOOST_AUTO_TEST_CASE(experts_and_their_slots_are_counted) {
  const DeviceTierStats all = run({}).tier;
  BOOST_TEST(all.experts > 0U);
  BOOST_TEST(all.slots == all.experts);
  BOOST_TEST(all.slot_bytes.value > 0U);
  BOOST_TEST(all.slot_bytes.value < all.held.value);
}

BOOST_AUTO_TEST_CASE(a_cpu_has_no_passes_to_record_or_time) {
  EngineOptions timed;
  timed.time_bodies = true;
  for (const auto& [options, subject] : {std::pair{plain(), "--parked"}, {timed, "--bodies"}}) {
    const auto refused = engine<profiles::scalar>::open(fixture("tiny_f32.gguf"), options);
    BOOST_REQUIRE(!refused);
    BOOST_CHECK(refused.error().code == Errc::usage);
    BOOST_TEST(refused.error().subject == subject);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli::conformance
