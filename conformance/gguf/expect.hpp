// SPDX-License-Identifier: Apache-2.0
// Is this file refused for that reason, and is what is accepted sound?
#pragma once

#include <boost/test/unit_test.hpp>
#include <string>
#include <string_view>

#include "coli/core/error.hpp"
#include "coli/gguf/model_file.hpp"
#include "raw_file.hpp"
#include "sound.hpp"

namespace coli::gguf::test {

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// An error of this code, about this subject, whose message says so, on one line that names the file.
template <class T>
void expect_error(const Result<T>& result, Errc code, std::string_view subject, std::string_view says,
                  std::string_view file) {
  BOOST_TEST_REQUIRE(!result.has_value());
  const Error& error = result.error();
  BOOST_TEST_INFO(error.line());
  BOOST_TEST((error.code == code));
  BOOST_TEST(error.subject == subject);
  BOOST_TEST(error.file == file);
  BOOST_TEST(contains(error.message, says), "message is: " << error.message << "\n  wanted: " << says);
  BOOST_TEST(!contains(error.line(), "\n"));
}

inline void expect_refused(std::string_view bytes, std::string_view subject, std::string_view says) {
  expect_error(ModelFile::parse(bytes_of(bytes), "x.gguf"), Errc::bad_input, subject, says, "x.gguf");
}

inline void expect_accepted(std::string_view bytes) {
  const auto model = ModelFile::parse(bytes_of(bytes), "x.gguf");
  BOOST_TEST(model.has_value(), (model ? "" : model.error().line()));
}

}  // namespace coli::gguf::test
