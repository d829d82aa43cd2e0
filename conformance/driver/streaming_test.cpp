// SPDX-License-Identifier: Apache-2.0
// Streaming from the command line: every policy by its name, the same logits, and refusals of what could not act.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "driver/json_output.hpp"
#include "process.hpp"

namespace colidrv::test {
namespace {

std::vector<std::string> run_with(const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"run", fixture("bard.gguf"), "-p", "ROMEO:", "-n", "24", "--temp", "0", "--ctx", "256", "--chunk", "32", "--threads", "2", "--quiet", "--json", "-"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

/// Is there a profile here that streams?
bool has_cpu() {
  const Json listed = Json::parse(expect_success({"profiles", "--json", "-"}).out);
  for (const Json& p : listed.at("profiles"))
    if (p.at("name") == "cpu" && p.at("available") == true) return true;
  std::printf("SKIP: the profile cpu does not run here\n");
  return false;
}

BOOST_AUTO_TEST_SUITE(streaming)

BOOST_AUTO_TEST_CASE(every_policy_streams_the_same_logits_and_says_its_name) {
  if (!has_cpu()) return;
  const Json resident = Json::parse(expect_success(run_with({"--profile", "cpu"})).out);
  // The least that is enough is in the refusal of too little.
  const Outcome refused = colidrv(run_with({"--profile", "cpu", "--memory", "1M"}));
  BOOST_REQUIRE_EQUAL(refused.code, 4);
  const std::string offer = "would work: --memory ";
  const std::size_t at = refused.err.find(offer);
  BOOST_REQUIRE(at != std::string::npos);
  const std::uint64_t least = std::stoull(refused.err.substr(at + offer.size()));
  for (const std::string policy : {"expected-use", "lru", "lfu-decay", "s3-fifo", "sieve"}) {
    // A MiB more: what a process holds at its start differs a little from run to run.
    const Json streamed = Json::parse(expect_success(run_with({"--profile", "cpu", "--evict", policy, "--memory", std::to_string(least + (1 << 20))})).out);
    BOOST_TEST(streamed.at("logits_hash") == resident.at("logits_hash"));
    BOOST_TEST(streamed.at("stats").at("cache").at("policy") == policy);
    BOOST_TEST(streamed.at("stats").at("cache").at("misses").get<std::uint64_t>() > 0U);
  }
  BOOST_TEST(resident.at("stats").at("cache").at("policy") == "expected-use");  // the default
}

BOOST_AUTO_TEST_CASE(a_policy_that_cannot_act_is_refused) {
  expect_error(run_with({"--profile", "scalar", "--evict", "sieve"}), 2, {"--evict", "'sieve'", "scalar", "one eviction policy"});
  if (!has_cpu()) return;
  expect_error(run_with({"--profile", "cpu", "--evict", "belady"}), 2, {"--evict", "'belady'", "expected-use, lru, lfu-decay, s3-fifo, sieve"});
  expect_error(run_with({"--profile", "cpu", "--evict", ""}), 2, {"--evict"});
  for (const char* store : {"memory", "mmap"}) expect_error(run_with({"--profile", "cpu", "--evict", "lru", "--store", store}), 2, {"--evict", "never act", store});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace colidrv::test
