// SPDX-License-Identifier: Apache-2.0
// Are lanes and cases read as they were written, and refused by the field that is wrong? Are the committed ones sound?
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "coli/evaluation/golden.hpp"
#include "coli/evaluation/lane.hpp"
#include "made_up.hpp"

namespace coli::evaluation {
namespace {

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  BOOST_TEST_REQUIRE(in.good(), path);
  return {std::istreambuf_iterator<char>(in), {}};
}
const std::string kCases = std::string(COLI_FIXTURES_DIR) + "/bard.cases.json";

std::map<std::string, Lane> committed() {
  std::map<std::string, Lane> lanes;
  for (const auto& entry : std::filesystem::directory_iterator(lanes_folder_of(kCases))) {
    auto lane = parse_lane(read(entry.path()), entry.path());
    BOOST_TEST_REQUIRE(lane.has_value(), (lane ? "" : lane.error().line()));
    BOOST_TEST(entry.path() == lane_path(lanes_folder_of(kCases), lane->key.profile, lane->key.isa));
    lanes.emplace(lane->key.profile + "." + lane->key.isa, *lane);
  }
  return lanes;
}

BOOST_AUTO_TEST_SUITE(lanes)

BOOST_AUTO_TEST_CASE(what_is_written_is_read) {
  CaseDecisions d;
  d.id = "a", d.prompt_sha256 = "p", d.token_count = 3, d.ids = test::ids({5, 6}), d.token_margin = 0.1F, d.token_margin_step = 1;
  d.route_ids_sha256 = "r", d.logits_sha256 = "l", d.route_margin_position = 7, d.route_margin_layer = 2;  // no route margin
  const Lane lane{{"m", "c", "cpu", "avx2", "int8", "f16"}, floors_under(std::span(&d, 1)), {d}};
  const Json json = to_json(lane);
  BOOST_TEST(json["floors"]["token"] == 0.08);
  BOOST_TEST(json["floors"]["route"].is_null());
  BOOST_TEST(json["cases"][0]["token_margin"].dump() == "0.1");  // the shortest that reads back
  const auto back = parse_lane(json.dump(), "x");
  BOOST_TEST_REQUIRE(back.has_value());
  BOOST_TEST((back->key == lane.key));
  BOOST_TEST((back->floors == lane.floors));
  BOOST_TEST((to_json(*back)["cases"][0]["token_ids"] == json["cases"][0]["token_ids"]));
  BOOST_TEST(back->cases[0].token_margin == 0.1F);
  BOOST_TEST(back->cases[0].route_margin == kNoMargin);
}

BOOST_AUTO_TEST_CASE(a_lane_that_is_none_names_the_field) {
  CaseDecisions d;
  d.id = "a", d.ids = test::ids({5});
  const Json good = to_json(Lane{{"m", "c", "cpu", "avx2", "int8", "f16"}, {}, {d}});
  BOOST_TEST_REQUIRE(parse_lane(good.dump(), "x").has_value());
  const auto refused = [](const Json& json) {
    const auto lane = parse_lane(json.dump(), "x");
    BOOST_TEST_REQUIRE(!lane.has_value());
    BOOST_TEST((lane.error().code == Errc::bad_input));
    BOOST_TEST(lane.error().file == "x");
    return lane.error().subject;
  };
  for (const char* field : {"schema", "kind", "key", "floors", "cases"}) {
    Json bad = good;
    bad.erase(field);
    BOOST_TEST(refused(bad) == field);
  }
  for (const char* field : {"model_sha256", "cases_sha256", "profile", "isa", "activations", "kv"}) {
    Json bad = good;
    bad["key"][field] = 7;
    BOOST_TEST(refused(bad) == std::string("key.") + field);
  }
  for (const char* field : {"id", "prompt_sha256", "token_count", "token_ids", "token_margin", "route_margin", "route_margin_layer", "route_ids_sha256", "logits_sha256"}) {
    Json bad = good;
    bad["cases"][0].erase(field);
    BOOST_TEST(refused(bad) == std::string("cases[0].") + field);
  }
  Json twice = good;
  twice["cases"].push_back(good["cases"][0]);
  BOOST_TEST(refused(twice) == "cases[1].id");
  Json negative = good;
  negative["floors"]["token"] = -1;
  BOOST_TEST(refused(negative) == "floors.token");
}

BOOST_AUTO_TEST_CASE(cases_are_read_and_hashed_by_what_answers_depend_on) {
  const auto parse = [](const std::string& text) { return parse_case_set(text, "c.json"); };
  const auto set = parse(R"({"schema":1,"cases":[{"id":"a","prompt":"x"},{"id":"b","prompt_ids":[1,2],"tokens":3,"tags":["t"]},{"id":"g","prompt_ids":[4],"ids":[1,2,3,4]}]})");
  BOOST_TEST_REQUIRE(set.has_value());
  BOOST_TEST(set->cases[0].n_tokens == kDefaultDecisions);
  BOOST_TEST(set->cases[1].n_tokens == 3U);
  BOOST_TEST(set->cases[1].tags.at(0) == "t");
  BOOST_TEST(set->cases[2].n_tokens == 4U);  // a golden is a case: as many as it has ids
  const auto hash = [&](const std::string& entry) { return parse(R"({"schema":1,"cases":[)" + entry + "]}")->sha256; };
  const std::string base = hash(R"({"id":"a","prompt":"x","tokens":3})");
  BOOST_TEST(hash(R"({"id":"a","prompt":"x","tokens":3,"tags":["t"],"note":"n"})") == base);
  BOOST_TEST(hash(R"({"id":"b","prompt":"x","tokens":3})") != base);
  BOOST_TEST(hash(R"({"id":"a","prompt":"y","tokens":3})") != base);
  BOOST_TEST(hash(R"({"id":"a","prompt":"x","tokens":4})") != base);
  BOOST_TEST(hash(R"({"id":"a","prompt":"x","tokens":3,"prompt_ids":[1]})") != base);
  const auto subject = [&](const std::string& entry) { return parse(R"({"schema":1,"cases":[)" + entry + "]}").error().subject; };
  BOOST_TEST(subject("7") == "cases[0].id");
  BOOST_TEST(subject(R"({"id":""})") == "cases[0].id");
  BOOST_TEST(subject(R"({"id":"a","prompt":"x"},{"id":"a","prompt":"y"})") == "cases[1].id");
  BOOST_TEST(subject(R"({"id":"a"})") == "cases[0].prompt");
  BOOST_TEST(subject(R"({"id":"a","prompt":""})") == "cases[0].prompt");
  BOOST_TEST(subject(R"({"id":"a","prompt_ids":[]})") == "cases[0].prompt_ids");
  BOOST_TEST(subject(R"({"id":"a","prompt_ids":[-1]})") == "cases[0].prompt_ids");
  BOOST_TEST(subject(R"({"id":"a","prompt":"x","tokens":0})") == "cases[0].tokens");
  BOOST_TEST(subject(R"({"id":"a","prompt":"x","tokens":-3})") == "cases[0].tokens");
  BOOST_TEST(subject(R"({"id":"a","prompt":"x","tags":"t"})") == "cases[0].tags");
  BOOST_TEST(subject(R"({"id":"a","prompt":"x","ids":["y"]})") == "cases[0].ids");
}

// ---- what is committed -----------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(the_cases_of_bard_cover_what_they_should) {
  const auto set = parse_case_set(read(kCases), kCases);
  BOOST_TEST_REQUIRE(set.has_value());
  std::size_t decisive = 0;
  std::map<std::string, int> tags;
  for (const EvalCase& c : set->cases) {
    decisive += std::ranges::count(c.tags, "near_tie") == 0;
    for (const std::string& tag : c.tags) ++tags[tag];
  }
  BOOST_TEST(decisive >= 37U);
  for (const char* tag : {"short", "long", "repeated", "punctuation", "unicode", "near_tie"}) BOOST_TEST(tags[tag] >= 2, tag);
}

