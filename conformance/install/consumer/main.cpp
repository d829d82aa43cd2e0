// SPDX-License-Identifier: Apache-2.0
// Do the installed headers compile, link and run in a program that is not ours? In two translation units, too.
#include <cstdio>

#if __has_include(<coli/coli.hpp>)
#include <coli/coli.hpp>
#else
#include <coli/core/bytes.hpp>
#include <coli/core/error.hpp>
#endif
#include <coli/kernels/ref/matvec.hpp>

int other_unit();

int main() {
  const auto size = coli::parse_bytes("1.5G");
  if (!size || *size != coli::Bytes{1610612736}) return 1;
  std::printf("consumer: %s, %d\n", coli::to_text(*size).c_str(), other_unit());
  return other_unit() == 5 ? 0 : 1;
}
