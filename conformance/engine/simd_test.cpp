// SPDX-License-Identifier: Apache-2.0
// The cpu profile on every instruction set of this machine: the oracle's decisions outside near-ties, and one set of
// bits whatever the instruction set, threads, chunks and memory.
#include <algorithm>
#include <limits>

#include "driver/isa/select.hpp"
#include "support.hpp"

namespace coli::conformance {
namespace {

using cpu = profiles::cpu;

std::vector<SimdKernels> kernels_here() {
  std::vector<SimdKernels> kernels;
  for (const colidrv::IsaEntry& isa : colidrv::isas()) {
    if (isa.runs_here()) kernels.emplace_back(isa.table());
    else BOOST_TEST_MESSAGE("SKIP: " << isa.name << " is built, but this machine does not run it");
  }
  if (kernels.empty()) BOOST_TEST_MESSAGE("SKIP: no SIMD instruction set of this build runs here");
  return kernels;
}

const std::vector<TokenId> kPrompt = [] {
  std::vector<TokenId> ids;
  for (int i = 0; i < 41; ++i) ids.push_back(TokenId{(i * 53 + 7) % 250});
  return ids;
}();

BOOST_AUTO_TEST_SUITE(simd_profile)

BOOST_AUTO_TEST_CASE(decisions_are_the_oracles_outside_near_ties) {
  for (const SimdKernels& kernels : kernels_here())
    for (const auto& [stem, file] : golden_models()) {
      auto engine = open_fixture<cpu>(file, {}, kernels);
      const GoldenCount count = count_decisions(engine, stem, kernels.isa());
      BOOST_CHECK_MESSAGE(count.near_ties * 20 < count.same, stem << ": " << count.near_ties << " near-ties to " << count.same << " decisions");
    }
}

BOOST_AUTO_TEST_CASE(every_instruction_set_gives_the_same_bits) {
  for (const std::string file : {"tiny_f32.gguf", "tiny_f16.gguf", "tiny_q8_0.gguf", "tiny_q4_k_m.gguf", "tiny_mixed.gguf"}) {
    std::string first;
    for (const SimdKernels& kernels : kernels_here()) {
      auto engine = open_fixture<cpu>(file, {}, kernels);
      const std::string hash = decide(engine, kPrompt, 10).hash;
      if (first.empty()) first = hash;
      BOOST_CHECK_MESSAGE(hash == first, file << " differs on " << kernels.isa());
    }
  }
}

BOOST_AUTO_TEST_CASE(threads_chunks_and_memory_change_no_bit) {
  const auto all = kernels_here();
  if (all.empty()) return;
  for (const std::string file : {"tiny_f32.gguf", "tiny_q4_k_m.gguf", "tiny_mixed.gguf", "tiny_dense1.gguf", "tiny_topall.gguf"})
    for (const KvFormat kv : {KvFormat::f16, KvFormat::f32}) {
      EngineOptions options{.kv = kv, .threads = 1};
      auto reference = open_fixture<cpu>(file, options, all.front());
      const std::string expected = decide(reference, kPrompt, 10).hash;
      const Bytes full = reference.memory().total();
      for (const auto& [threads, chunk] : {std::pair{1U, 1U}, {2U, 3U}, {3U, 32U}, {4U, 512U}, {2U, 7U}}) {
        options.threads = threads, options.chunk = chunk;
        auto engine = open_fixture<cpu>(file, options, all.front());
        BOOST_CHECK_MESSAGE(decide(engine, kPrompt, 10).hash == expected, file << " differs with " << threads << " threads, chunk " << chunk);
      }
      // A limit that leaves room for some of the experts only: they are streamed through the cache.
      options.chunk = 32;
      for (const StoreKind store : {StoreKind::best, StoreKind::pread}) {
        options.store.kind = store;
        std::uint64_t least = 0;
        options.memory = Bytes{1};
        const auto refused = engine<cpu>::open(fixture(file), options, all.front());
        BOOST_REQUIRE(!refused && refused.error().code == Errc::over_budget);
        const std::string line = refused.error().message;
        least = std::stoull(line.substr(line.find("at least ") + 9));
        options.memory = Bytes{least + 256 * kKiB};
        auto streamed = open_fixture<cpu>(file, options, all.front());
        BOOST_CHECK_LE(streamed.memory().total().value, options.memory->value);
        BOOST_CHECK_MESSAGE(decide(streamed, kPrompt, 10).hash == expected, file << " differs when streamed through " << name_of(store));
      }
      (void)full;
    }
}

BOOST_AUTO_TEST_CASE(parked_ways_change_no_bit) {
  const auto all = kernels_here();
  if (all.empty()) return;
  for (const std::string file : {"tiny_q8_0.gguf", "tiny_q4_k_m.gguf", "tiny_mixed.gguf"}) {
    auto reference = open_fixture<cpu>(file, {.threads = 1}, all.front());
    const std::string expected = decide(reference, kPrompt, 10).hash;
    const Bytes slots = reference.memory().held(MemoryClass::slots);
    for (const std::string_view name : {"small-pages", "plain-slots", "split-experts"})
      for (const Bytes budget : {slots, Bytes{slots.value / 3}}) {
        EngineOptions options{.threads = 3, .chunk = 16, .expert_bytes = budget};
        BOOST_REQUIRE(options.parked.choose(name));
        auto engine = open_fixture<cpu>(file, options, all.front());
        BOOST_CHECK_MESSAGE(decide(engine, kPrompt, 10).hash == expected, file << " differs with " << name << " and " << budget.value << " bytes of slots");
      }
  }
  BOOST_CHECK(!ParkedOptions{}.choose("small_pages"));
}

BOOST_AUTO_TEST_CASE(truncate_and_continue_equals_a_fresh_prefill) {
  for (const SimdKernels& kernels : kernels_here()) {
    auto reused = open_fixture<cpu>("tiny_q4_k_m.gguf", {}, kernels);
    auto fresh = open_fixture<cpu>("tiny_q4_k_m.gguf", {}, kernels);
    decide(reused, kPrompt, 20);
    for (const std::size_t position : {0, 1, 17, 40}) {
      require_ok(reused.truncate(static_cast<std::uint32_t>(position)));
      const auto a = reused.prefill(std::span(kPrompt).subspan(position));
      require_ok(a);
      require_ok(fresh.truncate(0));
      const auto b = fresh.prefill(kPrompt);
      require_ok(b);
      BOOST_CHECK(std::memcmp(a->data(), b->data(), a->size_bytes()) == 0);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli::conformance
