// SPDX-License-Identifier: Apache-2.0
// A good receipt holds; each planted bad one is refused for its own reason. Experiments with a made-up arm come out as
// the arm was made.
#include "coli/evidence/receipt.hpp"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "coli/core/bounded_json.hpp"
#include "coli/evidence/experiment.hpp"

namespace coli {
namespace {

using Json = nlohmann::ordered_json;

/// As it comes from a file: counts are unsigned, NaN is null.
Json as_read(const Json& json) { return Json::parse(json.dump()); }

Json manifest() {
  return as_read({{"schema", "coli.experiment/1"}, {"name", "eviction"}, {"hypothesis", "expected next use reads less"},
          {"command", {"run", "m.gguf", "--tokens", "1,2,3", "-n", "64", "--temp", "0", "--profile", "cpu"}},
          {"variable", {{"option", "--evict"}, {"baseline", "lru"}, {"candidate", "expected-use"}}},
          {"metric", "decode_tps"}, {"direction", "higher"}, {"n", 5}, {"warmup", 1}, {"cache", "cold"}, {"memory_limit", "4G"}, {"quality", "logits_hash"}});
}

Surroundings surroundings() {
  return {{{"host", "h"}, {"kernel", "6.1"}, {"cpu", "a processor"}, {"cpu_flags", "avx2"}, {"cores", 2}, {"memory_bytes", 1 << 30}, {"read_ahead_kb", 128}, {"load", 0.1}},
          {{"commit", "0123456789ab"}, {"dirty", false}, {"compiler", "g++ 12"}},
          {{"name", "m.gguf"}, {"bytes", 1000}, {"fingerprint_sha256", std::string(64, 'f')}}};
}

/// What a run of an arm would give.
Json sample(const std::vector<std::string>& command, double value) {
  const auto policy = std::find(command.begin(), command.end(), "--evict");
  return as_read({{"status", "ok"}, {"exit_code", 0}, {"value", value}, {"logits_hash", std::string(64, '1')},
          {"mode", {{"profile", "cpu"}, {"isa", "avx2"}, {"store", "uring"}, {"policy", policy == command.end() ? "lru" : *(policy + 1)}, {"threads", 2}}},
          {"tokens", {{"prefill", 3}, {"decode", 63}}}, {"routes", {{"moe_layers", 4}, {"top_k", 8}}}, {"cache", {{"hits", 1500}, {"misses", 550}, {"bytes_read", 1000000}}},
          {"process", {{"peak_rss_bytes", 1000000}, {"rss_anon_bytes", 900000}, {"rss_file_bytes", 90000}, {"io_read_bytes", 1100000}, {"major_faults", 3}}},
          {"memory_limit", {{"limit_bytes", std::uint64_t{4} << 30}, {"peak_bytes", 1200000}}}});
}

/// Values by run: the two warm-ups first, then ABBA ABBA ..
Json receipt_of(const Json& m, const std::vector<double>& values) {
  std::size_t i = 0;
  auto receipt = run_experiment(m, surroundings(), [&](std::size_t, const std::vector<std::string>& command) -> Result<Json> { return sample(command, values.at(i++)); }, [](const std::string&) {});
  BOOST_REQUIRE(receipt);
  // Times as they would be of real runs.
  for (std::size_t s = 0; s < (*receipt)["samples"].size(); ++s) (*receipt)["samples"][s]["started"] = 1000.0 + 10.0 * static_cast<double>(s), (*receipt)["samples"][s]["finished"] = 1009.0 + 10.0 * static_cast<double>(s);
  (*receipt)["sha256"] = receipt_seal(*receipt);
  return *receipt;
}
const std::vector<double> kBetter{10, 12, 10.0, 12.0, 12.2, 10.1, 10.2, 12.1, 12.4, 9.9, 10.1, 12.3};
Json good() { return receipt_of(manifest(), kBetter); }

void reseal(Json& receipt) {
  receipt["sha256"] = receipt_seal(receipt);
  receipt = as_read(receipt);
}

BOOST_AUTO_TEST_CASE(the_rule_of_adoption) {
  const std::vector<double> b{10, 10.1, 9.9, 10.2, 10}, c{11.2, 11.3, 11.1, 11.5, 11.4};
  BOOST_TEST((judge(b, c, true, true, false).outcome == Outcome::adopted));
  BOOST_TEST(judge(b, c, true, true, false).improvement == 11.3 / 10 - 1);
  BOOST_TEST((judge(c, b, true, true, false).outcome == Outcome::parked));
  BOOST_TEST((judge(c, b, false, true, false).outcome == Outcome::adopted));  // where less is better
  BOOST_TEST((judge(b, b, true, true, false).outcome == Outcome::parked));
  BOOST_TEST((judge(b, c, true, true, true).outcome == Outcome::parked));    // told to do the same
  BOOST_TEST((judge(b, c, true, false, false).outcome == Outcome::invalid));
  BOOST_TEST((judge(std::span(b).first(4), std::span(c).first(4), true, true, false).outcome == Outcome::invalid));
  BOOST_TEST((judge(std::vector<double>{10., 10, 10, 10, 10}, std::vector<double>{11., 11, 11, 11, 11}, true, true, false).outcome == Outcome::adopted));  // exactly 10 %
  BOOST_TEST((judge(std::vector<double>{10., 10, 10, 10, 10}, std::vector<double>{10.9, 10.9, 10.9, 10.9, 10.9}, true, true, false).outcome == Outcome::parked));
  BOOST_TEST((judge(std::vector<double>{10., 10, 10, 10, 12}, std::vector<double>{12., 13, 13, 13, 13}, true, true, false).outcome == Outcome::parked));  // touching ranges overlap
  BOOST_TEST((judge(std::vector<double>{10., 10, 10, 10, std::numeric_limits<double>::quiet_NaN()}, c, true, true, false).outcome == Outcome::invalid));
}

BOOST_AUTO_TEST_CASE(good_receipts_hold) {
  const ReceiptCheck check = check_receipt(good());
  for (const ReceiptFinding& f : check.findings) BOOST_TEST_MESSAGE(f.rule << ": " << f.message);
  BOOST_TEST(check.holds());
  BOOST_TEST((check.derived.outcome == Outcome::adopted));
  const Json parked = receipt_of(manifest(), {10, 12, 10.0, 12.0, 12.2, 12.1, 10.2, 12.1, 12.4, 9.9, 10.1, 12.3});
  BOOST_TEST(check_receipt(parked).holds());
  BOOST_TEST(parked["verdict"]["outcome"] == "parked");
  BOOST_TEST(parked["verdict"]["reason"] == "the ranges overlap");
  Json unlimited = manifest();
  unlimited["memory_limit"] = nullptr;
  BOOST_TEST(check_receipt(receipt_of(unlimited, kBetter)).has("memory-limit"));  // this arm's samples say one
  // As text and back: a receipt is a file.
  BOOST_TEST(check_receipt(Json::parse(good().dump(2))).holds());
}

BOOST_AUTO_TEST_CASE(identical_arms_come_out_parked_whatever_was_measured) {
  Json same = manifest();
  same["variable"]["candidate"] = "lru";
  const Json receipt = receipt_of(same, kBetter);
  BOOST_TEST(receipt["verdict"]["outcome"] == "parked");
  BOOST_TEST(check_receipt(receipt).holds());
}

BOOST_AUTO_TEST_CASE(outputs_are_compared_before_any_time_is_taken) {
  int n_runs = 0;
  const auto refused = run_experiment(manifest(), surroundings(), [&](std::size_t arm, const std::vector<std::string>& command) -> Result<Json> {
    ++n_runs;
    Json s = sample(command, 10);
    if (arm == 1) s["logits_hash"] = std::string(64, '2');
    return s;
  }, [](const std::string&) {});
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().code == Errc::mismatch));
  BOOST_TEST(n_runs == 2);
  Json few = manifest();
  few["n"] = 4U;
  BOOST_TEST((run_experiment(few, surroundings(), [](std::size_t, const std::vector<std::string>& c) -> Result<Json> { return sample(c, 1); }, [](const std::string&) {}).error().code == Errc::usage));
}

BOOST_AUTO_TEST_CASE(runs_are_interleaved_abba) {
  std::string order;
  BOOST_REQUIRE(run_experiment(manifest(), surroundings(), [&](std::size_t arm, const std::vector<std::string>& c) -> Result<Json> { order += arm == 0 ? 'A' : 'B'; return sample(c, 10); }, [](const std::string&) {}));
  BOOST_TEST(order == "AB" "ABBA" "ABBA" "AB");
}

BOOST_AUTO_TEST_CASE(manifests_name_one_variable) {
  const auto refuses = [](const std::function<void(Json&)>& change) {
    Json m = manifest();
    change(m);
    const auto read = Manifest::from_json(as_read(m));
    return read ? std::string() : read.error().subject;
  };
  BOOST_TEST(Manifest::from_json(manifest()).has_value());
  BOOST_TEST(refuses([](Json& m) { m["variable"]["second"] = "--store"; }) == "variable");
  BOOST_TEST(refuses([](Json& m) { m["command"].push_back("--evict"); }) == "variable.option");
  BOOST_TEST(refuses([](Json& m) { m["command"].push_back("--evict=lru"); }) == "variable.option");
  BOOST_TEST(refuses([](Json& m) { m["command"].push_back("--json"); }) == "command");
  BOOST_TEST(refuses([](Json& m) { m["command"][0] = "bench"; }) == "command");
  BOOST_TEST(refuses([](Json& m) { m["n"] = 0; }) == "n");
  BOOST_TEST(refuses([](Json& m) { m["n"] = -5; }) == "n");
  BOOST_TEST(refuses([](Json& m) { m["cache"] = "hot"; }) == "cache");
  BOOST_TEST(refuses([](Json& m) { m["memory_limit"] = "4 GB"; }) == "memory_limit");
  BOOST_TEST(refuses([](Json& m) { m["direction"] = "up"; }) == "direction");
  BOOST_TEST(refuses([](Json& m) { m["quality"] = "looks fine"; }) == "quality");
  BOOST_TEST(refuses([](Json& m) { m.erase("hypothesis"); }) == "hypothesis");
  BOOST_TEST(refuses([](Json& m) { m["metrics"] = "x"; }) == "metrics");
  const Manifest flag = *Manifest::from_json([] { Json m = manifest(); m["variable"] = {{"option", "--unbounded"}, {"baseline", false}, {"candidate", true}}; return m; }());
  BOOST_TEST(flag.command_of(0) == flag.command);
  BOOST_TEST(flag.command_of(1).back() == "--unbounded");
}

