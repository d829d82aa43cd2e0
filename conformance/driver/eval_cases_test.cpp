// SPDX-License-Identifier: Apache-2.0
// Does eval --cases compare with the right lane and no other, pass nothing unseen, and write lanes whole?
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "conformance/gguf/temporary_folder.hpp"
#include "driver/isa/select.hpp"
#include "process.hpp"

namespace colidrv::test {
namespace {

using Json = nlohmann::json;
using coli::gguf::test::TemporaryFolder;
const std::string kModel = fixture("tiny_min.gguf");
constexpr const char* kCases = R"({"schema":1,"cases":[
  {"id":"one","tags":["text","short"],"prompt":"the king","tokens":9},
  {"id":"two","tags":["ids"],"prompt_ids":[5,7,11,3],"tokens":6}]})";

/// A folder with the cases above and the scalar lane of tiny_min.
struct Bench {
  TemporaryFolder folder;
  std::string cases = folder.write("x.cases.json", kCases), lane;
  Bench() {
    std::filesystem::create_directory(folder / "x.lanes");
    lane = folder / "x.lanes/scalar.generic.json";
    Json made = run({"--snapshot-out", folder / "first.json"});
    lane = folder / ("x.lanes/scalar." + made.at("key").at("isa").get<std::string>() + ".json");
    std::filesystem::rename(folder / "first.json", lane);
  }
  std::vector<std::string> arguments(const std::vector<std::string>& more) const {
    std::vector<std::string> all{"eval", kModel, "--cases", cases, "--profile", "scalar", "--quiet"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Json run(std::vector<std::string> more) const {
    more.insert(more.end(), {"--json", "-"});
    return Json::parse(expect_success(arguments(more)).out);
  }
  Json lane_json() const { return Json::parse(TemporaryFolder::read(lane)); }
  void set_lane(const Json& json) const { folder.write(std::filesystem::relative(lane, folder / "").string(), json.dump()); }
  std::string failure(int code, const std::vector<std::string>& more = {}) const {
    const Outcome outcome = colidrv(arguments(more));
    BOOST_TEST(outcome.code == code, outcome.err);
    return last_line(outcome.err);
  }
};

BOOST_AUTO_TEST_SUITE(eval_cases)

BOOST_AUTO_TEST_CASE(its_own_lane_agrees_and_says_what_was_compared) {
  const Bench bench;
  const Json out = bench.run({});
  BOOST_TEST(out.at("compared") == 2);
  BOOST_TEST(out.at("same_key") == true);
  BOOST_TEST(out.at("failures").empty());
  BOOST_TEST(out.at("lane") == bench.lane);
  BOOST_TEST(out.at("coverage").at("tags").at("short") == 1);
  BOOST_TEST(out.at("coverage").at("experts_chosen") <= out.at("coverage").at("experts"));
  BOOST_TEST(out.at("cases").at(0).at("token_ids").size() == 9U);
  BOOST_TEST(out.at("key").at("model_sha256").get<std::string>().size() == 64U);
  BOOST_TEST(bench.lane_json().at("made_by").contains("commit"));
  const Outcome shown = expect_success(bench.arguments({}));
  BOOST_TEST(contains(shown.out, "2 of 2 cases compared"));
  BOOST_TEST(contains(shown.out, "tags: ids 1, short 1, text 1"));
}

BOOST_AUTO_TEST_CASE(one_hash_whatever_the_process_threads_chunks_and_repeats) {
  const Bench bench;
  const std::string hash = bench.run({}).at("hash");
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{{}, {"--threads", "1"}, {"--threads", "3"}, {"--chunk", "1"}, {"--store", "mmap"}, {"--determinism-runs", "3"}})
    BOOST_TEST(bench.run(more).at("hash") == hash);
}

BOOST_AUTO_TEST_CASE(no_lane_is_no_pass) {
  const TemporaryFolder folder;
  const std::string cases = folder.write("y.cases.json", kCases);
  const std::vector<std::string> base{"eval", kModel, "--cases", cases, "--profile", "scalar", "--quiet"};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), base.begin(), base.end());
    return colidrv(more);
  };
  const Outcome outcome = with({});
  BOOST_TEST(outcome.code == 7);
  BOOST_TEST(contains(last_line(outcome.err), "nothing was compared"));
  BOOST_TEST(contains(last_line(outcome.err), "y.lanes/scalar."));
  BOOST_TEST(with({"--report"}).code == 0);
  // A lane of another profile, or under another's name, is never taken.
  const Bench bench;
  std::filesystem::create_directory(folder / "y.lanes");
  const std::string own = std::filesystem::path(bench.lane).filename();
  std::filesystem::copy_file(bench.lane, folder / "y.lanes/cpu.avx2.json");
  BOOST_TEST(with({}).code == 7);
  Json other = bench.lane_json();
  other["key"]["profile"] = "cpu";
  folder.write("y.lanes/" + own, other.dump());
  const Outcome named = with({});
  BOOST_TEST(named.code == 5);
  BOOST_TEST(contains(last_line(named.err), "is a lane of cpu"));
  // A path that was given and is not there is an error too.
  BOOST_TEST(with({"--snapshot", folder / "none.json"}).code == 8);
  BOOST_TEST(colidrv({"eval", kModel, "--cases", folder.write("none.cases.json", R"({"schema":1,"cases":[]})")}).code == 7);
}