BOOST_AUTO_TEST_CASE(committed_lanes_are_of_these_cases_with_floors_of_their_own_margins) {
  const auto set = parse_case_set(read(kCases), kCases);
  const auto lanes = committed();
  BOOST_TEST(lanes.size() >= 4U);
  for (const auto& [name, lane] : lanes)
    BOOST_TEST_CONTEXT(name) {
      BOOST_TEST(lane.key.cases_sha256 == set->sha256);
      BOOST_TEST((lane.floors == floors_under(lane.cases)));
      BOOST_TEST_REQUIRE(lane.cases.size() == set->cases.size());
      for (std::size_t i = 0; i < lane.cases.size(); ++i) {
        BOOST_TEST(lane.cases[i].id == set->cases[i].id);
        BOOST_TEST(lane.cases[i].ids.size() == set->cases[i].n_tokens);
      }
    }
}

// Instruction sets of one profile give the same bits: their lanes differ by their keys alone.
BOOST_AUTO_TEST_CASE(lanes_of_one_profile_are_the_same_on_every_instruction_set) {
  const auto lanes = committed();
  const Lane* first = nullptr;
  for (const auto& [name, lane] : lanes) {
    if (lane.key.profile != "cpu") continue;
    if (first == nullptr) first = &lane;
    BOOST_TEST(hash_of(std::span(lane.cases)) == hash_of(std::span(first->cases)), name << " differs");
  }
  BOOST_TEST_REQUIRE(first != nullptr);
}

// The canonical lane decides what the oracle decided; the fast one where the oracle's margins leave no doubt.
BOOST_AUTO_TEST_CASE(committed_lanes_decide_what_the_oracle_decided) {
  const auto goldens = parse_goldens(read(kCases), kCases);
  BOOST_TEST_REQUIRE(goldens.has_value());
  for (const auto& [name, lane] : committed()) {
    std::size_t same = 0, differ = 0;
    for (const GoldenCase& golden : *goldens) {
      const CaseDecisions* got = lane.find(golden.id);
      BOOST_TEST_REQUIRE(got != nullptr);
      BOOST_TEST_REQUIRE(got->ids.size() == golden.expected.size());
      for (std::size_t step = 0; step < got->ids.size(); ++step) {
        if (got->ids[step] == golden.expected[step]) {
          ++same;
          continue;
        }
        ++differ;
        BOOST_TEST((lane.key.profile != "scalar" && golden.is_near_tie(step)), name << " leaves the oracle in case " << golden.id << " at step " << step);
        break;  // what follows another token is another text
      }
    }
    BOOST_TEST_MESSAGE(name << ": " << same << " decisions are the oracle's, " << differ << " cases leave it at a near tie");
    BOOST_TEST(same > 500U);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli::evaluation
