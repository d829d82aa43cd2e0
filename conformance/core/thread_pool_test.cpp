// SPDX-License-Identifier: Apache-2.0
// Does each task run once, on one worker at a time, however many workers there are, and is its work seen afterwards?
#include "coli/core/thread_pool.hpp"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace coli {
namespace {

BOOST_AUTO_TEST_SUITE(thread_pool)

BOOST_AUTO_TEST_CASE(at_least_one_worker) {
  BOOST_TEST(ThreadPool(0).n_workers() == 1U);
  BOOST_TEST(ThreadPool(1).n_workers() == 1U);
  BOOST_TEST(ThreadPool(5).n_workers() == 5U);
}

BOOST_AUTO_TEST_CASE(run_calls_the_caller_and_each_other_worker_at_most_once) {
  for (unsigned workers = 1; workers <= 8; ++workers) {
    ThreadPool pool(workers);
    std::vector<unsigned> calls(workers);  // plain: the pool must order these accesses
    std::vector<std::thread::id> threads(workers);
    for (unsigned region = 1; region <= 100; ++region) {
      pool.run([&](unsigned worker) {
        ++calls.at(worker);
        threads[worker] = std::this_thread::get_id();
      });
      BOOST_TEST_REQUIRE(calls[0] == region);
      for (const unsigned n : calls) BOOST_TEST_REQUIRE(n <= region);
    }
    BOOST_TEST((threads[0] == std::this_thread::get_id()));  // the caller is worker 0
  }
}

// While the caller is inside, every worker comes; each is a thread of its own.
BOOST_AUTO_TEST_CASE(all_workers_come_while_there_is_time) {
  constexpr unsigned kWorkers = 5;
  ThreadPool pool(kWorkers);
  for (int region = 0; region < 20; ++region) {
    std::vector<std::thread::id> threads(kWorkers);
    std::atomic<unsigned> others{0};
    pool.run([&](unsigned worker) {
      threads[worker] = std::this_thread::get_id();
      if (worker != 0) {
        ++others;
        return;
      }
      const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (others < kWorkers - 1 && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
    });
    BOOST_TEST_REQUIRE(others == kWorkers - 1);
    for (unsigned a = 0; a < kWorkers; ++a)
      for (unsigned b = 0; b < a; ++b) BOOST_TEST((threads[a] != threads[b]));
  }
}

// What one of them began, the caller waits for.
BOOST_AUTO_TEST_CASE(run_returns_after_everybody_who_came) {
  ThreadPool pool(3);
  for (int region = 0; region < 10; ++region) {
    std::atomic<unsigned> begun{0};
    unsigned ended[3]{};
    pool.run([&](unsigned worker) {
      ++begun;
      if (worker == 0) {
        while (begun < 2) std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      ended[worker] = 1;
    });
    BOOST_TEST(ended[0] + ended[1] + ended[2] == begun.load());
  }
}

BOOST_AUTO_TEST_CASE(each_task_once_and_workers_in_range) {
  for (unsigned workers = 1; workers <= 8; ++workers) {
    ThreadPool pool(workers);
    for (const std::size_t n_tasks : {0U, 1U, 2U, 7U, 8U, 9U, 1000U}) {
      std::vector<unsigned> done(n_tasks);
      std::vector<std::size_t> of_worker(workers);
      pool.for_each(n_tasks, [&](std::size_t task, unsigned worker) {
        ++done.at(task);
        ++of_worker.at(worker);
      });
      std::size_t total = 0;
      for (const unsigned n : done) BOOST_TEST_REQUIRE(n == 1U);
      for (const std::size_t n : of_worker) total += n;
      BOOST_TEST(total == n_tasks);
    }
  }
}

// A decode step opens hundreds of small regions; what one wrote, the next reads on any worker.
BOOST_AUTO_TEST_CASE(many_small_regions_give_the_same_for_any_number_of_workers) {
  constexpr std::size_t kCells = 17;
  const auto compute = [](unsigned workers) {
    ThreadPool pool(workers);
    std::vector<std::uint64_t> cells(kCells, 1), next(kCells);
    for (std::uint64_t region = 0; region < 2000; ++region) {
      pool.for_each(kCells, [&](std::size_t i, unsigned) {
        next[i] = cells[i] * 6364136223846793005U + cells[(i + 1) % kCells] + region;
      });
      cells.swap(next);
    }
    return cells;
  };
  const auto one = compute(1);
  for (const unsigned workers : {2U, 3U, 8U}) BOOST_TEST((compute(workers) == one), workers << " workers");
}

BOOST_AUTO_TEST_CASE(workers_that_fell_asleep_wake_up) {
  ThreadPool pool(2);
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // longer than they spin
    std::atomic<bool> came{false};
    pool.run([&](unsigned worker) {
      if (worker == 1) came = true;
      const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (!came && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
    });
    BOOST_TEST(came.load());
  }
}

// The region's number wraps: no region may be lost or run twice.
BOOST_AUTO_TEST_CASE(more_regions_than_a_counter_holds) {
  ThreadPool pool(3);
  std::uint64_t sum = 0;
  std::uint64_t cells[2]{};
  for (std::uint64_t region = 0; region < 140'000; ++region) {
    pool.for_each(2, [&](std::size_t task, unsigned) { cells[task] += task + 1; });
    sum += 3;
  }
  BOOST_TEST(cells[0] + cells[1] == sum);
}

BOOST_AUTO_TEST_CASE(pools_come_and_go) {
  for (unsigned i = 0; i < 50; ++i) {
    ThreadPool unused(1 + i % 4);
    ThreadPool used(1 + i % 3);
    unsigned sum = 0;
    used.for_each(1, [&](std::size_t, unsigned worker) { sum += worker + 1; });
    BOOST_TEST(sum == 1U);
  }
}

BOOST_AUTO_TEST_CASE(two_pools_from_two_threads) {
  std::vector<std::uint64_t> sums(2);
  std::vector<std::thread> owners;
  for (std::size_t o = 0; o < 2; ++o)
    owners.emplace_back([&, o] {
      ThreadPool pool(2);
      std::vector<std::uint64_t> cells(100);
      for (std::uint64_t r = 0; r < 100; ++r) pool.for_each(cells.size(), [&](std::size_t i, unsigned) { cells[i] += i + r; });
      for (const std::uint64_t c : cells) sums[o] += c;
    });
  for (std::thread& owner : owners) owner.join();
  BOOST_TEST(sums[0] == 100U * 4950 * 2);
  BOOST_TEST(sums[1] == sums[0]);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli
