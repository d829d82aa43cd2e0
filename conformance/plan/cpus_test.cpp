// SPDX-License-Identifier: Apache-2.0
// How many threads are worth it, over fake machines? Affinity, hyper-threads, quotas of every ancestor.
#include <boost/test/unit_test.hpp>

#include "coli/plan/cpus.hpp"
#include "fake_root.hpp"

namespace coli::conformance {
namespace {

constexpr std::string_view kV2Mount = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";

FakeRoot& on(FakeRoot& root, const std::string& cpus) { return root.file("/proc/self/status", "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t" + cpus + "\n"); }
CpuReading cpus(const FakeRoot& root) {
  const auto reading = read_cpus(root.path());
  BOOST_REQUIRE_MESSAGE(reading, (reading ? "" : reading.error().line()));
  return *reading;
}
void refused(const FakeRoot& root, std::string_view part) {
  const auto reading = read_cpus(root.path());
  BOOST_REQUIRE(!reading);
  BOOST_CHECK(reading.error().code == Errc::bad_input);
  BOOST_CHECK_MESSAGE(reading.error().line().find(part) != std::string::npos, reading.error().line());
}

BOOST_AUTO_TEST_CASE(affinity_counts_and_hyper_threads_count_once) {
  FakeRoot root;
  BOOST_CHECK_EQUAL(cpus(on(root, "0-3,8")).cores, 5);
  BOOST_CHECK_EQUAL(cpus(on(root, "7")).cores, 1);
  // Four CPUs, two to a core; a core of the same number in another package is another core.
  on(root, "0-3");
  const auto place = [&](int cpu, int core, int package) {
    const std::string topology = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    root.file(topology + "core_id", std::to_string(core) + "\n").file(topology + "physical_package_id", std::to_string(package) + "\n");
  };
  place(0, 0, 0), place(1, 0, 0), place(2, 1, 0), place(3, 1, 0);
  BOOST_CHECK_EQUAL(cpus(root).cores, 2);
  BOOST_CHECK_EQUAL(cpus(root).source, "cores of the allowed hyper-threads");
  place(3, 1, 1);
  BOOST_CHECK_EQUAL(cpus(root).cores, 3);
}

BOOST_AUTO_TEST_CASE(the_tightest_quota_of_all_ancestors_counts) {
  FakeRoot root;
  on(root, "0-15").file("/proc/self/mountinfo", kV2Mount).file("/proc/self/cgroup", "0::/a/b\n");
  root.file("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  BOOST_CHECK_EQUAL(cpus(root).cores, 16);
  root.file("/sys/fs/cgroup/a/cpu.max", "350000 100000\n");
  BOOST_CHECK_EQUAL(cpus(root).cores, 3);
  BOOST_CHECK(cpus(root).source.ends_with("/sys/fs/cgroup/a"));
  root.file("/sys/fs/cgroup/a/b/cpu.max", "50000 100000");  // half a core is still one thread
  BOOST_CHECK_EQUAL(cpus(root).cores, 1);
  root.file("/sys/fs/cgroup/a/b/cpu.max", "9223372036854775807 1");  // more than there are
  BOOST_CHECK_EQUAL(cpus(root).cores, 3);
}

BOOST_AUTO_TEST_CASE(v1_quotas_under_any_mount_point) {
  FakeRoot root;
  on(root, "0-7").file("/proc/self/mountinfo", "40 30 0:31 /pod /somewhere/else rw - cgroup cgroup rw,cpuacct,cpu\n").file("/proc/self/cgroup", "2:cpu,cpuacct:/pod/c\n");
  root.file("/somewhere/else/c/cpu.cfs_quota_us", "-1").file("/somewhere/else/c/cpu.cfs_period_us", "100000");
  BOOST_CHECK_EQUAL(cpus(root).cores, 8);
  root.file("/somewhere/else/c/cpu.cfs_quota_us", "200000");
  BOOST_CHECK_EQUAL(cpus(root).cores, 2);
}

BOOST_AUTO_TEST_CASE(broken_figures_are_errors) {
  for (const std::string list : {"", "x", "3-1", "0-", "-1", "0,,1", "0-99999999"}) {
    FakeRoot root;
    refused(on(root, list), "CPU affinity");
  }
  FakeRoot empty;
  refused(empty, "/proc/self/status");
  for (const std::string quota : {"", "lots 100000", "0 100000", "100000 0", "100000 x", "-5 100000", "1 2 3"}) {
    FakeRoot root;
    on(root, "0").file("/proc/self/mountinfo", kV2Mount).file("/proc/self/cgroup", "0::/\n").file("/sys/fs/cgroup/cpu.max", quota);
    refused(root, "cpu.max");
  }
  FakeRoot half;
  on(half, "0").file("/proc/self/mountinfo", "40 30 0:31 / /cpu rw - cgroup cgroup rw,cpu\n").file("/proc/self/cgroup", "2:cpu:/\n").file("/cpu/cpu.cfs_quota_us", "50000");
  refused(half, "cpu.cfs_period_us");
}

BOOST_AUTO_TEST_CASE(this_machine_has_a_core) { BOOST_CHECK_GE(available_cores(), 1U); }

}  // namespace
}  // namespace coli::conformance
