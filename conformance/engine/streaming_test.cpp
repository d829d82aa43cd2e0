// SPDX-License-Identifier: Apache-2.0
// An engine that streams its experts: the same bits wherever they come from and however late, and an engine that goes on
// when a read fails or a call is cancelled.
//
// CI runs pairwise parts of the matrix; `ctest -L matrix` runs all of it on one tiny model, 960 runs a memory share.
#include <atomic>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <thread>

#include "driver/isa/select.hpp"
#include "pairwise.hpp"
#include "scheduled_store.hpp"
#include "support.hpp"
#include "watchdog.hpp"

namespace coli::conformance {
namespace {

/// The cpu profile over a store with faults on schedule.
struct scheduled : profiles::cpu {
  static constexpr FixedName name{"scheduled"};
  using Store = test::ScheduledStore;
};

std::optional<SimdKernels> best_kernels() {
  for (const colidrv::IsaEntry& isa : colidrv::isas())
    if (isa.runs_here()) return SimdKernels(isa.table());
  std::printf("SKIP: no SIMD instruction set of this build runs here\n");
  return std::nullopt;
}

std::vector<TokenId> prompt_of(std::size_t n) {
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < n; ++i) ids.push_back(TokenId{static_cast<std::int32_t>((i * 53 + 7) % 250)});
  return ids;
}

const std::vector<double> kShares{0, 0.1, 0.25, 0.6, 1};  // of all experts' bytes; 0: the least
const std::vector<std::string> kPolicies{"expected-use", "lru", "lfu-decay", "s3-fifo", "sieve"};
const std::vector<std::string> kStores{"memory", "pread", "uring"};
const std::vector<unsigned> kThreads{1, 2, 3, 4};
const std::vector<std::uint32_t> kPrefetch{0, 3};
const std::vector<std::uint32_t> kChunks{3, 512};  // tokens; the larger touches more experts than the cache holds

/// One point of the matrix; each member an index into the lists above, or yes and no.
struct Point {
  std::size_t share, policy, store, threads, prefetch, chunk, schedule, reuse, warm = 0;
};

/// Every expert, in an order that no run would learn.
std::vector<ExpertKey> popular(const engine<scheduled>& engine) {
  std::vector<ExpertKey> keys;
  for (std::uint32_t expert = 0; expert < engine.hyperparams().n_experts; ++expert)
    for (std::uint32_t layer = 0; layer < engine.hyperparams().n_layers; ++layer) keys.push_back({LayerId{layer}, ExpertId{expert}});
  return keys;
}

class Model {
 public:
  Model(const std::string& file, SimdKernels kernels, std::size_t n_prompt, std::size_t n_tokens)
      : path_(fixture(file)), kernels_(kernels), prompt_(prompt_of(n_prompt)), n_tokens_(n_tokens) {
    std::ifstream in(path_, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(in), {});
    auto engine = *coli::engine<scheduled>::open(path_, {.threads = 1}, kernels_);
    const std::uint64_t resident = engine.memory().held(MemoryClass::slots).value;
    reference_ = decide(engine, prompt_, n_tokens_).hash;
    all_slots_ = Bytes{resident};
  }

  const std::vector<TokenId>& prompt() const { return prompt_; }
  const std::string& reference() const { return reference_; }
  std::size_t n_tokens() const { return n_tokens_; }

  Result<engine<scheduled>> open(double share, std::string policy, const std::string& store, unsigned threads, std::uint32_t prefetch = 0,
                                 std::uint32_t chunk = 512) const {
    EngineOptions options;
    options.threads = threads;
    options.chunk = chunk;
    options.prefetch = prefetch;
    options.evict = std::move(policy);
    options.expert_bytes = Bytes{static_cast<std::uint64_t>(share * static_cast<double>(all_slots_.value))};
    if (store == "memory") return coli::engine<scheduled>::open(std::as_bytes(std::span(bytes_)), options, kernels_);
    options.store.kind = *parse_store_kind(store);
    return coli::engine<scheduled>::open(path_, options, kernels_);
  }

