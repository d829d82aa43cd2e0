// SPDX-License-Identifier: Apache-2.0
// Cut anywhere, changed anywhere: is a file always either refused in one line or sound, without a large allocation?
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <iostream>
#include <random>
#include <string>

#include "expect.hpp"
#include "largest_allocation.hpp"
#include "raw_file.hpp"
#include "temporary_folder.hpp"

namespace coli::gguf::test {
namespace {

/// No allocation may exceed what the bytes at hand justify: a record of 25 bytes becomes about 150, growth doubles.
bool modest(std::size_t file_bytes) { return largest_allocation() <= 4096 + 16 * file_bytes; }

/// True where `bytes` was refused. Complains where it was accepted unsoundly, refused badly or cost too much.
bool refused_or_sound(std::string_view bytes, const std::string& how) {
  forget_largest_allocation();
  const auto model = ModelFile::parse(bytes_of(bytes), "x.gguf");
  if (!modest(bytes.size()))
    BOOST_ERROR(how << ": allocated " << largest_allocation() << " bytes for " << bytes.size());
  if (model) {
    if (!sound(*model) || !answers(model->metadata())) BOOST_ERROR(how << ": accepted, but not sound");
    return false;
  }
  const Error& error = model.error();
  if (error.code != Errc::bad_input || error.file != "x.gguf" || error.message.empty() || !one_line(error))
    BOOST_ERROR(how << ": " << error.line());
  return true;
}

BOOST_AUTO_TEST_SUITE(hostile)

BOOST_AUTO_TEST_CASE(the_allocation_watch_bites) {
  forget_largest_allocation();
  const std::string large(1'000'000, 'x');
  BOOST_TEST(largest_allocation() >= large.size());
  BOOST_TEST(!modest(1000));
}

BOOST_AUTO_TEST_CASE(every_cut_is_refused) {
  const std::string whole = good_file().bytes();
  for (std::size_t size = 0; size < whole.size(); ++size)
    if (!refused_or_sound(whole.substr(0, size), "cut at " + std::to_string(size)))
      BOOST_ERROR("accepted when cut at " << size);
  expect_accepted(whole);
}

BOOST_AUTO_TEST_CASE(every_cut_on_disk_is_refused) {
  const TemporaryFolder folder;
  RawFile file = good_file();
  // A header of more than two windows, so that cuts fall around their edges.
  file.set("wide", ValueType::array, raw_array(ValueType::u8, 2 * kWindowBytes, std::string(2 * kWindowBytes, 'w')));
  const std::string whole = file.bytes();
  std::vector<std::size_t> sizes{0, 1, 3, 4, 7, 8, 23, 24, whole.size() - 1, whole.size() - 64, whole.size() - 321};
  for (std::size_t edge = kWindowBytes; edge < whole.size(); edge += kWindowBytes)
    for (std::size_t near = 0; near < 20; ++near) sizes.push_back(edge - 10 + near);
  for (const std::size_t size : sizes) {
    const std::string path = folder.write("cut.gguf", std::string_view(whole).substr(0, size));
    const auto model = ModelFile::open(path);
    BOOST_TEST_REQUIRE(!model.has_value(), "cut at " << size);
    BOOST_TEST((model.error().code == Errc::bad_input));
    BOOST_TEST(model.error().file == path);
  }
  BOOST_TEST(ModelFile::open(folder.write("whole.gguf", whole)).has_value());
}

BOOST_AUTO_TEST_CASE(every_changed_byte_is_refused_or_sound) {
  const std::string whole = good_file().bytes();
  const std::size_t header = good_file().header().size();
  std::size_t refused = 0;
  std::size_t accepted = 0;
  std::string changed = whole;
  for (std::size_t at = 0; at < header; ++at) {
    const auto original = static_cast<unsigned char>(whole[at]);
    const auto set = [&](unsigned value) {
      changed[at] = static_cast<char>(value);
      const bool was = refused_or_sound(changed, "byte " + std::to_string(at) + " = " + std::to_string(value));
      ++(was ? refused : accepted);
    };
    for (unsigned bit = 0; bit < 8; ++bit) set(original ^ (1u << bit));
    for (const unsigned value : {0x00u, 0x7Fu, 0x80u, 0xFFu}) set(value);
    set(original + 1u);
    changed[at] = whole[at];
  }
  BOOST_TEST(refused > 5000u);   // lengths, types, counts, offsets
  BOOST_TEST(accepted > 1000u);  // names and values
}

BOOST_AUTO_TEST_CASE(random_damage_is_refused_or_sound) {
  const std::string whole = good_file().bytes();
  const std::size_t header = good_file().header().size();
  std::mt19937 random(2024);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  for (int round = 0; round < 20000; ++round) {
    std::string changed = whole;
    for (std::size_t faults = 1 + below(4); faults != 0; --faults) {
      const std::size_t at = below(std::min(header, changed.size()));
      switch (below(5)) {
        case 0:
          changed[at] = static_cast<char>(random());
          break;
        case 1:
          changed.erase(at, 1 + below(16));
          break;
        case 2:
          changed.insert(at, 1 + below(16), static_cast<char>(random()));
          break;
        case 3: {  // a number of 8 bytes near a power of two
          const std::uint64_t value = (std::uint64_t{1} << below(64)) + below(3) - 1;
          changed.replace(at, std::min<std::size_t>(8, changed.size() - at), raw(value));
          break;
        }
        default:
          changed.replace(at, 8, whole, below(header), 8);
      }
    }
    refused_or_sound(changed, "round " + std::to_string(round));
  }
}

BOOST_AUTO_TEST_CASE(sparse_giants_cost_nothing) {
  const TemporaryFolder folder;
  const auto open_giant = [&](const std::string& head, std::uint64_t size) -> std::optional<Result<ModelFile>> {
    const std::string path = folder.write("giant.gguf", head);
    std::error_code refused;
    std::filesystem::resize_file(path, size, refused);
    if (refused) {
      BOOST_TEST_MESSAGE("SKIP: no sparse file of " << size << " bytes here");
      return std::nullopt;
    }
    forget_largest_allocation();
    return ModelFile::open(path);
  };
  constexpr std::uint64_t kTiB = 1024 * kGiB;
  RawFile file = good_file();
  file.keys.push_back({"zz", ValueType::array, raw_array(ValueType::u8, kTiB / 2, "")});
  file.tensors.clear();
  file.data.clear();
  for (const std::uint64_t size : {kTiB, 4 * kGiB}) {
    if (auto model = open_giant(file.header(), size)) {
      BOOST_TEST_REQUIRE(!model->has_value());
      BOOST_TEST(contains(model->error().message, "array claims 549755813888 values of u8"));
      BOOST_TEST(largest_allocation() < 128 * 1024u);
    }
  }
  // a string of zeros beyond what any header needs
  file.keys.back() = {"zz", ValueType::string, raw(std::uint64_t{1} << 32)};
  if (auto model = open_giant(file.header(), kTiB)) {
    BOOST_TEST_REQUIRE(!model->has_value());
    BOOST_TEST(contains(model->error().message, "takes the header past 256.00 MiB, more than any real model has"));
    BOOST_TEST(model->error().subject == "zz");
    BOOST_TEST(largest_allocation() < 128 * 1024u);
  }
  // a real one: offsets beyond 32 bits, nothing but the header read
  RawFile wide = good_file();
  wide.tensors = {{"first", 0, {1ull << 31}, 0},
                  {"second", 0, {32}, 1ull << 33},
                  {"third", 8, {32, 1ull << 28}, (1ull << 33) + 128}};
  const std::uint64_t data_bytes = (1ull << 33) + 128 + 34 * (1ull << 28);
  wide.data.clear();
  const std::uint64_t data_offset = wide.bytes().size();
  if (auto model = open_giant(wide.bytes(), data_offset + data_bytes)) {
    BOOST_TEST_REQUIRE(model->has_value(), (*model ? "" : model->error().line()));
    BOOST_TEST(sound(**model));
    BOOST_TEST((*model)->find("second")->offset == data_offset + (1ull << 33));
    BOOST_TEST((*model)->find("third")->bytes == 34 * (1ull << 28));
    BOOST_TEST((*model)->header_bytes_read() <= kWindowBytes + 32);
  }
  if (auto model = open_giant(wide.bytes(), data_offset + data_bytes - 1)) {
    BOOST_TEST_REQUIRE(!model->has_value());
    BOOST_TEST(model->error().subject == "third");
  }
}

BOOST_AUTO_TEST_CASE(many_small_entries_stay_linear) {
  // Long common prefixes are what sorting likes least. Timed, not asserted: machines differ; a quadratic check would
  // take minutes here.
  RawFile file;
  const std::string prefix(120, 'p');
  for (std::uint64_t i = 0; i < kMaxMetadataKeys; ++i)
    file.keys.emplace_back(prefix + std::to_string((i * 2654435761u) % kMaxMetadataKeys), ValueType::u8, "v");
  const std::string keys = file.header();
  file.keys.clear();
  const std::string long_name(50, 'n');
  for (std::uint64_t i = 0; i < kMaxTensors; ++i) {
    const std::uint64_t shuffled = (i * 2654435761u) % kMaxTensors;
    file.tensors.push_back({long_name + std::to_string(shuffled), 24, {32}, shuffled * 32});
  }
  file.data = std::string(kMaxTensors * 32, 'd');
  const std::string tensors = file.bytes();
  for (const auto& [what, bytes] : {std::pair<const char*, const std::string&>{"keys", keys}, {"tensors", tensors}}) {
    const auto start = std::chrono::steady_clock::now();
    const auto model = ModelFile::parse(bytes_of(bytes), "x.gguf");
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    BOOST_TEST(model.has_value(), (model ? "" : model.error().line()));
    std::cout << "gguf: 262144 " << what << " in " << took.count() << " ms\n";
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli::gguf::test