struct Planted {
  const char* rule;
  const char* what;
  std::function<void(Json&)> damage;
};

/// The samples of the n-th measured pair begin at 2: two warm-ups stand before them.
const std::vector<Planted> kPlanted{
    {"missing-control", "no baseline", [](Json& r) { Json kept = Json::array(); for (Json& s : r["samples"]) if (s["arm"] == "candidate" || s["kind"] == "warmup") kept.push_back(s); r["samples"] = kept; }},
    {"missing-candidate", "no candidate", [](Json& r) { Json kept = Json::array(); for (Json& s : r["samples"]) if (s["arm"] == "baseline" || s["kind"] == "warmup") kept.push_back(s); r["samples"] = kept; }},
    {"too-few", "n = 4", [](Json& r) { r["samples"].erase(10), r["samples"].erase(10), r["manifest"]["n"] = 4; }},
    {"dropped-samples", "samples left out", [](Json& r) { r["manifest"]["n"] = 6; }},
    {"overlap", "overlapping ranges called adopted", [](Json& r) { r["samples"][5]["value"] = 12.05, r["arms"]["baseline"]["max"] = 12.05; r["arms"]["baseline"]["median"] = 10.1; }},
    {"wrong-verdict", "less than 10 % called adopted", [](Json& r) { for (Json& s : r["samples"]) if (s["arm"] == "candidate") s["value"] = 10.5; r["arms"]["candidate"] = {{"n", 5}, {"median", 10.5}, {"min", 10.5}, {"max", 10.5}}; r["verdict"]["improvement"] = 10.5 / 10.1 - 1; }},
    {"wrong-verdict", "adopted called parked", [](Json& r) { r["verdict"]["outcome"] = "parked"; }},
    {"wrong-verdict", "another reason", [](Json& r) { r["verdict"]["reason"] = "because"; }},
    {"two-variables", "another option differs too", [](Json& r) { for (Json& s : r["samples"]) if (s["arm"] == "candidate") s["command"].push_back("--unbounded"); }},
    {"two-variables", "another instruction set ran", [](Json& r) { r["samples"][4]["mode"]["isa"] = "avx512vnni"; }},
    {"two-variables", "another number of threads ran", [](Json& r) { r["samples"][7]["mode"]["threads"] = 1; }},
    {"two-variables", "not the same work", [](Json& r) { r["samples"][7]["tokens"]["decode"] = 62; }},
    {"one-variable", "the manifest names two", [](Json& r) { r["manifest"]["variable"]["also"] = "--store"; }},
    {"equal-arms", "the candidate ran the baseline's command", [](Json& r) { for (Json& s : r["samples"]) s["command"] = r["samples"][0]["command"], s["mode"]["policy"] = "lru"; }},
    {"equal-arms", "equal values called adopted", [](Json& r) { r["manifest"]["variable"]["candidate"] = "lru"; for (Json& s : r["samples"]) s["command"] = r["samples"][0]["command"], s["mode"]["policy"] = "lru"; }},
    {"missing-hash", "no output hash", [](Json& r) { r["samples"][3].erase("logits_hash"); }},
    {"missing-hash", "an empty output hash", [](Json& r) { r["samples"][3]["logits_hash"] = ""; }},
    {"quality", "outputs differ", [](Json& r) { r["samples"][3]["logits_hash"] = std::string(64, '2'); }},
    {"quality", "says that outputs differ", [](Json& r) { r["quality"]["same"] = false; }},
    {"missing-quality-gate", "no quality gate", [](Json& r) { r.erase("quality"); }},
    {"wrong-median", "a median that isn't", [](Json& r) { r["arms"]["candidate"]["median"] = 12.9; }},
    {"wrong-min", "a least that isn't", [](Json& r) { r["arms"]["candidate"]["min"] = 12.05; }},
    {"wrong-max", "a most that isn't", [](Json& r) { r["arms"]["baseline"]["max"] = 10.15; }},
    {"wrong-n", "another n", [](Json& r) { r["arms"]["baseline"]["n"] = 7; }},
    {"wrong-improvement", "a larger improvement", [](Json& r) { r["verdict"]["improvement"] = 0.3; }},
    {"control-first", "the baseline after the candidate", [](Json& r) { std::swap(r["samples"][2], r["samples"][3]); for (const char* t : {"started", "finished"}) std::swap(r["samples"][2][t], r["samples"][3][t]); }},
    {"not-interleaved", "all of one, then all of the other", [](Json& r) { Json in_turn = Json::array(); for (const char* arm : {"baseline", "candidate"}) for (const Json& s : r["samples"]) if (s["kind"] == "measured" && s["arm"] == arm) in_turn.push_back(s); for (std::size_t i = 0; i < in_turn.size(); ++i) { in_turn[i]["started"] = r["samples"][i + 2]["started"], in_turn[i]["finished"] = r["samples"][i + 2]["finished"]; } for (std::size_t i = 0; i < in_turn.size(); ++i) r["samples"][i + 2] = in_turn[i]; }},
    {"clock", "runs side by side", [](Json& r) { r["samples"][6]["started"] = r["samples"][5]["started"]; }},
    {"clock", "ended before it began", [](Json& r) { r["samples"][6]["finished"] = 5; }},
    {"skipped", "a skip shown as a sample", [](Json& r) { r["samples"][4]["status"] = "skipped"; }},
    {"failed-run", "a failure shown as a sample", [](Json& r) { r["samples"][4]["exit_code"] = 8; }},
    {"not-a-number", "NaN", [](Json& r) { r["samples"][4]["value"] = std::numeric_limits<double>::quiet_NaN(); }},
    {"not-a-number", "null, as JSON writes NaN", [](Json& r) { r["samples"][4]["value"] = nullptr; }},
    {"not-a-number", "a negative rate", [](Json& r) { r["samples"][4]["value"] = -10; }},
    {"fallback", "another policy ran than was asked for", [](Json& r) { r["samples"][3]["mode"]["policy"] = "lru"; }},
    {"fallback", "another profile ran than was asked for", [](Json& r) { for (Json& s : r["samples"]) s["mode"]["profile"] = "scalar"; }},
    {"counters", "counters that were not reset between runs", [](Json& r) { std::uint64_t sum = 0; for (Json& s : r["samples"]) sum += 1500, s["cache"]["hits"] = sum; }},
    {"counters", "counters that nobody kept", [](Json& r) { r["samples"][4]["cache"]["hits"] = 0; }},
    {"contradiction", "a value that its own counter denies", [](Json& r) { r["manifest"]["metric"] = "cache.misses"; }},
    {"impossible-time", "baseline samples edited slower than their runs took, all figures worked out again", [](Json& r) { for (Json& s : r["samples"]) if (s["arm"] == "baseline" && s["kind"] == "measured") s["value"] = 5.0; r["arms"]["baseline"] = {{"n", 5}, {"median", 5.0}, {"min", 5.0}, {"max", 5.0}}; r["verdict"]["improvement"] = 12.1 / 5.0 - 1; }},
    {"wrong-median", "samples edited, and nothing else", [](Json& r) { for (Json& s : r["samples"]) if (s["arm"] == "candidate") s["value"] = s["value"].get<double>() + 1; }},
    {"one-run-one-sample", "one run told twice", [](Json& r) { r["samples"][4]["run"] = r["samples"][3]["run"]; }},
    {"over-limit", "over the limit", [](Json& r) { r["samples"][4]["process"]["peak_rss_bytes"] = std::uint64_t{5} << 30; }},
    {"memory-limit", "a limit that was not in force", [](Json& r) { r["samples"][4].erase("memory_limit"); }},
    {"memory-limit", "another limit", [](Json& r) { r["samples"][4]["memory_limit"]["limit_bytes"] = std::uint64_t{8} << 30; }},
    {"memory-limit", "more than the limit", [](Json& r) { r["samples"][4]["memory_limit"]["peak_bytes"] = (std::uint64_t{4} << 30) + 1; }},
    {"memory-limit", "a group that nothing was charged to", [](Json& r) { r["samples"][4]["memory_limit"]["peak_bytes"] = 0; }},
    {"memory-limit", "a limit that nobody asked for", [](Json& r) { r["manifest"]["memory_limit"] = nullptr; }},
    {"not-cold", "read from the page cache", [](Json& r) { r["samples"][4]["process"]["io_read_bytes"] = 0; }},
    {"missing-warmup", "no warm-up", [](Json& r) { r["samples"].erase(0), r["samples"].erase(0); }},
    {"order", "a warm-up last", [](Json& r) { Json s = r["samples"][0]; s["run"] = "late", s["started"] = 5000, s["finished"] = 5009; r["samples"].push_back(s); }},
    {"commit", "no commit", [](Json& r) { r["build"]["commit"] = "unknown"; }},
    {"commit", "changes that it doesn't own up to", [](Json& r) { r["build"]["commit"] = "0123456789ab+changes"; }},
    {"model-hash", "no model hash", [](Json& r) { r["model"]["fingerprint_sha256"] = "?"; }},
    {"missing-field", "no machine state", [](Json& r) { r["machine"].erase("load"); }},
    {"missing-field", "no samples", [](Json& r) { r.erase("samples"); }},
    {"unknown-field", "a field that nobody checks", [](Json& r) { r["note"] = "trust me"; }},
    {"schema", "another schema", [](Json& r) { r["schema"] = "coli.receipt/2"; }},
    {"arm", "a third arm", [](Json& r) { r["samples"][4]["arm"] = "other"; }},
    {"manifest", "a broken manifest", [](Json& r) { r["manifest"].erase("metric"); }},
};

