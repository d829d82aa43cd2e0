// SPDX-License-Identifier: Apache-2.0
// A memory limit is in force or refused, never only said.
#include "coli/evidence/limited_group.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "coli/evidence/arm_process.hpp"
#include "planted_routes.hpp"

namespace coli {
namespace {

BOOST_AUTO_TEST_CASE(where_nothing_would_be_limited_a_limit_is_refused) {
  const test::ScratchFolder folder;
  for (const std::string& root : {folder / "none", folder / "plain", folder / "v1"}) {
    if (!root.ends_with("none")) std::filesystem::create_directories(root + "/memory");
    if (root.ends_with("v1")) test::write_bytes(root + "/memory/memory.limit_in_bytes", "1");
    const auto made = LimitedGroup::create(Bytes{kMiB}, root);
    BOOST_REQUIRE(!made);
    BOOST_TEST((made.error().code == Errc::unavailable));
    BOOST_TEST(made.error().subject == "memory_limit");
    std::error_code none;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root, none)) BOOST_TEST(entry.path().string().find("coli-experiment") == std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(a_limit_in_force_may_be_rounded_and_nothing_else) {
  BOOST_TEST(is_limit_in_force(Bytes{10000000}, 10000000));
  BOOST_TEST(is_limit_in_force(Bytes{10000000}, 9998336));  // whole pages
  BOOST_TEST(!is_limit_in_force(Bytes{10000000}, 10000001));
  BOOST_TEST(!is_limit_in_force(Bytes{10000000}, 9000000));
  BOOST_TEST(!is_limit_in_force(Bytes{10000000}, 0));
}

BOOST_AUTO_TEST_CASE(a_program_in_the_group_gets_no_more) {
  const test::ScratchFolder folder;
  if (auto made = LimitedGroup::create(Bytes{kMiB}); !made) {
    std::printf("SKIP: %s\n", made.error().line().c_str());
    return;
  }
  // tail holds what it is given, which has no line's end.
  const std::vector<std::string> hoard{"-c", "cat /proc/self/cgroup > '" + (folder / "groups") + "'; head -c 64M /dev/zero | tail > /dev/null"};
  for (const std::uint64_t mib : {256U, 16U}) {
    auto group = LimitedGroup::create(Bytes{mib * kMiB});
    BOOST_REQUIRE(group);
    int exit_code = -1;
    BOOST_REQUIRE(run_program("/bin/sh", hoard, &*group, exit_code));
    BOOST_TEST((exit_code == 0) == (mib == 256), "a limit of " << mib << " MiB ended it with " << exit_code);
    BOOST_TEST(test::read_bytes(folder / "groups").find("coli-experiment-") != std::string::npos);
    const auto usage = group->usage();
    BOOST_TEST(usage["limit_bytes"] == mib * kMiB);
    if (usage["peak_bytes"].is_null()) continue;
    BOOST_TEST(usage["peak_bytes"] <= mib * kMiB);
    BOOST_TEST(usage["peak_bytes"] > (mib == 256 ? 60 * kMiB : 8 * kMiB));
  }
  auto again = LimitedGroup::create(Bytes{kMiB});  // the ones before are gone
  BOOST_TEST(again.has_value());
}

}  // namespace
}  // namespace coli
