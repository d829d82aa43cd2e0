// SPDX-License-Identifier: Apache-2.0
// Does anything grow, leak or tear? Open and close over and over, turn the cache over many times, run two engines at
// once, die in the middle of a write. COLI_SOAK=N makes everything N times as long (conformance/soak).
#include <sys/stat.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "coli/core/sha256.hpp"
#include "coli/sample/greedy.hpp"
#include "conformance/gguf/temporary_folder.hpp"
#include "driver/model_options.hpp"
#include "process.hpp"

namespace colidrv::test {
namespace {

using coli::gguf::test::TemporaryFolder;

unsigned soak() {
  const char* const times = std::getenv("COLI_SOAK");
  return times == nullptr ? 1 : static_cast<unsigned>(std::max(1, std::atoi(times)));
}

std::size_t entries(const char* folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}
std::size_t open_files() { return entries("/proc/self/fd"); }
std::size_t threads() { return entries("/proc/self/task"); }
std::uint64_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) return std::strtoull(line.c_str() + 6, nullptr, 10);
  return 0;
}

coli::Result<std::unique_ptr<Session>> open(const std::string& name, const coli::EngineOptions& options) {
  COLI_TRY(profile, find_profile("auto"));
  COLI_TRY(file, open_file(fixture(name)));
  return profile->open(std::move(file), options);
}

/// As few slots as an engine can do with.
coli::EngineOptions tight(std::uint32_t context) {
  coli::EngineOptions options;
  options.context = context, options.threads = 2, options.expert_bytes = coli::Bytes{1};
  return options;
}

/// Greedy ids from `token` on, as long as there is room; the hash of all logits.
std::string generate(Session& session, coli::TokenId token, std::uint32_t n) {
  coli::Sha256 hash;
  for (std::uint32_t i = 0; i < n; ++i) {
    const auto logits = session.step(token);
    if (!logits) return "error: " + logits.error().line();
    hash.update_values(*logits);
    token = coli::top_two(*logits)->best;
  }
  return hash.hex();
}

BOOST_AUTO_TEST_SUITE(soaking)

BOOST_AUTO_TEST_CASE(open_and_close_a_hundred_times) {
  std::size_t files = 0, tasks = 0;
  std::uint64_t resident = 0;
  std::string first;
  for (unsigned i = 0; i < 100 * soak(); ++i) {
    {
      coli::EngineOptions options;
      options.threads = 3;
      auto session = open("tiny_q4_k_m.gguf", options);
      BOOST_REQUIRE_MESSAGE(session, (session ? std::string() : session.error().line()));
      const std::string hash = generate(**session, coli::TokenId{1}, 3);
      if (first.empty()) first = hash;
      BOOST_REQUIRE_EQUAL(hash, first);
    }
    if (i == 20) files = open_files(), tasks = threads(), resident = resident_kib();
  }
  BOOST_TEST(open_files() == files);
  BOOST_TEST(threads() == tasks);
  BOOST_TEST(resident_kib() <= resident + 4096);
}

BOOST_AUTO_TEST_CASE(a_long_generation_turns_the_cache_over_and_grows_nothing) {
  auto session = open("bard.gguf", tight(256));
  BOOST_REQUIRE_MESSAGE(session, (session ? std::string() : session.error().line()));
  Session& s = **session;
  BOOST_TEST(generate(s, coli::TokenId{7}, 256).size() == 64U);
  const std::string full = generate(s, coli::TokenId{7}, 1);
  BOOST_TEST(full.find("do not fit") != std::string::npos, full);  // a full context is said, and survived
  const std::size_t files = open_files(), tasks = threads();
  const std::uint64_t resident = resident_kib();
  for (unsigned round = 0; round < 3 * soak(); ++round) {
    BOOST_REQUIRE(s.truncate(round % 2 == 0 ? 0 : 128));
    BOOST_TEST(generate(s, coli::TokenId{static_cast<std::int32_t>(round % 1000)}, 128).size() == 64U);
  }
  const coli::EngineStats stats = s.stats();
  BOOST_TEST(stats.cache.misses > 10 * stats.slots, stats.cache.misses << " misses in " << stats.slots << " slots");
  BOOST_TEST(open_files() == files);
  BOOST_TEST(threads() == tasks);
  BOOST_TEST(resident_kib() <= resident + 2048);
}

BOOST_AUTO_TEST_CASE(two_engines_at_once_share_nothing) {
  coli::EngineOptions options;
  options.threads = 2;
  const coli::EngineOptions least = tight(128);
  const auto alone = [&](const coli::EngineOptions& how, std::int32_t token) {
    auto session = open("bard.gguf", how);
    return session ? generate(**session, coli::TokenId{token}, 40) : session.error().line();
  };
  const std::string a = alone(options, 3), b = alone(least, 400);
  for (unsigned round = 0; round < soak(); ++round) {
    std::string with_a, with_b;
    {
      std::thread other([&] { with_a = alone(options, 3); });
      with_b = alone(least, 400);
      other.join();
    }
    BOOST_TEST(with_a == a);
    BOOST_TEST(with_b == b);
  }
}

// What is written appears under its name whole, or not at all: whenever the writer dies.
BOOST_AUTO_TEST_CASE(killed_in_the_middle_of_a_write_leaves_old_or_new) {
  const TemporaryFolder folder;
  std::string cases = R"({"schema":1,"cases":[)";
  for (int i = 0; i < 40; ++i) cases += (i ? "," : "") + std::string(R"({"id":"c)") + std::to_string(i) + R"(","prompt_ids":[1,2],"tokens":8})";
  cases = folder.write("k.cases.json", cases + "]}");
  const std::string old = "{\"old\": true}\n";
  struct Write {
    std::vector<std::string> arguments;
    const char* option;
  };
  const std::string model = fixture("tiny_min.gguf");
  const std::vector<Write> writes{{{"eval", model, "--cases", cases, "--report", "--quiet"}, "--json"},
                                  {{"eval", model, "--cases", cases, "--quiet"}, "--snapshot-out"},
                                  {{"run", model, "--tokens", "1,2,3", "-n", "40", "--ignore-eos", "--quiet"}, "--json"},
                                  {{"inspect", model}, "--json"}};
  for (const Write& write : writes) {
    // How long the whole takes tells where its end lies.
    const std::string target = folder / "out.json";
    std::vector<std::string> arguments = write.arguments;
    arguments.insert(arguments.end(), {write.option, target});
    folder.write("out.json", old);
    const auto start = std::chrono::steady_clock::now();
    expect_success(arguments);
    const auto whole = std::chrono::steady_clock::now() - start;
    std::size_t n_old = 0, n_new = 0;
    for (unsigned i = 0; i < 16 * soak(); ++i) {
      folder.write("out.json", old);
      Child child(arguments);
      std::this_thread::sleep_for(whole * (i % 16 + 1) / 14);
      child.signal(SIGKILL);
      (void)child.finish();
      const std::string text = TemporaryFolder::read(target);
      if (text == old) {
        ++n_old;
        continue;
      }
      ++n_new;
      BOOST_TEST(nlohmann::json::accept(text), "half a file: " << text.substr(0, 80));
      BOOST_TEST(text.ends_with("}\n"));
    }
    BOOST_TEST_MESSAGE(write.arguments[0] << " " << write.option << ": killed " << n_old + n_new << " times, " << n_old << " old, " << n_new << " new");
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace colidrv::test