  /// False where the store isn't to be had here.
  bool check(const Point& p) const {
    const std::string& store = kStores[p.store];
    auto engine = open(kShares[p.share], kPolicies[p.policy], store, kThreads[p.threads], kPrefetch[p.prefetch], kChunks[p.chunk]);
    if (!engine && store == "uring" && engine.error().code == Errc::unavailable) return false;
    require_ok(engine);
    if (p.schedule != 0) engine->store().set_faults({.seed = p.share * 97 + p.policy * 31 + p.threads, .longest_delay = std::chrono::microseconds(150), .reorder = true});
    if (p.warm != 0) engine->warm(popular(*engine));
    if (p.reuse != 0) {  // another text with the same beginning: what is kept of it must be as good as new
      std::vector<TokenId> other(prompt_.begin(), prompt_.begin() + static_cast<std::ptrdiff_t>(prompt_.size() / 2));
      other.insert(other.end(), {TokenId{249}, TokenId{3}, TokenId{248}});
      require_ok(try_decide(*engine, other, 3));
    }
    const std::uint64_t before = engine->stats().prefill_tokens;
    const auto decisions = try_decide(*engine, prompt_, n_tokens_);
    require_ok(decisions);
    BOOST_CHECK_EQUAL(engine->stats().prefill_tokens - before, p.reuse != 0 ? (prompt_.size() + 1) / 2 : prompt_.size());
    std::ostringstream what;
    what << 100 * kShares[p.share] << " %, " << kPolicies[p.policy] << ", " << store << ", " << kThreads[p.threads] << " threads, prefetch "
         << kPrefetch[p.prefetch] << ", chunk " << kChunks[p.chunk] << ", schedule " << p.schedule << ", reuse " << p.reuse << ", warm " << p.warm;
    BOOST_CHECK_MESSAGE(decisions->hash == reference_, "other logits with " << what.str());
    BOOST_CHECK_EQUAL(engine->stats().policy, kPolicies[p.policy]);
    BOOST_CHECK_EQUAL(engine->stats().store, store);
    if (kShares[p.share] < 0.3) BOOST_CHECK_MESSAGE(engine->stats().cache.misses > 0, "nothing was streamed with " << what.str());
    return true;
  }

  void check_pairwise() const {
    const test::Watchdog watchdog("pairwise matrix");
    for (const auto& p : test::pairwise({kShares.size(), kPolicies.size(), kStores.size(), kThreads.size(), kPrefetch.size(), kChunks.size(), 2, 2, 2}))
      if (!check({p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8]})) std::printf("SKIP: no io_uring here\n");
  }

 private:
  std::string path_, bytes_;
  SimdKernels kernels_;
  std::vector<TokenId> prompt_;
  std::size_t n_tokens_;
  std::string reference_;
  Bytes all_slots_{};
};

void check_share(std::size_t share) {
  const auto kernels = best_kernels();
  if (!kernels) return;
  const Model model("tiny_q4_k_m.gguf", *kernels, 37, 6);
  std::size_t n = 0, skipped = 0;
  for (std::size_t policy = 0; policy < kPolicies.size(); ++policy)
    for (std::size_t store = 0; store < kStores.size(); ++store)
      for (std::size_t threads = 0; threads < kThreads.size(); ++threads)
        for (std::size_t rest = 0; rest < 16; ++rest)
          ++(model.check({share, policy, store, threads, rest & 1, rest >> 1 & 1, rest >> 2 & 1, rest >> 3}) ? n : skipped);
  if (skipped != 0) std::printf("SKIP: no io_uring here: %zu of %zu runs\n", skipped, n + skipped);
  BOOST_CHECK_GE(n, 640U);
}

BOOST_AUTO_TEST_SUITE(matrix, *boost::unit_test::disabled())
BOOST_AUTO_TEST_CASE(least) { check_share(0); }
BOOST_AUTO_TEST_CASE(share_10) { check_share(1); }
BOOST_AUTO_TEST_CASE(share_25) { check_share(2); }
BOOST_AUTO_TEST_CASE(share_60) { check_share(3); }
BOOST_AUTO_TEST_CASE(all) { check_share(4); }
BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(streaming)

