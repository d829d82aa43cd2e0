// SPDX-License-Identifier: Apache-2.0
// Traces that runs write, replays that count what the engine counted, experiments and receipts: as a user types them.
#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "coli/evidence/limited_group.hpp"
#include "coli/evidence/receipt.hpp"
#include "planted_routes.hpp"
#include "process.hpp"

namespace colidrv::test {
namespace {

using coli::test::ScratchFolder;
using Json = nlohmann::ordered_json;

Json json_of(const std::string& path) { return Json::parse(coli::test::read_bytes(path), nullptr, false); }

/// Bytes for reading that a run with all experts in memory doesn't need.
constexpr std::uint64_t kStaging = 3500 << 10;

/// Whether `run` can be told an eviction policy in this build.
std::vector<std::vector<std::string>> evictions() {
  std::vector<std::vector<std::string>> all{{}};
  for (const char* policy : {"lru", "lfu-decay", "s3-fifo", "sieve", "expected-use"})
    if (colidrv({"run", "--quiet", "-n", "1", "--evict", policy}).code == 0) all.push_back({"--evict", policy});
  return all;
}

BOOST_AUTO_TEST_CASE(replay_counts_what_the_engine_counted_on_bard) {
  const ScratchFolder folder;
  const auto policies = evictions();
  std::size_t n_tokens = 0;
  int prompt = 0;
  const std::vector<std::string> prompts{"KING RICHARD III:\nNow is the winter", "ROMEO:\nBut soft, what light", "First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nSpeak, speak.\n", "JULIET:\nO"};
  for (const auto& evict : policies)
    for (const char* memory : {"least", "23%", "26%", "30%"}) {
      // Slots for a share of the experts: found once, from the bill of a run of everything.
      std::vector<std::string> run{"run", fixture("bard.gguf"), "-p", prompts[static_cast<std::size_t>(prompt) % prompts.size()], "--quiet", "--ctx", "512", "-n", "150", "--seed", std::to_string(prompt), "--ignore-eos", "--store", "pread", "--trace", folder / "t", "--json", folder / "j"};
      ++prompt;
      static const Json bill = [&] {
        std::vector<std::string> resident(run.begin(), run.end());
        expect_success(resident);
        return json_of(folder / "j")["memory"];
      }();
      std::uint64_t others = 0;
      for (const auto& [name, bytes] : bill.items())
        if (name != "total" && name != "limit" && name != "slots") others += bytes.get<std::uint64_t>();
      const auto slots = bill["slots"].get<double>();
      const std::string share = memory;
      const double part = share == "least" ? 0.2 : std::stod(share) / 100;
      run.insert(run.end(), {"--memory", std::to_string(others + kStaging + static_cast<std::uint64_t>(slots * part))});
      run.insert(run.end(), evict.begin(), evict.end());
      expect_success(run);
      const Json json = json_of(folder / "j");
      const Outcome check = colidrv({"replay", folder / "t", "--check", "--policies", "lru", "--budgets", "recorded"});
      std::string shown;
      for (const std::string& word : evict) shown += word + " ";
      BOOST_TEST(json["stats"]["cache"]["misses"].get<int>() > 0, shown << memory);
      BOOST_TEST(check.code == 0, shown << memory << ": " << check.err);
      BOOST_TEST(contains(check.out, "the engine's own counters: equal (" + json["stats"]["cache"]["hits"].dump() + " hits, " + json["stats"]["cache"]["misses"].dump() + " misses)"), shown << memory << ": " << check.out);
      n_tokens += json["stats"]["decode_tokens"].get<std::size_t>() + json["stats"]["prefill_tokens"].get<std::size_t>();
    }
  BOOST_TEST_MESSAGE(policies.size() << " policies, " << n_tokens << " tokens");
  BOOST_TEST(n_tokens > 500U);
}

BOOST_AUTO_TEST_CASE(a_trace_changes_nothing_and_names_what_ran) {
  const ScratchFolder folder;
  const std::vector<std::string> run{"run", "--quiet", "-n", "40", "--seed", "7", "--json", folder / "j"};
  expect_success(run);
  const Json plain = json_of(folder / "j");
  std::vector<std::string> traced = run;
  traced.insert(traced.end(), {"--trace", folder / "t"});
  expect_success(traced);
  const Json with = json_of(folder / "j");
  BOOST_TEST(with["logits_hash"] == plain["logits_hash"]);
  BOOST_TEST(with["stats"]["cache"]["hits"] == plain["stats"]["cache"]["hits"]);
  expect_success({"replay", folder / "t", "--policies", "lru", "--json", folder / "r", "--html", folder / "h.html", "--csv", folder / "c"});
  const Json report = json_of(folder / "r");
  BOOST_TEST(report["closed"] == true);
  BOOST_TEST(report["tokens"] == with["stats"]["prefill_tokens"].get<int>() + with["stats"]["decode_tokens"].get<int>());
  BOOST_TEST(report["trace"]["sampler"]["seed"] == 7);
  BOOST_TEST(report["trace"]["settings"]["isa"] == with["stats"]["isa"]);
  BOOST_TEST(report["trace"]["model"]["fingerprint_sha256"].get<std::string>().size() == 64U);
  for (const auto& [option, on] : report["trace"]["lossy"].items()) BOOST_TEST(on == false);
  BOOST_TEST(coli::test::read_bytes(folder / "h.html").ends_with("</html>\n"));
  // Every form is the same trace.
  for (const char* form : {"x.csv", "x.json", "x.bin"}) {
    expect_success({"replay", folder / "t", "--policies", "lru", "--export", folder / form});
    expect_success({"replay", folder / form, "--policies", "lru", "--json", folder / "again"});
    BOOST_TEST(json_of(folder / "again")["curves"] == report["curves"], form);
  }
  BOOST_TEST(coli::test::read_bytes(folder / "x.bin") == coli::test::read_bytes(folder / "t"));
}

BOOST_AUTO_TEST_CASE(a_killed_run_leaves_a_trace_of_its_whole_tokens) {
  const ScratchFolder folder;
  Child child({"run", "--quiet", "-n", "800", "--temp", "0", "--ignore-eos", "--trace", folder / "t"}, 64);
  std::array<char, 1> byte{};
  for (int i = 0; i < 4096 + 200; ++i) BOOST_REQUIRE(::read(child.out().read_end(), byte.data(), 1) == 1);
  child.signal(SIGKILL);
  BOOST_TEST(child.finish().code == 137);
  const Outcome replayed = expect_success({"replay", folder / "t", "--policies", "lru", "--json", folder / "r"});
  BOOST_TEST(json_of(folder / "r")["closed"] == false);
  BOOST_TEST(json_of(folder / "r")["decoded_tokens"].get<int>() > 20);
  BOOST_TEST(contains(replayed.err, "was not closed"));
  expect_error({"replay", folder / "t", "--check"}, 7, {"no counters"});
}

BOOST_AUTO_TEST_CASE(replays_that_cannot_be_are_refused) {
  const ScratchFolder folder;
  expect_error({"replay", folder / "none"}, 8, {"cannot open"});
  coli::test::write_bytes(folder / "x", "not a trace");
  expect_error({"replay", folder / "x"}, 5, {"is not a route trace"});
  expect_success({"run", "--quiet", "-n", "30", "--seed", "7", "--trace", folder / "t"});
  const std::string bytes = coli::test::read_bytes(folder / "t");
  coli::test::write_bytes(folder / "cut", bytes.substr(0, bytes.size() - 1));
  expect_error({"replay", folder / "cut"}, 5, {"truncated"});
  expect_error({"replay", folder / "t", "--policies", "fifo"}, 2, {"no policy 'fifo'", "lru"});
  expect_error({"replay", folder / "t", "--budgets", "many"}, 2, {"--budgets"});
  expect_error({"replay", folder / "t", "--grouping", "none"}, 2, {"--grouping"});
  expect_error({"replay", folder / "t", "--budgets", "100"}, 4, {"at least"});
  expect_error({"replay", folder / "t", "--disk-rate", "fast"}, 2, {"--disk-rate"});
  expect_error({"run", "--quiet", "-n", "1", "--trace", folder / "no/such/folder"}, 8, {"cannot create"});
  expect_error({"run", "--quiet", "-n", "1", "--trace", ""}, 2, {"--trace"});
}

BOOST_AUTO_TEST_CASE(a_warm_set_is_learned_read_and_changes_nothing_else) {
  const ScratchFolder folder;
  const std::vector<std::string> resident{"run", fixture("bard.gguf"), "-p", "ROMEO:", "--quiet", "--ctx", "256", "-n", "60", "--seed", "1", "--store", "pread", "--json", folder / "j"};
  expect_success(resident);
  const Json bill = json_of(folder / "j")["memory"];
  std::vector<std::string> run = resident;
  run.insert(run.end(), {"--memory", std::to_string(bill["total"].get<std::uint64_t>() + kStaging - bill["slots"].get<std::uint64_t>() * 3 / 5)});
  expect_success(run);
  const Json cold = json_of(folder / "j");
  BOOST_TEST_REQUIRE(cold["stats"]["cache"]["misses"].get<int>() > 0);
  BOOST_TEST(cold["stats"]["warm"]["issued"] == 0);
  std::vector<std::string> warm = run;
  warm.insert(warm.end(), {"--warm", folder / "w"});
  expect_success(warm);  // learns
  BOOST_TEST(json_of(folder / "j")["stats"]["warm"]["issued"] == 0);
  const std::string learned = coli::test::read_bytes(folder / "w");
  std::filesystem::permissions(folder / "w", std::filesystem::perms::owner_read);
  expect_success(warm);
  const Json second = json_of(folder / "j");
  BOOST_TEST(second["logits_hash"] == cold["logits_hash"]);
  const Json& stats = second["stats"]["warm"];  // how much of it helps is a matter of time: nothing to count on
  BOOST_TEST(stats["issued"].get<int>() > 0);
  BOOST_TEST(stats["issued"].get<int>() >= stats["useful"].get<int>() + stats["late"].get<int>() + stats["wasted"].get<int>());
  BOOST_TEST(coli::test::read_bytes(folder / "w") == learned);  // read-only, for root too
  std::vector<std::string> other{"run", fixture("tiny_q4_k_m.gguf"), "--tokens", "1", "-n", "1", "--quiet", "--warm", folder / "w"};
  expect_error(other, 5, {"another model"});
  expect_error({"run", "--quiet", "-n", "1", "--warm", ""}, 2, {"--warm"});
}

Json manifest() {
  return {{"schema", "coli.experiment/1"}, {"name", "threads"}, {"hypothesis", "none: both arms are the same"}, {"command", {"run", "-n", "8", "--temp", "0", "--profile", "cpu"}},
          {"variable", {{"option", "--threads"}, {"baseline", "1"}, {"candidate", "1"}}}, {"metric", "decode_tps"}, {"direction", "higher"}, {"n", 5}, {"warmup", 1}, {"cache", "warm"}, {"memory_limit", nullptr}, {"quality", "logits_hash"}};
}

BOOST_AUTO_TEST_CASE(an_experiment_of_equal_arms_is_parked_and_its_receipt_holds) {
  const ScratchFolder folder;
  coli::test::write_bytes(folder / "m", manifest().dump());
  const Outcome run = expect_success({"experiment", "run", folder / "m", "--receipt", folder / "r"});
  BOOST_TEST(contains(run.out, "parked"));
  Json receipt = json_of(folder / "r");
  BOOST_TEST(receipt["samples"].size() == 12U);
  const Outcome check = colidrv({"receipt", "check", folder / "r"});
  if (contains(check.err, "commit")) {  // a tree with changes of its own, or none at all, is no evidence
    BOOST_TEST_MESSAGE("SKIP: this build's commit is not known");
    return;
  }
  BOOST_TEST(check.code == 0, check.err);
  BOOST_TEST(contains(check.out, "the receipt holds: parked"));
  receipt["verdict"]["outcome"] = "adopted";
  coli::test::write_bytes(folder / "dishonest", receipt.dump());
  expect_error({"receipt", "check", folder / "dishonest"}, 6, {"equal-arms"});
}

// What the documentation quotes: each receipt holds, is of the manifest of its name as that is today, and no manifest lacks one.
BOOST_AUTO_TEST_CASE(the_receipts_kept_here_hold_and_are_of_the_manifests_kept_here) {
  const std::filesystem::path evidence = std::filesystem::path(COLI_FIXTURES_DIR).parent_path() / "conformance/evidence";
  std::size_t n = 0;
  for (const auto& entry : std::filesystem::directory_iterator(evidence / "manifests")) {
    const std::string name = entry.path().filename().string(), receipt = (evidence / "receipts" / name).string();
    BOOST_TEST_CONTEXT(name) {
      BOOST_TEST(contains(expect_success({"receipt", "check", receipt}).out, "the receipt holds: "));
      BOOST_TEST(json_of(receipt)["manifest"] == json_of(entry.path().string()));
    }
    ++n;
  }
  const auto kept = std::filesystem::directory_iterator(evidence / "receipts");
  BOOST_TEST(std::distance(begin(kept), end(kept)) == static_cast<std::ptrdiff_t>(n));
}

BOOST_AUTO_TEST_CASE(an_experiment_runs_under_its_memory_limit_or_not_at_all) {
  const ScratchFolder folder;
  Json limited = manifest();
  limited["memory_limit"] = "256M";
  coli::test::write_bytes(folder / "m", limited.dump());
  if (auto made = coli::LimitedGroup::create(coli::Bytes{coli::kMiB}); !made) {
    expect_error({"experiment", "run", folder / "m"}, 3, {"memory_limit", "control groups"});
    std::printf("SKIP: no memory cgroup may be made here: only the refusal was tested\n");
    return;
  }
  expect_success({"experiment", "run", folder / "m", "--receipt", folder / "r"});
  const Json receipt = json_of(folder / "r");
  for (const Json& sample : receipt["samples"]) {
    BOOST_TEST(sample["memory_limit"]["limit_bytes"] == 256U << 20);
    if (!sample["memory_limit"]["peak_bytes"].is_null()) BOOST_TEST(sample["memory_limit"]["peak_bytes"] >= sample["process"]["rss_anon_bytes"]);
  }
  BOOST_TEST(!coli::check_receipt(receipt).has("memory-limit"));
  limited["memory_limit"] = "4M";  // a run that minds it refuses, and one that doesn't is killed
  coli::test::write_bytes(folder / "m", limited.dump());
  const Outcome run = colidrv({"experiment", "run", folder / "m"});
  BOOST_TEST(run.code == 6);
  BOOST_TEST(contains(run.err, "a run ended with exit code"), run.err);
}

BOOST_AUTO_TEST_CASE(experiments_that_cannot_be_are_refused) {
  const ScratchFolder folder;
  const auto refuses = [&](int code, const std::vector<std::string>& says, const auto& change) {
    Json m = manifest();
    change(m);
    coli::test::write_bytes(folder / "m", m.dump());
    expect_error({"experiment", "run", folder / "m"}, code, says);
  };
  refuses(2, {"n is 4"}, [](Json& m) { m["n"] = 4; });
  refuses(5, {"variable"}, [](Json& m) { m["variable"]["also"] = "--store"; });
  refuses(2, {"cold"}, [](Json& m) { m["cache"] = "cold"; });
  coli::test::write_bytes(folder / "m", "{");
  expect_error({"experiment", "run", folder / "m"}, 5, {"is not JSON"});
  expect_error({"receipt", "check", folder / "m"}, 5, {"is not JSON"});
  coli::test::write_bytes(folder / "m", "{}");
  expect_error({"receipt", "check", folder / "m"}, 6, {"schema"});
  expect_error({"receipt", "check", folder / "none"}, 8, {"cannot open"});
  // An arm that gives other output is found at the warm-up.
  Json other = manifest();
  other["variable"] = {{"option", "--seed"}, {"baseline", "1"}, {"candidate", "2"}};
  other["command"] = {"run", "-n", "8", "--temp", "1"};
  coli::test::write_bytes(folder / "m", other.dump());
  const Outcome run = colidrv({"experiment", "run", folder / "m"});
  BOOST_TEST(run.code == 6);
  BOOST_TEST(contains(run.err, "no time counts"));
}

}  // namespace
}  // namespace colidrv::test
