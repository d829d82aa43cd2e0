// SPDX-License-Identifier: Apache-2.0
// Ends the test program, with words, when something hangs.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace coli::conformance {

class Watchdog {
 public:
  explicit Watchdog(std::string what, std::chrono::seconds patience = std::chrono::seconds(120))
      : thread_([this, what = std::move(what), patience] {
          std::unique_lock lock(mutex_);
          if (done_.wait_for(lock, patience, [this] { return finished_; })) return;
          std::fprintf(stderr, "HANGS: %s\n", what.c_str());
          std::abort();
        }) {}
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      finished_ = true;
    }
    done_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  bool finished_ = false;
  std::thread thread_;
};

}  // namespace coli::conformance