BOOST_AUTO_TEST_CASE(pairs_of_settings_change_no_bit_of_a_tiny_model) {
  if (const auto kernels = best_kernels()) Model("tiny_q4_k_m.gguf", *kernels, 37, 6).check_pairwise();
}

BOOST_AUTO_TEST_CASE(pairs_of_settings_change_no_bit_of_bard) {
  if (const auto kernels = best_kernels()) Model("bard.gguf", *kernels, 24, 4).check_pairwise();
}

// Slots are filled beside the demand, in an order that the disk decides, and the engine closes over what is on its way.
BOOST_AUTO_TEST_CASE(a_warm_start_changes_no_bit) {
  const auto kernels = best_kernels();
  if (!kernels) return;
  for (const std::string file : {"tiny_q4_k_m.gguf", "bard.gguf"}) {
    const Model model(file, *kernels, 3, 8);
    std::uint64_t issued = 0, useful = 0;
    for (const double share : {0.0, 0.25, 0.6}) {
      for (const unsigned threads : kThreads) {
        for (const std::uint32_t fail_one_in : {0U, 40U}) {
          const test::Watchdog watchdog("a warm start");
          auto engine = model.open(share, "", "pread", threads, threads % 2 * 2);
          require_ok(engine);
          engine->store().set_faults({.seed = threads, .longest_delay = std::chrono::microseconds(200), .reorder = true, .fail_one_in = fail_one_in});
          engine->warm(popular(*engine));
          const auto decisions = try_decide(*engine, model.prompt(), model.n_tokens());
          if (fail_one_in == 0) require_ok(decisions);
          if (decisions && decisions->ids.size() == model.n_tokens()) BOOST_CHECK_EQUAL(decisions->hash, model.reference());
          const WarmStats stats = engine->stats().cache.warm;
          BOOST_CHECK_GE(stats.issued, stats.useful + stats.late + stats.wasted);
          issued += stats.issued, useful += stats.useful;
          engine->store().set_faults({});
          BOOST_REQUIRE(engine->truncate(0));
          BOOST_CHECK_EQUAL(decide(*engine, model.prompt(), model.n_tokens()).hash, model.reference());
        }
      }
      auto closed = model.open(share, "", "pread", 2);  // before anything has come
      require_ok(closed);
      closed->store().set_faults({.seed = 1, .longest_delay = std::chrono::hours(1000)});
      closed->warm(popular(*closed));
    }
    BOOST_CHECK_GE(issued, 20U);
    BOOST_CHECK_GE(useful, 1U);
  }
}

BOOST_AUTO_TEST_CASE(a_mapping_has_the_same_bits) {
  const auto kernels = best_kernels();
  if (!kernels) return;
  for (const std::string file : {"tiny_q4_k_m.gguf", "tiny_mixed.gguf", "bard.gguf"}) {
    const Model model(file, *kernels, 37, 6);
    for (const unsigned threads : kThreads) {
      auto engine = model.open(0, "", "mmap", threads);
      require_ok(engine);
      BOOST_CHECK_EQUAL(decide(*engine, model.prompt(), model.n_tokens()).hash, model.reference());
    }
  }
}

BOOST_AUTO_TEST_CASE(a_policy_that_is_not_held_or_could_not_act_is_refused) {
  const auto kernels = best_kernels();
  if (!kernels) return;
  const auto refusal = [&](std::string evict, StoreKind store) {
    EngineOptions options;
    options.evict = std::move(evict);
    options.store.kind = store;
    const auto opened = engine<scheduled>::open(fixture("tiny_f32.gguf"), options, *kernels);
    BOOST_REQUIRE(!opened);
    BOOST_CHECK(opened.error().code == Errc::usage);
    return opened.error().line();
  };
  const std::string unknown = refusal("belady", StoreKind::best);
  for (const std::string& name : kPolicies) BOOST_CHECK_MESSAGE(unknown.find(name) != std::string::npos, unknown);
  BOOST_CHECK(refusal("lru", StoreKind::memory).find("never act") != std::string::npos);
  BOOST_CHECK(refusal("lru", StoreKind::mmap).find("never act") != std::string::npos);
  const auto scalar = engine<profiles::scalar>::open(fixture("tiny_f32.gguf"), {.evict = "lru"});
  BOOST_REQUIRE(!scalar);
  BOOST_CHECK(scalar.error().code == Errc::usage);
  BOOST_CHECK(scalar.error().line().find("one eviction policy") != std::string::npos);
}

