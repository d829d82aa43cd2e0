// SPDX-License-Identifier: Apache-2.0
// Is every broken twin refused for its own reason, by every command that opens it, while its good twin passes?
#include <sys/resource.h>

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "conformance/gguf/temporary_folder.hpp"
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

// Every number of the header in turn is nothing, or more than any file could back: the run is refused by the number's key
// or the tensor that doesn't fit it, or it is of no consequence; and whatever it is, it fits into little memory.
BOOST_AUTO_TEST_CASE(no_number_of_a_header_takes_memory_that_the_file_cannot_justify) {
  const coli::gguf::test::TemporaryFolder folder;
  std::string good;
  {
    std::ifstream in(fixture("tiny_min.gguf"), std::ios::binary);
    good.assign(std::istreambuf_iterator<char>(in), {});
  }
  rlimit before{};
  BOOST_REQUIRE(::getrlimit(RLIMIT_AS, &before) == 0);
  const rlimit little{400U << 20, before.rlim_max};
  unsigned refused = 0, harmless = 0;
  for (const std::string key : {"general.alignment", "general.quantization_version", "qwen3moe.block_count", "qwen3moe.context_length", "qwen3moe.embedding_length", "qwen3moe.feed_forward_length",
                                "qwen3moe.attention.head_count", "qwen3moe.attention.head_count_kv", "qwen3moe.attention.key_length", "qwen3moe.attention.value_length",
                                "qwen3moe.expert_count", "qwen3moe.expert_used_count", "qwen3moe.expert_feed_forward_length", "tokenizer.ggml.eos_token_id", "tokenizer.ggml.padding_token_id"}) {
    const std::size_t at = good.find(key);
    if (at == std::string::npos) continue;
    for (const std::uint32_t value : {0U, 1U, 65535U, 1U << 24, (1U << 31) - 1, 1U << 31, ~0U}) {
      std::string bytes = good;
      const std::uint32_t type_and_value[]{4, value};  // u32
      BOOST_REQUIRE(std::memcmp(bytes.data() + at + key.size(), type_and_value, 4) == 0);
      std::memcpy(bytes.data() + at + key.size(), type_and_value, 8);
      const std::string path = folder.write("x.gguf", bytes);
      BOOST_REQUIRE(::setrlimit(RLIMIT_AS, &little) == 0);
      const Outcome outcome = colidrv({"run", path, "--tokens", "1,2", "-n", "1", "--memory", "64MiB", "--quiet"});
      BOOST_REQUIRE(::setrlimit(RLIMIT_AS, &before) == 0);
      BOOST_TEST_CONTEXT(key << " = " << value << ": exit " << outcome.code << ", " << outcome.err) {
        BOOST_TEST(!outcome.by_signal);
        if (outcome.code == 0) {
          ++harmless;
          continue;
        }
        ++refused;
        const std::string line = last_line(outcome.err);
        if (key == "qwen3moe.context_length" && value == 1) {
          BOOST_TEST(outcome.code == 2);
          continue;
        }
        BOOST_TEST(outcome.code == 5);
        BOOST_TEST(contains(line, path + ": "));
        const bool other_of_a_pair = key == "qwen3moe.expert_count" && contains(line, "qwen3moe.expert_used_count: ");
        BOOST_TEST((contains(line, key + ": ") || contains(line, ".weight: ") || other_of_a_pair));
      }
    }
  }
  BOOST_TEST(refused >= 60U);
  BOOST_TEST(harmless >= 10U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace colidrv::test
