// SPDX-License-Identifier: Apache-2.0
// Is every broken twin refused for its own reason, by every command that opens it, while its good twin passes?
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "process.hpp"

namespace colidrv::test {
namespace {

using Json = nlohmann::json;

Json manifest() {
  std::ifstream in(fixture("bad.json"));
  return Json::parse(in).at("files");
}

BOOST_AUTO_TEST_SUITE(bad_files)

BOOST_AUTO_TEST_CASE(refused_for_its_own_reason) {
  std::set<std::string> messages, good;
  unsigned refused = 0;
  for (const Json& entry : manifest()) {
    good.insert(entry.at("good").get<std::string>());
    if (entry.at("kind") != "refused") continue;
    ++refused;
    const std::string file = entry.at("file"), path = fixture(file);
    std::vector<std::string> says = entry.at("expect");
    expect_error({"run", path, "-p", "hi", "-n", "1", "--quiet"}, entry.at("exit"), says);
    expect_error({"eval", path, "--golden", fixture("goldens/tiny_min.json"), "--quiet"}, entry.at("exit"), says);
    const std::string line = last_line(colidrv({"run", path, "-p", "hi", "-n", "1", "--quiet"}).err);
    BOOST_TEST(contains(line, file.starts_with("split_missing") ? "split_missing_bad" : file), "names the file: " << line);
    const std::string reason = line.substr(line.find(".gguf: ") + 7);
    BOOST_TEST(messages.insert(reason).second, file << " gets another twin's message: " << reason);
  }
  BOOST_TEST(refused >= 20U);
  for (const std::string& file : good) expect_success({"run", fixture(file), "-p", "hi", "-n", "1", "--quiet"});
}

// These load, and are plausible; only comparing decisions finds them.
BOOST_AUTO_TEST_CASE(wrong_computation_is_disproved) {
  unsigned wrong = 0;
  std::set<std::string> goldens;
  for (const Json& entry : manifest()) {
    if (entry.at("kind") != "wrong") continue;
    ++wrong;
    const Json& first = entry.at("first_mismatch");
    const std::string golden = fixture(entry.at("golden").get<std::string>());
    expect_success({"run", fixture(entry.at("file").get<std::string>()), "-p", "hi", "-n", "4"});
    const Outcome outcome = colidrv({"eval", fixture(entry.at("file").get<std::string>()), "--golden", golden, "--profile", "scalar", "--quiet"});
    BOOST_TEST_CONTEXT(outcome.err) {
      BOOST_TEST(outcome.code == 6);
      const std::string line = last_line(outcome.err);
      BOOST_TEST(contains(line, "prompt '" + first.at("case").get<std::string>() + "', step " + std::to_string(first.at("step").get<int>()) + ": expected " +
                                    std::to_string(first.at("expected").get<int>()) + ", got " + std::to_string(first.at("got").get<int>())));
    }
    const Outcome good = expect_success({"eval", fixture(entry.at("good").get<std::string>()), "--golden", golden, "--profile", "scalar", "--quiet"});
    BOOST_TEST(good.err == "");
  }
  BOOST_TEST(wrong >= 3U);
}

// A file that can't be run can still be looked at, as long as its header is sound.
BOOST_AUTO_TEST_CASE(inspect_says_why_a_sound_header_is_no_model) {
  for (const char* file : {"block_count_bad.gguf", "expert_count_bad.gguf", "missing_key_bad.gguf", "architecture_bad.gguf", "shape_bad.gguf"}) {
    const Outcome outcome = expect_success({"inspect", fixture(file), "--json", "-"});
    const Json json = Json::parse(outcome.out);
    BOOST_TEST(json.at("geometry").is_null());
    BOOST_TEST(json.at("geometry_error").get<std::string>().size() > 10U);
    BOOST_TEST(json.at("tensors").size() > 10U);
    BOOST_TEST(contains(expect_success({"inspect", fixture(file)}).out, "not a model that coli runs: "));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace colidrv::test