// Whatever the cache holds, a chunk reads what its tokens touch, once, and nothing else.
BOOST_AUTO_TEST_CASE(a_prefill_chunk_reads_each_touched_expert_once) {
  const auto kernels = best_kernels();
  if (!kernels) return;
  for (const std::string file : {"tiny_q4_k_m.gguf", "bard.gguf"}) {
    const Model model(file, *kernels, 30, 1);
    for (const double share : {0.0, 0.1, 0.6}) {
      auto engine = model.open(share, "", "pread", 2);
      require_ok(engine);
      std::set<ExpertKey> touched;
      engine->observer().on_routing = [&](LayerId layer, std::uint32_t, const Routing& routing, const LeaseNotes&) {
        for (const ExpertId expert : routing.ids) touched.insert({layer, expert});
      };
      engine->store().take_submitted();
      BOOST_REQUIRE(engine->prefill(model.prompt()));
      const auto submitted = engine->store().take_submitted();
      std::set<ExpertKey> read;
      for (const auto& [key_and_part, times] : submitted) {
        BOOST_CHECK_EQUAL(times, 1U);
        read.insert(key_and_part.first);
      }
      BOOST_CHECK(read == touched);
      BOOST_CHECK_EQUAL(submitted.size(), touched.size() * kParts);
      BOOST_CHECK_EQUAL(engine->stats().cache.misses, touched.size());
    }
  }
}

// Who sits in the store's wait() is woken by completions: one that another thread takes leaves him there, and all others
// in the end wait for him. It cost half of the decode rate once.
BOOST_AUTO_TEST_CASE(no_completion_is_taken_from_under_a_waiting_thread) {
  const auto kernels = best_kernels();
  if (!kernels) return;
  const Model model("bard.gguf", *kernels, 24, 12);
  for (const unsigned threads : {2U, 3U, 4U}) {
    auto engine = *model.open(0, "", "pread", threads);
    engine.store().set_faults({.seed = threads, .longest_delay = std::chrono::microseconds(100)});
    BOOST_CHECK_EQUAL(decide(engine, model.prompt(), model.n_tokens()).hash, model.reference());
    BOOST_CHECK_EQUAL(engine.store().n_stolen(), 0U);
  }
}

BOOST_AUTO_TEST_CASE(a_read_error_ends_the_generation_with_its_place_and_nothing_else) {
  const auto kernels = best_kernels();
  if (!kernels) return;
  const Model model("tiny_q4_k_m.gguf", *kernels, 9, 12);
  std::size_t with_text = 0, n_failed = 0;
  for (std::uint32_t one_in = 3; one_in < 120; one_in += 9) {
    const test::Watchdog watchdog("a read that fails");
    auto engine = *model.open(0.1, kPolicies[one_in % kPolicies.size()], "pread", 1 + one_in % 4, one_in % 3);
    const Decisions expected = decide(engine, model.prompt(), model.n_tokens());
    BOOST_CHECK_EQUAL(expected.hash, model.reference());
    engine.store().set_faults({.seed = one_in, .longest_delay = std::chrono::microseconds(100), .reorder = true, .fail_one_in = one_in});
    GenerationOptions options;
    options.sampling.temperature = 0;
    options.stop_at_end_tokens = false;
    options.max_tokens = static_cast<std::uint32_t>(model.n_tokens());
    std::vector<TokenId> kept;
    std::string tail;
    const auto stop = generate(engine, nullptr, model.prompt(), options, tail, [&](const GeneratedToken& token) {
      kept.push_back(token.id);
      return true;
    });
    if (!stop) {
      ++n_failed;
      BOOST_CHECK(stop.error().code == Errc::io);
      const std::string line = stop.error().line();
      for (const char* part : {"tiny_q4_k_m.gguf", "offset ", "layer ", "expert "}) BOOST_CHECK_MESSAGE(line.find(part) != std::string::npos, line << " does not say " << part);
      if (!kept.empty()) ++with_text;
    }
    BOOST_REQUIRE_LE(kept.size(), expected.ids.size());
    COLI_CHECK_SAME_IDS(kept, std::span(expected.ids).first(kept.size()));  // what was told stays true
    engine.store().set_faults({});
    BOOST_REQUIRE(engine.truncate(0));
    BOOST_CHECK_EQUAL(decide(engine, model.prompt(), model.n_tokens()).hash, model.reference());
  }
  BOOST_CHECK_GE(n_failed, 5U);
  BOOST_CHECK_GE(with_text, 1U);
}

