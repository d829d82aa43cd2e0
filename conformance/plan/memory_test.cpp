// SPDX-License-Identifier: Apache-2.0
// Is the room of a process read right, over fake machines? Every limit counts; a broken one is an error, never "none".
#include <boost/test/unit_test.hpp>

#include "coli/plan/memory.hpp"
#include "fake_root.hpp"

namespace coli::conformance {
namespace {

constexpr std::string_view kMeminfo = "MemTotal:       32000000 kB\nMemFree:         1000000 kB\nMemAvailable:   16000000 kB\n";
constexpr std::uint64_t kAvailable = 16000000ULL * 1024;
constexpr std::string_view kV2Mount = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
constexpr std::string_view kV1Mount = "40 30 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

std::uint64_t room(const FakeRoot& root) {
  const auto reading = available_memory(root.path());
  BOOST_REQUIRE_MESSAGE(reading, (reading ? "" : reading.error().line()));
  return reading->bytes.value;
}
void refused(const FakeRoot& root, std::string_view part) {
  const auto reading = available_memory(root.path());
  BOOST_REQUIRE(!reading);
  BOOST_CHECK(reading.error().code == Errc::bad_input);
  BOOST_CHECK_MESSAGE(reading.error().line().find(part) != std::string::npos, reading.error().line());
}

BOOST_AUTO_TEST_CASE(without_cgroups_the_host_counts) {
  FakeRoot root;
  root.file("/proc/meminfo", kMeminfo);
  BOOST_CHECK_EQUAL(room(root), kAvailable);
  BOOST_CHECK_EQUAL(available_memory(root.path())->source, "MemAvailable");
}

BOOST_AUTO_TEST_CASE(v2_takes_the_tightest_ancestor_and_spares_reclaimable_cache) {
  FakeRoot root;
  root.file("/proc/meminfo", kMeminfo).file("/proc/self/mountinfo", kV2Mount).file("/proc/self/cgroup", "0::/a/b\n");
  root.file("/sys/fs/cgroup/a/b/memory.max", "max\n").file("/sys/fs/cgroup/a/b/memory.current", "5000\n");
  BOOST_CHECK_EQUAL(room(root), kAvailable);
  root.file("/sys/fs/cgroup/a/memory.max", "1000000\n").file("/sys/fs/cgroup/a/memory.current", "900000\n");
  BOOST_CHECK_EQUAL(room(root), 100000);
  root.file("/sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 800000\nactive_file 7\n");
  BOOST_CHECK_EQUAL(room(root), 900000);
  root.file("/sys/fs/cgroup/a/b/memory.max", "600000");
  BOOST_CHECK_EQUAL(room(root), 595000);
  BOOST_CHECK(available_memory(root.path())->source.ends_with("/sys/fs/cgroup/a/b"));
  root.file("/sys/fs/cgroup/a/b/memory.max", "0");  // zero is a limit
  BOOST_CHECK_EQUAL(room(root), 0);
}

BOOST_AUTO_TEST_CASE(v1_knows_its_own_word_for_unlimited) {
  FakeRoot root;
  root.file("/proc/meminfo", kMeminfo).file("/proc/self/mountinfo", kV1Mount).file("/proc/self/cgroup", "9:cpu,cpuacct:/x\n4:memory:/jobs/j1\n0::/other\n");
  root.file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712").file("/sys/fs/cgroup/memory/memory.usage_in_bytes", "123");
  BOOST_CHECK_EQUAL(room(root), kAvailable);
  root.file("/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "500000").file("/sys/fs/cgroup/memory/jobs/memory.usage_in_bytes", "450000");
  root.file("/sys/fs/cgroup/memory/jobs/memory.stat", "inactive_file 1\ntotal_inactive_file 50000\n");
  BOOST_CHECK_EQUAL(room(root), 100000);
}

BOOST_AUTO_TEST_CASE(hybrid_hosts_take_the_tighter_tree) {
  FakeRoot root;
  root.file("/proc/meminfo", kMeminfo)
      .file("/proc/self/mountinfo", std::string(kV1Mount) + "41 30 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n")
      .file("/proc/self/cgroup", "4:memory:/m\n0::/u\n");
  root.file("/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "3000").file("/sys/fs/cgroup/memory/m/memory.usage_in_bytes", "0");
  root.file("/sys/fs/cgroup/unified/u/memory.max", "2000").file("/sys/fs/cgroup/unified/u/memory.current", "0");
  BOOST_CHECK_EQUAL(room(root), 2000);
}

BOOST_AUTO_TEST_CASE(mount_roots_and_octal_escapes_are_resolved) {
  FakeRoot root;
  root.file("/proc/meminfo", kMeminfo)
      .file("/proc/self/mountinfo", "30 23 0:26 /docker/abc /sys/fs/my\\040cgroup rw - cgroup2 cgroup2 rw\n")
      .file("/proc/self/cgroup", "0::/docker/abc/inner\n");
  root.file("/sys/fs/my cgroup/inner/memory.max", "7000").file("/sys/fs/my cgroup/inner/memory.current", "1000");
  BOOST_CHECK_EQUAL(room(root), 6000);
  root.file("/proc/self/cgroup", "0::/docker/abcdef\n");  // a sibling, not a child
  refused(root, "hidden");
}

BOOST_AUTO_TEST_CASE(v2_counts_the_limit_that_slows_down) {
  FakeRoot root;
  root.file("/proc/meminfo", kMeminfo).file("/proc/self/mountinfo", kV2Mount).file("/proc/self/cgroup", "0::/a\n");
  root.file("/sys/fs/cgroup/a/memory.max", "9000").file("/sys/fs/cgroup/a/memory.high", "8000").file("/sys/fs/cgroup/a/memory.current", "1000");
  BOOST_CHECK_EQUAL(room(root), 7000);
  root.file("/sys/fs/cgroup/a/memory.high", "max");
  BOOST_CHECK_EQUAL(room(root), 8000);
  root.file("/sys/fs/cgroup/a/memory.max", "max").file("/sys/fs/cgroup/a/memory.high", "6000");
  BOOST_CHECK_EQUAL(room(root), 5000);
}

BOOST_AUTO_TEST_CASE(usage_beyond_the_limit_leaves_nothing) {
  FakeRoot root;
  root.file("/proc/meminfo", kMeminfo).file("/proc/self/mountinfo", kV2Mount).file("/proc/self/cgroup", "0::/a\n");
  root.file("/sys/fs/cgroup/a/memory.max", "100").file("/sys/fs/cgroup/a/memory.current", "5000");
  BOOST_CHECK_EQUAL(room(root), 0);
  root.file("/sys/fs/cgroup/a/memory.stat", "inactive_file 999999\n");  // counters are not read at one instant
  BOOST_CHECK_EQUAL(room(root), 100);
}

BOOST_AUTO_TEST_CASE(one_mount_that_covers_the_process_is_enough) {
  // A container's own part of the tree, and a bind mount of somebody else's.
  FakeRoot root;
  root.file("/proc/meminfo", kMeminfo)
      .file("/proc/self/mountinfo", "30 23 0:26 /other /elsewhere rw - cgroup2 cgroup2 rw\n31 23 0:26 /pod/me /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
      .file("/proc/self/cgroup", "0::/pod/me\n");
  root.file("/elsewhere/memory.max", "1").file("/elsewhere/memory.current", "1");
  root.file("/sys/fs/cgroup/memory.max", "3000").file("/sys/fs/cgroup/memory.current", "1000");
  BOOST_CHECK_EQUAL(room(root), 2000);
  root.file("/proc/self/cgroup", "0::/../sibling\n");  // outside of this cgroup namespace
  refused(root, "hidden");
}

BOOST_AUTO_TEST_CASE(a_hierarchy_without_the_process_or_the_controller_limits_nothing) {
  FakeRoot root;
  root.file("/proc/meminfo", kMeminfo)
      .file("/proc/self/mountinfo", "40 30 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n41 30 0:32 / /sys/fs/cgroup/memoryx rw - cgroup cgroup rw,memoryx\n")
      .file("/proc/self/cgroup", "3:cpu,cpuacct:/x\n");
  root.file("/sys/fs/cgroup/cpu/x/memory.limit_in_bytes", "1").file("/sys/fs/cgroup/memoryx/x/memory.limit_in_bytes", "1");
  BOOST_CHECK_EQUAL(room(root), kAvailable);
}

BOOST_AUTO_TEST_CASE(limits_of_the_process_count) {
  constexpr std::string_view kLimits =
      "Limit                     Soft Limit           Hard Limit           Units     \n"
      "Max data size             unlimited            unlimited            bytes     \n"
      "Max locked memory         8388608              8388608              bytes     \n"
      "Max address space         4000000              unlimited            bytes     \n";
  FakeRoot root;
  root.file("/proc/meminfo", kMeminfo).file("/proc/self/limits", kLimits).file("/proc/self/status", "Name:\tx\nVmSize:\t    1000 kB\nVmData:\t 500 kB\n");
  BOOST_CHECK_EQUAL(room(root), 4000000 - 1000 * 1024);
  BOOST_CHECK_EQUAL(available_memory(root.path())->source, "RLIMIT_AS");
  BOOST_CHECK_EQUAL((*process_limit("Max locked memory", root.path()))->value, 8388608);
  BOOST_CHECK(!*process_limit("Max data size", root.path()));
  root.file("/proc/self/limits", "Max data size             600000               unlimited            bytes     \n");
  BOOST_CHECK_EQUAL(room(root), 600000 - 500 * 1024);
  root.file("/proc/self/status", "Name:\tx\n");
  refused(root, "VmData");
  root.file("/proc/self/status", "VmData:\tmany kB\n");
  refused(root, "VmData");
  for (const std::string_view bad : {"Max address space         -5                   unlimited            bytes", "Max address space         5                    unlimited            pages", "Max address space"}) {
    root.file("/proc/self/limits", bad);
    refused(root, "Max address space");
  }
}

BOOST_AUTO_TEST_CASE(what_cannot_be_read_is_an_error) {
  // A directory in a file's place cannot be read, even by root.
  const auto machine = [](FakeRoot& root) {
    root.file("/proc/meminfo", kMeminfo).file("/proc/self/mountinfo", kV2Mount).file("/proc/self/cgroup", "0::/a\n");
    root.file("/sys/fs/cgroup/a/memory.max", "5").file("/sys/fs/cgroup/a/memory.current", "5").file("/sys/fs/cgroup/a/memory.stat", "inactive_file 0");
  };
  for (const std::string file : {"/sys/fs/cgroup/a/memory.max", "/sys/fs/cgroup/a/memory.current", "/sys/fs/cgroup/a/memory.stat", "/sys/fs/cgroup/a/memory.high",
                                 "/proc/self/mountinfo", "/proc/self/cgroup", "/proc/self/limits", "/proc/meminfo"}) {
    FakeRoot root;
    machine(root);
    std::filesystem::remove(root.path() + file);
    root.file(file + "/inside", "");
    refused(root, file);
  }
}

BOOST_AUTO_TEST_CASE(broken_mount_tables_are_errors) {
  for (const std::string_view mounts : {"30 23 0:26 / /sys/fs/cgroup rw cgroup2", "30 23 0:26 - cgroup2 cgroup2 rw\n"}) {
    FakeRoot root;
    root.file("/proc/meminfo", kMeminfo).file("/proc/self/mountinfo", mounts).file("/proc/self/cgroup", "0::/a\n");
    refused(root, "mountinfo");
  }
}

BOOST_AUTO_TEST_CASE(broken_limits_are_errors) {
  const auto machine = [](FakeRoot& root) -> FakeRoot& {
    return root.file("/proc/meminfo", kMeminfo).file("/proc/self/mountinfo", kV2Mount).file("/proc/self/cgroup", "0::/a\n").file("/sys/fs/cgroup/a/memory.current", "5");
  };
  for (const std::string_view limit : {"", "12x", "-1", "99999999999999999999999", "MAX", "1 2"}) {
    FakeRoot root;
    machine(root).file("/sys/fs/cgroup/a/memory.max", limit);
    refused(root, "memory.max");
  }
  for (const std::string_view meminfo : {"MemAvailable: 5\n", "MemAvailable: x kB\n", "MemAvailable: 99999999999999999999 kB\n", "MemAvailable: 18446744073709551615 kB\n", "MemAvailable:\n"}) {
    FakeRoot root;
    root.file("/proc/meminfo", meminfo);
    refused(root, "MemAvailable");
  }
  FakeRoot v1;
  v1.file("/proc/meminfo", kMeminfo).file("/proc/self/mountinfo", kV1Mount).file("/proc/self/cgroup", "4:memory:/a\n");
  v1.file("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "max").file("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "1");
  refused(v1, "memory.limit_in_bytes");  // v1 has no such word
  FakeRoot half;
  half.file("/proc/meminfo", kMeminfo).file("/proc/self/mountinfo", kV2Mount).file("/proc/self/cgroup", "0::/a\n").file("/sys/fs/cgroup/a/memory.max", "5");
  refused(half, "memory.current");
  FakeRoot usage;
  machine(usage).file("/sys/fs/cgroup/a/memory.max", "5").file("/sys/fs/cgroup/a/memory.current", "five");
  refused(usage, "memory.current");
  FakeRoot stat;
  machine(stat).file("/sys/fs/cgroup/a/memory.max", "5").file("/sys/fs/cgroup/a/memory.stat", "inactive_file lots\n");
  refused(stat, "inactive_file");
  FakeRoot no_membership;
  no_membership.file("/proc/meminfo", kMeminfo).file("/proc/self/mountinfo", kV2Mount);
  refused(no_membership, "/proc/self/cgroup");
  FakeRoot no_available;
  no_available.file("/proc/meminfo", "MemTotal: 5 kB\n");
  refused(no_available, "MemAvailable");
  FakeRoot empty;
  refused(empty, "/proc/meminfo");
}

}  // namespace
}  // namespace coli::conformance
