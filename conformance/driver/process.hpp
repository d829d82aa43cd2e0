// SPDX-License-Identifier: Apache-2.0
// colidrv as a child process: what it prints where, and how it ends.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

extern char** environ;

namespace colidrv::test {

inline std::string fixture(std::string_view name) { return std::string(COLI_FIXTURES_DIR) + "/" + std::string(name); }

/// How a program ended. `code` is its exit code, or 128 + the signal that ended it, as a shell says it.
struct Outcome {
  int code = -1;
  bool by_signal = false;
  std::string out, err;
};

/// A pipe; ends that are still open are closed.
class Pipe {
 public:
  Pipe() { BOOST_REQUIRE(::pipe2(ends_.data(), O_CLOEXEC) == 0); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_read();
    close_write();
  }
  int read_end() const { return ends_[0]; }
  int write_end() const { return ends_[1]; }
  void close_read() { close(ends_[0]); }
  void close_write() { close(ends_[1]); }

  /// Bytes that nobody has read yet.
  int waiting() const {
    int n = 0;
    BOOST_REQUIRE(::ioctl(ends_[0], FIONREAD, &n) == 0);
    return n;
  }

 private:
  static void close(int& end) {
    if (end >= 0) ::close(std::exchange(end, -1));
  }
  std::array<int, 2> ends_{-1, -1};
};

/// One run of colidrv. Killed after five minutes: nothing here takes long, but a machine may be busy.
class Child {
 public:
  /// With `room`, standard output takes only so many bytes until somebody reads: it can't run ahead of the test. What is
  /// read first is then a filler of dots.
  explicit Child(const std::vector<std::string>& arguments, int room = 0) {
    const char* const program = COLIDRV;
    std::vector<char*> argv{const_cast<char*>(program)};
    for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    ::posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, in_.read_end(), 0);
    ::posix_spawn_file_actions_adddup2(&actions, out_.write_end(), 1);
    ::posix_spawn_file_actions_adddup2(&actions, err_.write_end(), 2);
    if (room != 0) fill_but(room);
    const int failed = ::posix_spawn(&pid_, program, &actions, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    BOOST_REQUIRE_MESSAGE(failed == 0, "cannot start " << program);
    in_.close_read();
    out_.close_write();
    err_.close_write();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }

  Pipe& out() { return out_; }
  void signal(int number) { BOOST_REQUIRE(::kill(pid_, number) == 0); }

  /// Feeds `input`, reads everything, waits for the end.
  Outcome finish(std::string_view input = {}) {
    Outcome outcome;
    ::signal(SIGPIPE, SIG_IGN);  // a child that does not read its input
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(5);
    std::array<pollfd, 3> ends{pollfd{out_.read_end(), POLLIN, 0}, pollfd{err_.read_end(), POLLIN, 0}, pollfd{in_.write_end(), POLLOUT, 0}};
    ::fcntl(in_.write_end(), F_SETFL, O_NONBLOCK);
    while (ends[0].fd >= 0 || ends[1].fd >= 0) {
      if (std::chrono::steady_clock::now() > deadline) {
        ::kill(pid_, SIGKILL);
        BOOST_FAIL("colidrv did not end");
      }
      if (ends[2].fd >= 0 && input.empty()) {
        in_.close_write();
        ends[2].fd = -1;
      }
      if (::poll(ends.data(), ends.size(), 1000) <= 0) continue;
      for (auto* text : {&outcome.out, &outcome.err}) {
        pollfd& end = ends[text == &outcome.out ? 0 : 1];
        if (end.fd < 0 || end.revents == 0) continue;
        char block[65536];
        const ssize_t n = ::read(end.fd, block, sizeof block);
        if (n > 0) text->append(block, static_cast<std::size_t>(n));
        else if (n == 0 || errno != EINTR) end.fd = -1;
      }
      if (ends[2].fd >= 0 && ends[2].revents != 0) {
        const ssize_t n = ::write(ends[2].fd, input.data(), input.size());
        if (n > 0) input.remove_prefix(static_cast<std::size_t>(n));
        else if (n < 0 && errno == EPIPE) input = {};
      }
    }
    int status = 0;
    BOOST_REQUIRE(::waitpid(std::exchange(pid_, -1), &status, 0) > 0);
    outcome.by_signal = WIFSIGNALED(status);
    outcome.code = outcome.by_signal ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return outcome;
  }

 private:
  void fill_but(int room) {
    const int capacity = ::fcntl(out_.write_end(), F_SETPIPE_SZ, 4096);
    BOOST_REQUIRE(capacity > room);
    const std::string filler(static_cast<std::size_t>(capacity - room), '.');
    BOOST_REQUIRE(::write(out_.write_end(), filler.data(), filler.size()) == static_cast<ssize_t>(filler.size()));
  }

  Pipe in_, out_, err_;
  pid_t pid_ = -1;
};

inline Outcome colidrv(const std::vector<std::string>& arguments, std::string_view input = {}) { return Child(arguments).finish(input); }

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// The last line of standard error without its line break. Requires that there is one.
inline std::string last_line(const std::string& text) {
  BOOST_TEST_REQUIRE(text.ends_with('\n'));
  const auto before = text.find_last_of('\n', text.size() - 2);
  const std::size_t from = before == std::string::npos ? 0 : before + 1;
  return text.substr(from, text.size() - 1 - from);
}

/// It ended with `code`, standard output holds nothing, standard error one line "colidrv: ..." with every one of `says`.
inline void expect_error(std::vector<std::string> arguments, int code, const std::vector<std::string>& says, std::string_view input = {}) {
  const Outcome outcome = colidrv(arguments, input);
  std::string shown;
  for (const std::string& a : arguments) shown += " '" + a + "'";
  BOOST_TEST_CONTEXT("colidrv" << shown << "\nstderr: " << outcome.err) {
    BOOST_TEST(outcome.code == code);
    BOOST_TEST(!outcome.by_signal);
    BOOST_TEST(outcome.out == "");
    BOOST_TEST_REQUIRE(!outcome.err.empty());
    const std::string line = last_line(outcome.err);
    BOOST_TEST(line.starts_with("colidrv: "));
    BOOST_TEST(line.size() < 600U);
    for (const std::string& part : says) BOOST_TEST(contains(line, part), "the line lacks: " << part);
    for (const char c : line) BOOST_TEST((static_cast<unsigned char>(c) >= 0x20 && c != 0x7F), "a control character");
    const bool has_notes = contains(outcome.err.substr(0, outcome.err.size() - line.size() - 1), "colidrv: ");
    BOOST_TEST(!has_notes, "more than one error line");
  }
}

/// It ended with 0; returns what it printed.
inline Outcome expect_success(std::vector<std::string> arguments, std::string_view input = {}) {
  Outcome outcome = colidrv(arguments, input);
  std::string shown;
  for (const std::string& a : arguments) shown += " '" + a + "'";
  BOOST_TEST_REQUIRE(outcome.code == 0, "colidrv" << shown << " ended with " << outcome.code << "\n" << outcome.err);
  return outcome;
}

}  // namespace colidrv::test