// No clock is read: after the cancel the engine may wait for the store twice more at most, 20 ms each.
BOOST_AUTO_TEST_CASE(a_cancel_returns_while_reads_are_out_that_never_end) {
  const auto kernels = best_kernels();
  if (!kernels) return;
  const Model model("tiny_q4_k_m.gguf", *kernels, 9, 4);
  for (const unsigned threads : {1U, 2U, 4U}) {
    for (const std::uint32_t prefetch : {0U, 3U}) {
      const test::Watchdog watchdog("a cancel with reads outstanding");
      auto engine = *model.open(0, "", "pread", threads, prefetch);
      engine.store().set_faults({.seed = threads, .longest_delay = std::chrono::hours(1000)});
      Result<Decisions> decisions{Decisions{}};
      std::thread caller([&] { decisions = try_decide(engine, model.prompt(), model.n_tokens()); });
      while (engine.store().n_pending() == 0 || engine.store().n_waits() < 3) std::this_thread::yield();
      const std::uint64_t before = engine.store().n_waits();
      engine.cancel();
      caller.join();
      BOOST_CHECK(!decisions || decisions->ids.empty());
      if (!decisions) BOOST_CHECK(decisions.error().code == Errc::interrupted);
      BOOST_CHECK_LE(engine.store().n_waits() - before, 2U);
      BOOST_CHECK(engine.store().longest_patience() <= std::chrono::milliseconds(20));
      engine.store().set_faults({});
      BOOST_REQUIRE(engine.truncate(0));
      BOOST_CHECK_EQUAL(decide(engine, model.prompt(), model.n_tokens()).hash, model.reference());
    }
  }
}

// Failures, delays and cancels at random: every call ends, and the engine still knows the right bits.
BOOST_AUTO_TEST_CASE(no_schedule_of_faults_and_cancels_hangs_or_harms) {
  const auto kernels = best_kernels();
  if (!kernels) return;
  const Model model("tiny_q4_k_m.gguf", *kernels, 20, 6);
  auto engine = *model.open(0, "", "pread", 3, 2);
  std::size_t n_errors = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const test::Watchdog watchdog("schedule " + std::to_string(seed));
    engine.store().set_faults({.seed = seed, .longest_delay = std::chrono::microseconds(seed % 4 * 100), .reorder = seed % 2 == 0,
                               .fail_one_in = seed % 3 == 0 ? 0 : static_cast<std::uint32_t>(7 * (seed % 9 + 1))});
    std::atomic<bool> done{false};
    std::thread canceller([&] {
      for (std::uint64_t spins = 0; seed % 3 == 0 && !done.load() && spins < (seed + 1) * 100; ++spins) std::this_thread::yield();
      if (seed % 3 == 0) engine.cancel();
    });
    BOOST_REQUIRE(engine.truncate(0));
    const auto decisions = try_decide(engine, model.prompt(), model.n_tokens());
    done.store(true);
    canceller.join();
    if (!decisions) ++n_errors;
    else if (decisions->ids.size() == model.n_tokens()) BOOST_CHECK_EQUAL(decisions->hash, model.reference());
  }
  BOOST_CHECK_GE(n_errors, 5U);
  engine.store().set_faults({});
  BOOST_REQUIRE(engine.truncate(0));
  BOOST_CHECK_EQUAL(decide(engine, model.prompt(), model.n_tokens()).hash, model.reference());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli::conformance
