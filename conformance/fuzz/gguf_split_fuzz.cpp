// SPDX-License-Identifier: Apache-2.0
// Any bytes as a split set: the set opens soundly, or is refused in one line that names one of its files.
//
// Input: number of shards and the one to open, then for each shard a length of two bytes and its bytes; the last shard
// takes what is left.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "coli/gguf/model_file.hpp"
#include "conformance/gguf/sound.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace coli::gguf;
  if (size < 2) return 0;
  const std::uint32_t n_shards = 1 + data[0] % 4;
  const std::uint32_t opened = 1 + data[1] % n_shards;
  auto rest = std::as_bytes(std::span(data, size)).subspan(2);
  const SplitName name{"set", opened, n_shards};
  std::vector<MemoryFile> files;
  for (std::uint32_t shard = 1; shard <= n_shards; ++shard) {
    std::size_t length = rest.size();
    if (shard < n_shards) {
      if (rest.size() < 2) break;  // this one and the rest are missing
      length = std::to_integer<std::size_t>(rest[0]) | std::to_integer<std::size_t>(rest[1]) << 8;
      rest = rest.subspan(2);
      length = std::min(length, rest.size());
    }
    files.push_back({name.path(shard), rest.first(length)});
    rest = rest.subspan(length);
  }
  const auto model = ModelFile::parse(files, name.path(opened));
  if (model) {
    if (model->shards().size() > n_shards || !test::sound(*model)) std::abort();
  } else {
    const coli::Error& error = model.error();
    const bool missing = error.code == coli::Errc::io && files.size() < n_shards;
    if (!(error.code == coli::Errc::bad_input || missing) || !error.file.starts_with("set-") || !test::one_line(error))
      std::abort();
  }
  return 0;
}