BOOST_AUTO_TEST_CASE(every_planted_receipt_is_refused_for_its_own_reason) {
  std::set<std::string> rules;
  for (const Planted& planted : kPlanted) {
    Json receipt = good();
    planted.damage(receipt);
    reseal(receipt);
    const ReceiptCheck check = check_receipt(receipt);
    std::string found;
    for (const ReceiptFinding& f : check.findings) found += " " + f.rule;
    BOOST_TEST(check.has(planted.rule), planted.what << ": expected " << planted.rule << ", found" << found);
    if (!check.findings.empty()) BOOST_TEST(check.findings.front().rule == planted.rule, planted.what << ": said first " << check.findings.front().rule << ": " << check.findings.front().message);
    BOOST_TEST(!check.has("seal"), planted.what);
    rules.insert(planted.rule);
  }
  BOOST_TEST(kPlanted.size() >= 50U);
  BOOST_TEST(rules.size() >= 30U);  // kinds of reason; two dishonest files of one kind are refused by one rule
  Json changed = good();  // whoever only edits a number leaves the hash behind
  changed["machine"]["load"] = 0.2;
  BOOST_TEST(check_receipt(changed).has("seal"));
  BOOST_TEST(check_receipt(changed).findings.size() == 1U);
}

BOOST_AUTO_TEST_CASE(receipts_that_were_committed_hold) {
  const std::filesystem::path folder = std::filesystem::path(COLI_FIXTURES_DIR).parent_path() / "conformance" / "evidence" / "receipts";
  std::size_t n = 0;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    if (entry.path().extension() != ".json") continue;
    std::ifstream file(entry.path());
    const ReceiptCheck check = check_receipt(Json::parse(file, nullptr, false));
    BOOST_TEST(check.holds(), entry.path().filename().string() << ": " << (check.holds() ? "" : check.findings.front().message));
    ++n;
  }
  BOOST_TEST_MESSAGE(n << " receipts");
}

