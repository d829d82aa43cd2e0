// SPDX-License-Identifier: Apache-2.0
// Does the text of the repository keep to its rules?
#include "text_rules.hpp"

#include <boost/test/unit_test.hpp>

#include "support.hpp"

using namespace coli::structure;

BOOST_AUTO_TEST_SUITE(text)

BOOST_AUTO_TEST_CASE(top_level_holds_the_known_names) {
  check_none(stray_top_level(repository()));
  check_bites(stray_top_level(SourceTree{{}, {"include", ".gitignore", "build", "scripts"}}), "scripts: not a name");
}

BOOST_AUTO_TEST_CASE(repository_stays_small) {
  BOOST_TEST(total_bytes(repository()) < kRepositoryLimit);
  BOOST_TEST(total_bytes(repository()) > 50'000u);
}

BOOST_AUTO_TEST_CASE(library_neither_prints_nor_exits_nor_throws) {
  check_none(unruly_library_code(repository()));
  const auto plant = [](std::string line, std::string_view sentence) {
    BOOST_TEST_CONTEXT(line) {
      check_bites(unruly_library_code(with_file("include/coli/x.hpp", "#pragma once\n" + line)), sentence);
    }
  };
  plant("  std::cerr << 1;", "x.hpp:2: the library may not say std::cerr");
  plant("  if (bad) throw Oops{};", "may not say throw");
  plant("  ::exit(1);", "may not say exit(");
  plant("  std::printf(\"%d\", 1);", "may not say printf(");
  plant("using namespace std;", "may not say using namespace");
  check_bites(unruly_library_code(with_file("kernels/ref/x.hpp", "int x;\n")), "no #pragma once");
  check_none(unruly_library_code(with_file("include/coli/x.hpp",
                                           "#pragma once\n"
                                           "// never throws, never calls exit(\n"
                                           "std::snprintf(b, n, \"throw exit( std::cout\");\n"
                                           "int at_exit(int rethrown = 1'000);\n")));
}

BOOST_AUTO_TEST_CASE(every_written_file_has_its_licence_line) {
  check_none(without_licence_line(repository()));
  check_bites(without_licence_line(with_file("driver/x.cpp", "// a file\n")), "line 1 is not the SPDX line");
  check_bites(without_licence_line(with_file("driver/go", "#!/bin/sh\necho\n")), "line 2 is not the SPDX line");
}

BOOST_AUTO_TEST_CASE(no_text_names_a_machine) {
  check_none(foreign_paths(repository()));
  check_bites(foreign_paths(with_file("README.md", std::string("see /ho") + "me/me/notes")), "README.md:1: names");
  check_none(foreign_paths(with_file("README.md", "frame" "wo" "rk/ and ../shared/wo" "rk/")));
}

BOOST_AUTO_TEST_SUITE_END()