BOOST_AUTO_TEST_CASE(differences_are_named_first_causes_first) {
  const Bench bench;
  const Json good = bench.lane_json();
  const auto with = [&](const std::function<void(Json&)>& change, const std::vector<std::string>& more = {}) {
    Json lane = good;
    change(lane);
    bench.set_lane(lane);
    return bench.failure(6, more);
  };
  BOOST_TEST(contains(with([](Json& l) { l["cases"][1]["logits_sha256"] = "00"; }), "case 'two': logits: bits hash to"));
  BOOST_TEST(contains(with([](Json& l) { l["cases"][0]["token_ids"][4] = 0, l["cases"][1]["logits_sha256"] = "0"; }), "case 'one': token ids: step 4: expected 0, got "));
  BOOST_TEST(contains(with([](Json& l) { l["cases"][0]["token_ids"][4] = 0, l["cases"][1]["logits_sha256"] = "0"; }), "(and 1 more)"));
  BOOST_TEST(contains(with([](Json& l) { l["cases"][0]["prompt_sha256"] = "0", l["cases"][0]["token_ids"][0] = 0; }), "case 'one': inputs: "));
  BOOST_TEST(contains(with([](Json& l) { l["key"]["model_sha256"] = "0"; }), "inputs: the model is "));
  BOOST_TEST(contains(with([](Json& l) { l["cases"].erase(1); }), "case 'two': missing case"));
  BOOST_TEST(contains(with([](Json& l) { l["floors"]["token"] = 1e6; }), "token margin"));
  // A floor given wins over the lane's; 0 is none.
  Json high = good;
  high["floors"]["token"] = 1e6;
  bench.set_lane(high);
  expect_success(bench.arguments({"--min-token-margin", "0"}));
  bench.set_lane(good);
  BOOST_TEST(contains(bench.failure(6, {"--min-route-margin", "1e6"}), "route margin"));
  // Another key: decisions are compared, bits are not.
  Json other = good;
  other["key"]["activations"] = "of another kind", other["cases"][1]["logits_sha256"] = "0";
  bench.set_lane(other);
  const Outcome shown = expect_success(bench.arguments({}));
  BOOST_TEST(contains(shown.out, "ids and margins only"));
}

BOOST_AUTO_TEST_CASE(a_prompt_that_the_tokenizer_reads_otherwise_is_a_difference_of_inputs) {
  const TemporaryFolder folder;
  const std::string cases = folder.write("z.cases.json", R"({"schema":1,"cases":[{"id":"a","prompt":"the king","prompt_ids":[1,2],"tokens":3}]})");
  const Outcome outcome = colidrv({"eval", kModel, "--cases", cases, "--profile", "scalar", "--quiet", "--report"});
  BOOST_TEST(outcome.code == 6);
  BOOST_TEST(contains(last_line(outcome.err), "case 'a': inputs: "));
}

BOOST_AUTO_TEST_CASE(a_snapshot_is_written_whole_or_not_at_all) {
  const Bench bench;
  const TemporaryFolder folder;
  const std::string cases = folder.write("z.cases.json", R"({"schema":1,"cases":[{"id":"a","prompt":"x","tokens":3},{"id":"b","prompt_ids":[99999],"tokens":3}]})");
  const std::string out = folder.write("lane.json", "what was there");
  const Outcome outcome = colidrv({"eval", kModel, "--cases", cases, "--profile", "scalar", "--quiet", "--snapshot-out", out});
  BOOST_TEST(outcome.code == 6);
  BOOST_TEST(TemporaryFolder::read(out) == "what was there");
  BOOST_TEST(contains(last_line(outcome.err), "no snapshot was written"));
  expect_error(bench.arguments({"--snapshot-out", folder / "no/such/folder.json"}), 8, {"--snapshot-out"});
}

BOOST_AUTO_TEST_CASE(one_thing_at_a_time) {
  expect_error({"eval", kModel}, 2, {"--cases", "--golden", "--perplexity"});
  expect_error({"eval", kModel, "--golden", "a", "--cases", "b"}, 2, {"--cases"});
  expect_error({"eval", kModel, "--golden", "a", "--report"}, 2, {"--cases"});
  expect_error({"eval", kModel, "--cases", "a", "--snapshot", "b", "--report"}, 2, {"--report"});
  expect_error({"eval", kModel, "--cases", "a", "--determinism-runs", "0"}, 2, {"determinism-runs"});
  expect_error({"eval", kModel, "--cases", "a", "--min-token-margin", "-1"}, 2, {"min-token-margin"});
}

