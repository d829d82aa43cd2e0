// SPDX-License-Identifier: Apache-2.0
// What must not change a bit: threads, prefill chunks, decode or prefill, truncation, where the model lies, company.
#include <cstddef>
#include <fstream>
#include <thread>

#include "support.hpp"

namespace coli::conformance {
namespace {

using scalar = profiles::scalar;

const std::vector<TokenId> kPrompt = [] {
  std::vector<TokenId> ids;
  for (int i = 0; i < 37; ++i) ids.push_back(TokenId{(i * 37 + 11) % 250});
  return ids;
}();
constexpr std::size_t kTokens = 12;

std::string hash_with(const std::string& file, const EngineOptions& options) {
  auto engine = open_fixture<scalar>(file, options);
  return decide(engine, kPrompt, kTokens).hash;
}

BOOST_AUTO_TEST_CASE(threads_and_chunks_change_no_bit) {
  for (const std::string file : {"tiny_f32.gguf", "tiny_q4_k_m.gguf", "tiny_mixed.gguf", "tiny_dense1.gguf"}) {
    const std::string reference = hash_with(file, {.threads = 1});
    for (const auto& [threads, chunk] : {std::pair{1U, 1U}, {1U, 3U}, {2U, 512U}, {2U, 1U}, {3U, 32U}, {4U, 3U}, {4U, 512U}})
      BOOST_CHECK_MESSAGE(hash_with(file, {.threads = threads, .chunk = chunk}) == reference, file << " differs with " << threads << " threads, chunk " << chunk);
  }
}

BOOST_AUTO_TEST_CASE(decode_equals_prefill_of_the_same_tokens) {
  auto one = open_fixture<scalar>("tiny_q4_k_m.gguf");
  auto all = open_fixture<scalar>("tiny_q4_k_m.gguf");
  std::vector<std::vector<float>> stepped;
  for (const TokenId token : kPrompt) {
    const auto logits = one.step(token);
    BOOST_REQUIRE(logits);
    stepped.emplace_back(logits->begin(), logits->end());
  }
  std::size_t seen = 0;
  const auto last = all.prefill(kPrompt, [&](std::uint32_t position, std::span<const float> logits) {
    BOOST_REQUIRE_EQUAL(position, seen);
    BOOST_CHECK(std::memcmp(logits.data(), stepped[seen].data(), logits.size_bytes()) == 0);
    ++seen;
  });
  BOOST_REQUIRE(last);
  BOOST_CHECK_EQUAL(seen, kPrompt.size());
}

BOOST_AUTO_TEST_CASE(truncate_and_continue_equals_a_fresh_prefill) {
  auto reused = open_fixture<scalar>("tiny_f32.gguf");
  auto fresh = open_fixture<scalar>("tiny_f32.gguf");
  decide(reused, kPrompt, kTokens);  // leaves prompt and generated tokens in the KV cache
  for (const std::uint32_t position : {0U, 1U, 20U, 36U}) {
    std::vector<TokenId> tokens(kPrompt.begin(), kPrompt.begin() + position);
    for (int i = 0; i < 9; ++i) tokens.push_back(TokenId{i + 40});
    BOOST_REQUIRE(reused.truncate(std::min(position, reused.position())));
    BOOST_REQUIRE_EQUAL(reused.position(), position);
    const auto a = reused.prefill(std::span(tokens).subspan(position));
    BOOST_REQUIRE(a);
    BOOST_REQUIRE(fresh.truncate(0));
    const auto b = fresh.prefill(tokens);
    BOOST_REQUIRE(b);
    BOOST_CHECK(std::memcmp(a->data(), b->data(), a->size_bytes()) == 0);
    BOOST_REQUIRE(reused.truncate(0));
    BOOST_REQUIRE(reused.prefill(kPrompt));
  }
  BOOST_CHECK(reused.truncate(reused.position() + 1).error().code == Errc::usage);
}

BOOST_AUTO_TEST_CASE(a_model_in_memory_equals_the_file) {
  std::ifstream file(fixture("tiny_q4_k_m.gguf"), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  auto engine = coli::engine<scalar>::open(std::as_bytes(std::span(bytes)));
  require_ok(engine);
  BOOST_CHECK_EQUAL(decide(*engine, kPrompt, kTokens).hash, hash_with("tiny_q4_k_m.gguf", {}));
}

BOOST_AUTO_TEST_CASE(two_engines_at_once_share_nothing) {
  const std::string expected_a = hash_with("tiny_f32.gguf", {}), expected_b = hash_with("tiny_q4_k_m.gguf", {});
  auto engine_a = open_fixture<scalar>("tiny_f32.gguf", {.threads = 2});
  auto engine_b = open_fixture<scalar>("tiny_q4_k_m.gguf", {.threads = 2});
  Result<Decisions> a{Decisions{}}, b{Decisions{}};
  std::thread other([&] { b = try_decide(engine_b, kPrompt, kTokens); });
  a = try_decide(engine_a, kPrompt, kTokens);
  other.join();
  require_ok(a);
  require_ok(b);
  BOOST_CHECK_EQUAL(a->hash, expected_a);
  BOOST_CHECK_EQUAL(b->hash, expected_b);
}

BOOST_AUTO_TEST_CASE(bad_requests_are_refused_before_compute_and_change_nothing) {
  auto engine = open_fixture<scalar>("tiny_f32.gguf", {.context = 16});
  BOOST_REQUIRE(engine.prefill(std::span(kPrompt).first(10)));
  const std::vector<TokenId> outside{TokenId{static_cast<std::int32_t>(1 << 20)}};
  BOOST_CHECK(engine.prefill(outside).error().code == Errc::usage);
  BOOST_CHECK(engine.step(TokenId{-1}).error().code == Errc::usage);
  BOOST_CHECK(engine.prefill(std::span(kPrompt).first(7)).error().code == Errc::usage);  // 10 + 7 > 16
  BOOST_CHECK(engine.prefill(std::span<const TokenId>{}).error().code == Errc::usage);
  BOOST_CHECK_EQUAL(engine.position(), 10);
  BOOST_REQUIRE(engine.prefill(std::span(kPrompt).first(6)));  // fills the context to the last position
  BOOST_CHECK(engine.step(TokenId{1}).error().code == Errc::usage);

  BOOST_CHECK(coli::engine<scalar>::open(fixture("tiny_f32.gguf"), {.context = 0}).error().code == Errc::usage);
  BOOST_CHECK(coli::engine<scalar>::open(fixture("tiny_f32.gguf"), {.context = 1 << 20}).error().code == Errc::usage);
  BOOST_CHECK(coli::engine<scalar>::open(fixture("tiny_f32.gguf"), {.kv = KvFormat::f16}).error().code == Errc::unavailable);
  BOOST_CHECK(coli::engine<scalar>::open(fixture("no_such_file.gguf")).error().code == Errc::io);
}

BOOST_AUTO_TEST_CASE(cancel_ends_the_running_call_and_the_engine_goes_on) {
  auto engine = open_fixture<scalar>("tiny_q4_k_m.gguf", {.threads = 1, .chunk = 1});
  const std::string expected = hash_with("tiny_q4_k_m.gguf", {});
  std::size_t layers = 0;
  engine.observer().on_hidden = [&](LayerId, std::uint32_t, std::span<const float>) {
    if (++layers == 5) engine.cancel();
  };
  const auto interrupted = engine.prefill(kPrompt);
  BOOST_REQUIRE(!interrupted);
  BOOST_CHECK(interrupted.error().code == Errc::interrupted);
  BOOST_CHECK_EQUAL(engine.position(), layers / engine.hyperparams().n_layers);
  engine.observer() = {};
  BOOST_REQUIRE(engine.truncate(0));
  BOOST_CHECK_EQUAL(decide(engine, kPrompt, kTokens).hash, expected);
}

// Another thread's cancel may come while a token is printed: it must end the generation all the same.
BOOST_AUTO_TEST_CASE(a_cancel_between_two_steps_is_not_lost) {
  auto engine = open_fixture<scalar>("tiny_f32.gguf", {.threads = 1});
  BOOST_REQUIRE(engine.prefill(kPrompt));
  engine.cancel();
  const auto interrupted = engine.step(TokenId{1});
  BOOST_REQUIRE(!interrupted);
  BOOST_CHECK(interrupted.error().code == Errc::interrupted);
  BOOST_CHECK(engine.step(TokenId{1}));  // one cancel, one interruption
  engine.cancel();
  BOOST_REQUIRE(engine.truncate(0));
  BOOST_CHECK(engine.prefill(kPrompt));  // starts afresh

  GenerationOptions options;
  options.sampling.temperature = 0;
  options.stop_at_end_tokens = false;
  options.max_tokens = 20;
  std::string tail;
  std::size_t n = 0;
  const auto stop = engine.generate(kPrompt, options, tail, [&](const GeneratedToken&) {
    if (++n == 3) engine.cancel();
    return true;
  });
  BOOST_REQUIRE(stop);
  BOOST_CHECK(*stop == StopReason::cancelled);
  BOOST_CHECK_EQUAL(n, 3U);
}

}  // namespace
}  // namespace coli::conformance
