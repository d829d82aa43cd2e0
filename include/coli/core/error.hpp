// SPDX-License-Identifier: Apache-2.0
// What went wrong, as a value: the library returns it, the driver prints it and picks the exit code.
#pragma once

#include <cassert>
#include <string>
#include <utility>
#include <variant>

namespace coli {

/// The classes of failure that a caller can act on. The driver's exit codes are these numbers.
enum class Errc : int {
  internal = 1,
  usage = 2,             // the request itself is wrong: option, prompt too long, unknown name
  unavailable = 3,       // profile or instruction set not in this build or on this machine
  over_budget = 4,       // cannot fit the memory allowed
  bad_input = 5,         // model or other input file is malformed or unsupported
  mismatch = 6,          // a check disproved something
  nothing_compared = 7,  // a check had nothing to check
  io = 8,
  interrupted = 130,
};

/// One failure. `message` is one line: what was asked, what was found, the nearest thing that works.
/// `file` and `subject` (tensor, metadata key, option) are empty where they don't apply.
struct [[nodiscard]] Error {
  Errc code = Errc::internal;
  std::string message;
  std::string subject{};
  std::string file{};

  /// The line a person reads: "file: subject: message".
  std::string line() const {
    std::string text;
    if (!file.empty()) text += file + ": ";
    if (!subject.empty()) text += subject + ": ";
    return text + message;
  }

  /// Names the file once, at the first level that knows it.
  Error in_file(std::string path) && {
    if (file.empty()) file = std::move(path);
    return std::move(*this);
  }
};

/// Either a value or an Error (std::expected is C++23). Reading the wrong one is a programming error.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  T& operator*() & { assert(has_value()); return *std::get_if<0>(&state_); }
  const T& operator*() const& { assert(has_value()); return *std::get_if<0>(&state_); }
  T&& operator*() && { assert(has_value()); return std::move(*std::get_if<0>(&state_)); }
  T* operator->() { return &**this; }
  const T* operator->() const { return &**this; }

  const Error& error() const& { assert(!has_value()); return *std::get_if<1>(&state_); }
  Error&& error() && { assert(!has_value()); return std::move(*std::get_if<1>(&state_)); }

 private:
  std::variant<T, Error> state_;
};

/// Success without a value, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), ok_(false) {}

  bool has_value() const noexcept { return ok_; }
  explicit operator bool() const noexcept { return ok_; }
  const Error& error() const& { assert(!ok_); return error_; }
  Error&& error() && { assert(!ok_); return std::move(error_); }

 private:
  Error error_{};
  bool ok_ = true;
};

}  // namespace coli

/// `COLI_TRY(header, read_header(file));` declares `header`, or returns the error.
#define COLI_TRY(name, ...)                                    \
  auto name##_or_error = (__VA_ARGS__);                        \
  if (!name##_or_error) return std::move(name##_or_error).error(); \
  auto name = std::move(*name##_or_error)

/// `COLI_CHECK(validate(x));` returns the error of a Result<void>, if there is one.
#define COLI_CHECK(...)                                                        \
  do {                                                                         \
    if (auto coli_checked = (__VA_ARGS__); !coli_checked) return std::move(coli_checked).error(); \
  } while (false)
