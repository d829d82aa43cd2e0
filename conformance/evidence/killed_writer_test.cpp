// SPDX-License-Identifier: Apache-2.0
// A process killed at any moment while it writes leaves the old file or the new one; of a trace, its whole tokens.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <set>
#include <string>

#include "coli/core/replace_file.hpp"
#include "coli/evidence/warm_set.hpp"
#include "coli/moe/route_trace_reader.hpp"
#include "planted_routes.hpp"

namespace coli {
namespace {

/// Runs `work` again and again in a child, and kills it some `microseconds` after it began.
void run_and_kill(::useconds_t microseconds, const std::function<void()>& work) {
  std::array<int, 2> begun{};
  BOOST_REQUIRE(::pipe(begun.data()) == 0);
  const ::pid_t child = ::fork();
  BOOST_REQUIRE(child >= 0);
  if (child == 0) {
    if (::write(begun[1], "x", 1) != 1) ::_exit(1);
    for (;;) work();
  }
  char byte = 0;
  BOOST_REQUIRE(::read(begun[0], &byte, 1) == 1);
  ::close(begun[0]), ::close(begun[1]);
  ::usleep(microseconds);
  ::kill(child, SIGKILL);
  int status = 0;
  BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
  BOOST_TEST(WIFSIGNALED(status));
}

/// Receipts, lane snapshots, reports and exports are all written by replace_file.
BOOST_AUTO_TEST_CASE(a_killed_writer_leaves_the_old_file_or_the_new) {
  const test::ScratchFolder folder;
  const std::string path = folder / "receipt.json";
  const std::set<std::string> whole{std::string(200000, 'a'), std::string(300000, 'b')};
  const auto start = std::chrono::steady_clock::now();
  BOOST_REQUIRE(replace_file(*whole.begin(), path));
  const auto once = static_cast<::useconds_t>(std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start).count());
  std::set<std::string> seen;
  std::size_t n_unfinished = 0;
  // At least so often, and until every kind of end was met: chance decides where a kill falls.
  for (unsigned round = 0; round < 30 || (round < 400 && (seen.size() < 2 || n_unfinished == 0)); ++round) {
    run_and_kill(once / 16 * (round % 64), [&] {  // from at once to after several files
      for (const std::string& text : whole) (void)replace_file(text, path);
    });
    const std::string left = test::read_bytes(path);
    BOOST_TEST(whole.contains(left), left.size() << " bytes");
    seen.insert(left);
    for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(path).parent_path())) {
      if (entry.path() == path) continue;
      if (!whole.contains(test::read_bytes(entry.path()))) ++n_unfinished;
      std::filesystem::remove(entry.path());
    }
  }
  BOOST_TEST(seen.size() == 2U);
  BOOST_TEST(n_unfinished > 0U);  // it was killed in the middle of writing, too: without the rename that would be the file
}

BOOST_AUTO_TEST_CASE(a_killed_learner_leaves_a_warm_set_that_is_read) {
  const test::ScratchFolder folder;
  const std::string model(64, 'a');
  WarmSet set(model, 8, 64);
  set.observe(std::vector<std::vector<std::uint64_t>>(8, std::vector<std::uint64_t>(64, 3)));
  BOOST_REQUIRE(set.save(folder / "w"));
  for (unsigned round = 0; round < 20; ++round) {
    run_and_kill(700 + 211 * (round % 13), [&] {
      set.observe(std::vector<std::vector<std::uint64_t>>(8, std::vector<std::uint64_t>(64, 3)));
      (void)set.save(folder / "w");
    });
    const auto left = WarmSet::load(folder / "w", model, 8, 64);
    BOOST_TEST_REQUIRE(left.has_value());
    BOOST_TEST(left->runs() >= 1U);
  }
}

BOOST_AUTO_TEST_CASE(a_killed_run_leaves_the_whole_tokens_of_its_trace) {
  const test::ScratchFolder folder;
  const RouteHeader header = test::planted_header(8, 64, 4);
  const auto tokens = test::planted_tokens(header, 1, 40);
  std::set<std::uint32_t> counts;
  for (unsigned round = 0; round < 40 || (round < 1000 && counts.size() <= 3); ++round) {
    std::filesystem::remove(folder / "t");
    run_and_kill(300 + 190 * (round % 23), [&] {
      auto writer = RouteTraceWriter::create(folder / "t", header);
      for (;;) (void)writer->append(std::span(tokens).subspan(writer->n_tokens() % 40, 1));
    });
    if (!std::filesystem::exists(folder / "t")) continue;
    auto reader = RouteTraceReader::open(folder / "t");
    if (!reader) {  // killed before the header was whole
      BOOST_TEST((reader.error().message.find("never begun") != std::string::npos || reader.error().message.find("is not a route trace") != std::string::npos), reader.error().message);
      continue;
    }
    RouteToken token;
    for (;;) {
      const auto more = reader->next(token);
      BOOST_TEST_REQUIRE(more.has_value());
      if (!*more) break;
      BOOST_TEST_REQUIRE((token.experts == tokens[(reader->n_tokens() - 1) % 40].experts));
    }
    BOOST_TEST(!reader->counted().has_value());
    counts.insert(reader->n_tokens());
  }
  BOOST_TEST(counts.size() > 3U);  // killed at different places
}

}  // namespace
}  // namespace coli