BOOST_AUTO_TEST_CASE(nothing_that_is_no_receipt_upsets_the_checker) {
  // Nested deeper than a stack: comparing or writing it would recurse as deep.
  const std::string deep = std::string(300000, '[') + std::string(300000, ']');
  std::string deep_receipt = good().dump();
  deep_receipt.replace(deep_receipt.find("\"load\":0.1"), 10, "\"load\":" + deep);
  BOOST_TEST(parse_bounded_json(deep_receipt).is_discarded());
  BOOST_TEST(parse_bounded_json(deep).is_discarded());
  const auto nested = [](std::size_t n) { return parse_bounded_json("{\"a\":" + std::string(n - 1, '[') + std::string(n - 1, ']') + "}"); };
  BOOST_TEST(nested(kMostJsonDepth).is_object());
  BOOST_TEST(nested(kMostJsonDepth + 1).is_discarded());
  BOOST_TEST(parse_bounded_json("\"" + std::string(300, '[') + "\\\"[\"").is_string());  // brackets in a text are none
  for (const char* text : {"null", "[]", "{}", "1", "\"x\"", "{\"schema\":\"coli.receipt/1\"}", "{\"schema\":\"coli.receipt/1\",\"quality\":1,\"manifest\":[],\"machine\":2,\"build\":3,\"model\":4,\"samples\":{},\"arms\":5,\"verdict\":6,\"sha256\":7}"})
    BOOST_TEST(!check_receipt(Json::parse(text)).holds());
  // Every value of a good one replaced by every kind of value: refused or held, never a crash.
  const Json base = good();
  std::vector<Json::json_pointer> places;
  const std::function<void(const Json&, const Json::json_pointer&)> walk = [&](const Json& json, const Json::json_pointer& at) {
    places.push_back(at);
    if (json.is_object())
      for (const auto& [key, value] : json.items()) walk(value, at / key);
    if (json.is_array())
      for (std::size_t i = 0; i < std::min<std::size_t>(json.size(), 4); ++i) walk(json[i], at / i);
  };
  walk(base, Json::json_pointer());
  for (const auto& place : places)
    for (const Json& other : {Json(nullptr), Json(true), Json(-1), Json(1e300), Json("text"), Json::array({1, 2}), Json::object({{"a", 1}})}) {
      if (place.empty() || base[place] == other) continue;
      Json damaged = base;
      damaged[place] = other;
      BOOST_TEST(!check_receipt(damaged).holds(), place.to_string() << " = " << other.dump());
    }
}

}  // namespace
}  // namespace coli
