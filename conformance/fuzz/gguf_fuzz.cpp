// SPDX-License-Identifier: Apache-2.0
// Any bytes as a GGUF file: refused in one line, or sound. Seeds are small valid files, so that mutations reach deep.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "coli/gguf/model_file.hpp"
#include "conformance/gguf/sound.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace coli::gguf;
  const auto model = ModelFile::parse(std::as_bytes(std::span(data, size)), "fuzz.gguf");
  if (model) {
    if (!test::sound(*model) || !test::answers(model->metadata())) std::abort();
  } else {
    const coli::Error& error = model.error();
    if (error.code != coli::Errc::bad_input || error.file != "fuzz.gguf" || !test::one_line(error)) std::abort();
  }
  return 0;
}