// The committed lane of every instruction set that this machine has: every case, to the bit.
BOOST_AUTO_TEST_CASE(bard_keeps_its_lanes) {
  std::size_t n_lanes = 0;
  for (const IsaEntry& isa : isas()) {
    if (!isa.runs_here()) continue;
    ::setenv("COLI_ISA", std::string(isa.name).c_str(), 1);
    const Outcome outcome = colidrv({"eval", fixture("bard.gguf"), "--cases", fixture("bard.cases.json"), "--profile", "cpu", "--quiet", "--json", "-"});
    ::unsetenv("COLI_ISA");
    if (outcome.code == 7) {
      BOOST_TEST_MESSAGE("SKIP: " + last_line(outcome.err));
      continue;
    }
    BOOST_TEST(outcome.code == 0, outcome.err);
    const Json out = Json::parse(outcome.out);
    BOOST_TEST(out.at("compared").get<std::size_t>() >= 37U);
    BOOST_TEST(out.at("same_key") == true);
    BOOST_TEST(out.at("coverage").at("experts_chosen") == 80);  // 4 layers of 20
    ++n_lanes;
  }
  if (n_lanes == 0) BOOST_TEST_MESSAGE("SKIP: no instruction set here has a lane");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(eval_perplexity)

// The oracle's figure for the whole text (fixtures/README.md): 2.2446 bits a byte, 4.164 nats a token, 20,867 predictions.
BOOST_AUTO_TEST_CASE(the_whole_held_out_text_is_as_surprising_as_the_oracle_found_it) {
  const Outcome outcome = colidrv({"eval", fixture("bard.gguf"), "--perplexity", fixture("bard.heldout.txt"), "--profile", "cpu", "--quiet", "--json", "-"});
  if (outcome.code == 3) {
    BOOST_TEST_MESSAGE("SKIP: " + last_line(outcome.err));
    return;
  }
  const Json out = Json::parse(outcome.out);
  BOOST_TEST(out.at("predicted") == 20867);
  BOOST_TEST(out.at("bytes") == 55850);
  BOOST_TEST(std::abs(out.at("bits_per_byte").get<double>() - 2.2446) < 0.0005);
  BOOST_TEST(std::abs(out.at("nats_per_token").get<double>() - 4.164) < 0.001);
}

BOOST_AUTO_TEST_CASE(the_same_bits_over_stores_memory_threads_and_chunks) {
  const TemporaryFolder folder;
  const std::string text = folder.write("part.txt", TemporaryFolder::read(fixture("bard.heldout.txt")).substr(0, 2500));
  const auto measure = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"eval", fixture("bard.gguf"), "--perplexity", text, "--profile", "cpu", "--window", "256", "--quiet", "--json", "-"});
    const Outcome outcome = colidrv(more);
    BOOST_TEST_REQUIRE(outcome.code == 0, outcome.err);
    return Json::parse(outcome.out);
  };
  if (colidrv({"eval", fixture("bard.gguf"), "--perplexity", text, "--profile", "cpu", "--window", "8"}).code == 3) {
    BOOST_TEST_MESSAGE("SKIP: no profile cpu on this machine");
    return;
  }
  const Json first = measure({});
  BOOST_TEST(first.at("bytes") == 2500);
  BOOST_TEST(first.at("predicted").get<int>() == first.at("tokens").get<int>() - 1);
  BOOST_TEST(std::abs(first.at("bits_per_byte").get<double>() - 2.24) < 0.3);
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{{"--threads", "1"}, {"--chunk", "7"}, {"--store", "pread"}, {"--store", "mmap"}, {"--memory", "48M"}})
    BOOST_TEST(measure(more).at("nats") == first.at("nats"));
}

BOOST_AUTO_TEST_CASE(what_can_not_be_measured_is_refused) {
  const TemporaryFolder folder;
  const std::string text = folder.write("t.txt", "the king");
  expect_error({"eval", kModel, "--perplexity", folder.write("empty.txt", ""), "--profile", "scalar"}, 7, {"predicts nothing"});
  expect_error({"eval", kModel, "--perplexity", text, "--profile", "scalar", "--window", "100000"}, 2, {"--window", "100000"});
  expect_error({"eval", kModel, "--perplexity", text, "--profile", "scalar", "--window", "8", "--stride", "9"}, 2, {"--stride"});
  expect_error({"eval", kModel, "--perplexity", folder / "none.txt"}, 8, {"none.txt"});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace colidrv::test
