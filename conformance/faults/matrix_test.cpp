// SPDX-License-Identifier: Apache-2.0
// Fault by check: a clean control passes every check, and every planted fault is caught by the check listed for it.
#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "coli/conformance/eviction_laws.hpp"
#include "coli/conformance/sampler_laws.hpp"
#include "coli/conformance/store_laws.hpp"
#include "coli/evaluation/compare.hpp"
#include "coli/evaluation/golden.hpp"
#include "coli/evaluation/lane.hpp"
#include "coli/store/pread_store.hpp"
#include "driver/isa/select.hpp"
#include "faulty_profile.hpp"
#include "golden.hpp"
#include "planted.hpp"

namespace coli::faults {
namespace {

namespace ev = evaluation;
using conformance::fixture;
using Profile = profile<"cpu", FaultyBackend, all_formats, Lru, KvFormat::f16>;
using Engine = engine<Profile>;

/// What a check says: nothing where it passes.
using Verdict = std::optional<std::string>;

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

const simd::KernelTable& table() { return **colidrv::select_isa(); }

Result<Engine> open(const std::string& name, EngineOptions options = {}) {
  forget();
  options.threads = 2;
  auto opened = Engine::open(fixture(name), options, FaultyKernels(table()));
  if (opened) facts.h = opened->hyperparams();
  return opened;
}

//--- checks -----------------------------------------------------------------------------------------------------------

/// Greedy tokens against the independent oracle's, along its own path.
Verdict oracle_ids(const std::string& model, const std::string& golden) {
  auto engine = open(model);
  if (!engine) return engine.error().line();
  const auto cases = ev::parse_goldens(text_of(fixture(golden)), golden);
  for (std::size_t i = 0; i < std::min<std::size_t>(cases->size(), 6); ++i) {
    const auto outcome = ev::follow(*engine, (*cases)[i], true);
    if (!outcome) return outcome.error().line();
    if (outcome->differ != 0) return (*cases)[i].id + " step " + std::to_string(outcome->step) + ": " + std::to_string(outcome->got) + " is not " + std::to_string(outcome->expected);
  }
  return std::nullopt;
}

/// The oracle's five largest logits of every step, within twice what 8-bit activations did to them there.
Verdict oracle_logits(const std::string& stem) {
  auto engine = open(stem + ".gguf");
  if (!engine) return engine.error().line();
  const auto goldens = conformance::read_goldens(stem);
  for (std::size_t i = 0; i < 3; ++i) {
    const conformance::GoldenCase& c = goldens[i];
    (void)engine->truncate(0);
    auto logits = engine->prefill(c.prompt);
    for (std::size_t step = 0; step < 16; ++step) {
      if (step != 0) logits = engine->step(c.ids[step - 1]);
      if (!logits) return logits.error().line();
      for (const auto& [id, expected] : c.top_logits[step]) {
        const float got = (*logits)[static_cast<std::size_t>(id)];
        if (!(std::fabs(got - expected) <= 2 * c.logit_error)) return c.id + " step " + std::to_string(step) + " token " + std::to_string(id) + ": " + std::to_string(got) + " is not " + std::to_string(expected);
      }
    }
  }
  return std::nullopt;
}

std::vector<ev::EvalCase> some_cases() {
  const std::string path = fixture("bard.cases.json");
  std::vector<ev::EvalCase> some;
  const auto set = ev::parse_case_set(text_of(path), path);
  for (const ev::EvalCase& c : set->cases)
    if (c.id == "verse-king" || c.id == "dialogue-two" || c.id == "unicode-accents" || c.id == "repeated-ha") some.push_back(c);
  return some;
}

Result<std::vector<ev::CaseDecisions>> decide_all(Engine& engine) {
  std::vector<ev::CaseDecisions> all;
  for (const ev::EvalCase& c : some_cases()) {
    COLI_TRY(d, ev::decide(engine, c.id, c.prompt, c.n_tokens, facts.h.n_experts));
    all.push_back(std::move(d));
  }
  return all;
}

/// Ids, routes, bits and margins against the committed lane of this instruction set.
Verdict lane_bits() {
  const std::string path = ev::lane_path(fixture("bard.lanes"), "cpu", table().isa);
  auto lane = ev::parse_lane(text_of(path), path);
  if (!lane) return "there is no lane: " + lane.error().line();
  auto engine = open("bard.gguf");
  if (!engine) return engine.error().line();
  ev::Run run{lane->key, {}};
  std::vector<ev::CaseDecisions> expected;
  for (const ev::EvalCase& c : some_cases()) {
    run.cases.emplace_back(c.id, ev::decide(*engine, c.id, c.prompt, c.n_tokens, facts.h.n_experts));
    if (const auto* e = lane->find(c.id)) expected.push_back(*e);
  }
  lane->cases = expected;
  const ev::Comparison comparison = ev::compare(run, *lane, lane->floors);
  if (!comparison.failures.empty()) return comparison.failures.front().line();
  return comparison.n_compared == 0 ? Verdict("nothing was compared") : std::nullopt;
}

/// The same bits with hardly any slots as with a slot for every expert.
Verdict streaming() {
  auto resident = open("bard.gguf");
  if (!resident) return resident.error().line();
  const auto whole = decide_all(*resident);
  if (!whole) return whole.error().line();
  EngineOptions options;
  options.expert_bytes = Bytes{1};  // the least that there may be
  auto streamed = open("bard.gguf", options);
  if (!streamed) return streamed.error().line();
  const auto pieces = decide_all(*streamed);
  if (!pieces) return pieces.error().line();
  if (streamed->stats().cache.misses == 0) return "nothing was streamed";
  if (ev::hash_of(std::span(*whole)) != ev::hash_of(std::span(*pieces))) return "other bits than the resident run";
  return std::nullopt;
}

/// A sequence after another one has the bits of a fresh engine.
Verdict reuse() {
  const auto cases = some_cases();
  auto engine = open("bard.gguf"), fresh = open("bard.gguf");
  if (!engine || !fresh) return "can't open";
  memory.seen_a_sequence = false;
  const auto alone = ev::decide(*fresh, "x", cases[1].prompt, 8, facts.h.n_experts);
  const auto before = ev::decide(*engine, "y", cases[0].prompt, 8, facts.h.n_experts);
  memory.seen_a_sequence = true;
  const auto after = ev::decide(*engine, "x", cases[1].prompt, 8, facts.h.n_experts);
  if (!alone) return alone.error().line();
  if (!before) return before.error().line();
  if (!after) return after.error().line();
  if (ev::hash_of({&*alone, 1}) != ev::hash_of({&*after, 1})) return "other bits than a fresh engine's";
  return std::nullopt;
}

/// A policy that forgets leases, where the fault is planted: and the real one otherwise.
struct PlantedPolicy : Lru {
  static constexpr FixedName name{"planted"};
  using Lru::Lru;
  std::optional<SlotId> victim(const Evictable& may_go, ExpertKey incoming) noexcept {
    if (!is(Fault::lease_ignored)) return Lru::victim(may_go, incoming);
    const std::vector<std::uint8_t> none(64, 0);
    return Lru::victim(Evictable{none.data()}, incoming);
  }
};

/// A store that takes half a part for the whole, where the fault is planted.
class PlantedStore {
 public:
  static constexpr FixedName name{"planted"};
  explicit PlantedStore(const ExpertIndex& index) : index_(index), inner_(*PreadStore::open(index)) {}
  Result<ReadTicket> submit(ExpertKey key, Part part, std::span<std::byte> to, Urgency urgency) {
    const std::lock_guard lock(mutex_);
    auto ticket = inner_->submit(key, part, to, urgency);
    if (ticket) sizes_[ticket->value] = index_.extent(key, part).bytes;
    return ticket;
  }
  std::optional<Completion> poll() { return spoiled(inner_->poll()); }
  std::optional<Completion> wait(std::chrono::milliseconds patience) { return spoiled(inner_->wait(patience)); }
  void cancel(ReadTicket ticket) { inner_->cancel(ticket); }
  void promote(ReadTicket ticket) { inner_->promote(ticket); }
  StoreAlignment alignment() const noexcept { return inner_->alignment(); }

 private:
  std::optional<Completion> spoiled(std::optional<Completion> completion) {
    if (!completion || !completion->data || !is(Fault::short_read)) return completion;
    const std::lock_guard lock(mutex_);
    const std::uint64_t bytes = sizes_.at(completion->ticket.value);
    std::memset(const_cast<std::byte*>(*completion->data) + bytes / 2, 0, static_cast<std::size_t>(bytes - bytes / 2));
    return completion;
  }
  const ExpertIndex& index_;
  std::unique_ptr<PreadStore> inner_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> sizes_;
};

struct PlantedGreedy {
  Result<TokenId> next(std::span<const float> logits) const {
    COLI_TRY(top, top_two(logits));
    if (!is(Fault::tie_high)) return top.best;
    for (std::size_t i = logits.size(); i-- > 0;)
      if (logits[i] == top.first) return TokenId{static_cast<std::int32_t>(i)};
    return top.best;
  }
};

Verdict verdict_of(const conformance::Findings& found) { return found ? std::nullopt : Verdict(found.broken().empty() ? "nothing checked" : found.broken().front()); }

//--- the matrix -------------------------------------------------------------------------------------------------------

struct Check {
  std::string_view name;
  std::function<Verdict()> run;
};

std::vector<Check> checks() {
  return {
      {"oracle ids", [] { return oracle_ids("bard.gguf", "goldens/bard.json"); }},
      {"oracle ids, F16", [] { return oracle_ids("tiny_f16.gguf", "goldens/tiny_f16.json"); }},
      {"oracle logits", [] { return oracle_logits("bard"); }},
      {"oracle logits, tiny", [] { return oracle_logits("tiny_q4_k_m"); }},  // its head_dim is not hidden / heads
      {"lane", lane_bits},
      {"streamed = resident", streaming},
      {"after another sequence", reuse},
      {"policy laws", [] { return verdict_of(conformance::check_eviction_laws<PlantedPolicy>()); }},
      {"store laws",
       [] {
         const conformance::ExpertFiles files(conformance::small_shape());
         return verdict_of(conformance::check_store_laws(files, [&] { return std::make_unique<PlantedStore>(files.index()); }));
       }},
      {"greedy laws", [] { return verdict_of(conformance::check_is_greedy<PlantedGreedy>([] { return PlantedGreedy{}; })); }},
  };
}

/// The check that is there for this fault: it must be red. Others may be, too.
const std::map<Fault, std::vector<std::string_view>> kCaughtBy{
    {Fault::expert_plus_one, {"oracle ids", "oracle logits", "lane"}},
    {Fault::dropped_top_expert, {"oracle ids", "oracle logits", "lane"}},
    {Fault::uniform_weights, {"oracle logits", "lane"}},
    {Fault::no_renormalisation, {"oracle logits", "lane"}},
    {Fault::no_qk_norm, {"oracle ids", "oracle logits", "lane"}},
    {Fault::rope_base_100th, {"oracle logits", "lane"}},
    {Fault::wrong_head_dim, {"oracle logits, tiny"}},
    {Fault::format_as_another, {"oracle ids, F16"}},
    {Fault::stale_slot, {"streamed = resident"}},
    {Fault::lease_ignored, {"policy laws", "streamed = resident"}},
    {Fault::short_read, {"store laws", "lane"}},
    {Fault::arrival_order, {"lane"}},
    {Fault::nan_in_expert, {"oracle ids", "lane"}},
    {Fault::position_off_by_one, {"oracle logits", "lane"}},
    {Fault::kv_of_another, {"after another sequence"}},
    {Fault::tie_high, {"greedy laws"}},
};

BOOST_AUTO_TEST_CASE(every_fault_is_caught_by_its_check) {
  if (const auto table = colidrv::select_isa(); !table) {
    BOOST_TEST_MESSAGE("SKIP: " + table.error().line());
    return;
  }
  const auto all = checks();
  std::string head = "fault                          ";
  for (const Check& check : all) head += " | " + std::string(check.name);
  BOOST_TEST_MESSAGE(head);
  for (const auto& [fault, name] : kFaults) {
    planted = fault;
    std::string row = std::string(name) + std::string(31 - name.size(), ' '), words;
    std::map<std::string_view, bool> red;
    for (const Check& check : all) {
      const Verdict verdict = check.run();
      red[check.name] = verdict.has_value();
      const std::string cell = verdict ? "RED" : "-";
      row += " | " + cell + std::string(check.name.size() - cell.size(), ' ');
      if (verdict) words += "\n    " + std::string(check.name) + ": " + *verdict;
    }
    planted = Fault::none;
    BOOST_TEST_MESSAGE(row + words);
    if (fault == Fault::none) {
      BOOST_TEST_REQUIRE(words.empty(), "the clean control fails:" << words);  // no fault was seen if nothing is clean
      continue;
    }
    for (const std::string_view by : kCaughtBy.at(fault)) BOOST_TEST(red[by], "'" << name << "' was not caught by '" << by << "'");
  }
}

}  // namespace
}  // namespace coli::faults
