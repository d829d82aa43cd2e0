// SPDX-License-Identifier: Apache-2.0
// Which single faults in tensor records are refused, and does each name its tensor?
#include "coli/gguf/tensor_reader.hpp"

#include <boost/test/unit_test.hpp>
#include <functional>

#include "expect.hpp"
#include "largest_allocation.hpp"
#include "raw_file.hpp"

namespace coli::gguf::test {
namespace {

/// good_file() is accepted; with `fault` applied to tensor 2 ("blocks", Q8_0 [32 x 2 x 2] at 96) it is refused.
void plant(std::string_view subject, std::string_view says, const std::function<void(RawFile&, RawTensor&)>& fault) {
  BOOST_TEST_CONTEXT("fault about '" << subject << "': " << says) {
    RawFile file = good_file();
    expect_accepted(file.bytes());
    fault(file, file.tensors[2]);
    const std::string bytes = file.bytes();
    forget_largest_allocation();
    expect_refused(bytes, subject, says);
    BOOST_TEST(largest_allocation() < 64 * 1024u);
  }
}

BOOST_AUTO_TEST_SUITE(tensor_reader)

BOOST_AUTO_TEST_CASE(records_read_as_written) {
  const std::string bytes = good_file().bytes();
  const auto model = ModelFile::parse(bytes_of(bytes), "x.gguf");
  BOOST_TEST_REQUIRE(model.has_value());
  BOOST_TEST(sound(*model));
  BOOST_TEST_REQUIRE(model->tensors().size() == 4u);
  const TensorInfo& t = model->tensors()[2];
  BOOST_TEST(t.name == "blocks");
  BOOST_TEST(t.type->name == "Q8_0");
  BOOST_TEST(t.n_dims == 3u);
  BOOST_TEST(t.shape_text() == "[32 x 2 x 2]");
  BOOST_TEST(t.bytes == 136u);
  BOOST_TEST(t.rows() == 4u);
  BOOST_TEST(t.row_bytes() == 34u);
  BOOST_TEST(t.values() == 128u);
  BOOST_TEST(t.offset == bytes.size() - 320 + 96);
  BOOST_TEST(t.file == 0u);
  BOOST_TEST(bytes.substr(static_cast<std::size_t>(t.offset), 136) == good_file().data.substr(96, 136));
  BOOST_TEST(model->tensors()[3].dims[3] == 2u);
  BOOST_TEST(model->find("half") == &model->tensors()[1]);
  BOOST_TEST(model->find("hal") == nullptr);
  BOOST_TEST(model->find("") == nullptr);
}

BOOST_AUTO_TEST_CASE(names) {
  plant("", "tensor record 2 has an empty name", [](RawFile&, RawTensor& t) { t.name = ""; });
  plant("", "tensor record 2 has a name of 65 bytes; GGUF allows 64",
        [](RawFile&, RawTensor& t) { t.name = std::string(65, 'n'); });
  plant("", "tensor record 2 has a name of 18446744073709551615 bytes",
        [](RawFile&, RawTensor& t) { t.length = ~0ull; });
  plant("a\\x00b", "control characters", [](RawFile&, RawTensor& t) { t.name = std::string("a\0b", 3); });
  plant("a\\nb", "control characters", [](RawFile&, RawTensor& t) { t.name = "a\nb"; });
  plant("\\xc0\\x80", "malformed UTF-8", [](RawFile&, RawTensor& t) { t.name = "\xc0\x80"; });
  plant("plain", "tensor is declared twice (records 0 and 2)", [](RawFile&, RawTensor& t) { t.name = "plain"; });
  RawFile file = good_file();
  file.tensors[2].name = std::string(64, 'n');
  file.tensors[1].name = "\xe5\xb1\xa4.0";
  expect_accepted(file.bytes());
}

BOOST_AUTO_TEST_CASE(types) {
  for (const std::uint32_t id : {43u, 200u, 0xFFFFFFFFu})
    plant("blocks", "unknown tensor type id " + std::to_string(id), [id](RawFile&, RawTensor& t) { t.type = id; });
  plant("blocks", "tensor type id 4 (Q4_2) was withdrawn", [](RawFile&, RawTensor& t) { t.type = 4; });
  plant("blocks", "tensor type id 31 (Q4_0_4_4) was withdrawn", [](RawFile&, RawTensor& t) { t.type = 31; });
  plant("blocks", "tensor type id 38 (IQ4_NL_8_8) was withdrawn", [](RawFile&, RawTensor& t) { t.type = 38; });
}

BOOST_AUTO_TEST_CASE(shapes) {
  using Dims = std::vector<std::uint64_t>;
  const auto dims = [](std::string_view says, Dims d) {
    plant("blocks", says, [&](RawFile&, RawTensor& t) { t.dims = d; });
  };
  dims("has 5 dimensions; at most 4", {32, 2, 2, 1, 1});
  plant("blocks", "has 4294967295 dimensions", [](RawFile&, RawTensor& t) { t.n_dims = 0xFFFFFFFFu; });
  dims("dimension 1 of [32 x 0 x 2] is zero", {32, 0, 2});
  dims("dimension 0 of [0] is zero", {0});
  dims("row length 31 is not a multiple of Q8_0's block of 32", {31, 2, 2});
  dims("row length 1 is not a multiple", {});  // a scalar has no row of blocks
  // 34 bytes a row of 32: these products wrap to something small when unchecked
  dims("has more than 2^63 - 1 values", {32, (1ull << 59) + 1, 32});
  dims("has more than 2^63 - 1 values", {1ull << 32, 1ull << 32});
  dims("has more than 2^63 - 1 values", {1ull << 63});
  dims("has more than 2^63 - 1 values", {~0ull});
  dims("has more than 2^63 - 1 values", {1ull << 31, 1ull << 31, 2, 2});
  dims("truncated or corrupt file", {32, (1ull << 42) + 1, 1});
  dims("truncated or corrupt file", {1ull << 62});
  plant("blocks", "takes more than 2^64 bytes", [](RawFile&, RawTensor& t) {
    t.type = 28;  // F64
    t.dims = {1ull << 62};
  });
  RawFile scalar = good_file();
  scalar.tensors[0].dims = {};
  expect_accepted(scalar.bytes());
}

BOOST_AUTO_TEST_CASE(places) {
  const auto offset = [](std::string_view says, std::uint64_t at) {
    plant("blocks", says, [at](RawFile&, RawTensor& t) { t.offset = at; });
  };
  offset("data offset 97 is not a multiple of the alignment 32", 97);
  offset("data offset 18446744073709551615 is not a multiple", ~0ull);
  offset("data offset 18446744073709551584 passes 64 bits", ~0ull - 31);
  offset("bytes of data end at byte", 1ull << 40);
  offset("bytes of data end at byte", 320);
  plant("blocks", "overlaps tensor half's", [](RawFile&, RawTensor& t) { t.offset = 64; });
  plant("half", "overlaps tensor blocks's", [](RawFile& f, RawTensor& t) {
    t.offset = 0;
    f.tensors[0].offset = 96;
  });
  plant("last", "overlaps tensor blocks's", [](RawFile& f, RawTensor&) { f.tensors[3].offset = 224; });
  // the whole of a small tensor inside a large one, two tensors behind its start in order
  plant("half", "overlaps tensor plain's", [](RawFile& f, RawTensor&) { f.tensors[0].dims = {8, 10}; });
  RawFile swapped = good_file();  // gaps and any order are fine
  swapped.data.append(320, 'x');
  std::swap(swapped.tensors[0].offset, swapped.tensors[3].offset);
  swapped.tensors[2].offset = 320;
  expect_accepted(swapped.bytes());
}

BOOST_AUTO_TEST_CASE(a_cut_file_is_seen_at_open) {
  const std::string whole = good_file().bytes();
  expect_refused(whole.substr(0, whole.size() - 1), "last",
                 "its 64 bytes of data end at byte " + std::to_string(whole.size()));
  expect_refused(whole.substr(0, whole.size() - 320 + 96 + 135), "blocks", "truncated or corrupt");
  RawFile ragged = good_file();  // ends in "blocks": 136 bytes, then 24 of padding
  ragged.tensors.pop_back();
  ragged.data.resize(96 + 160);
  const std::string padded = ragged.bytes();
  expect_accepted(padded);
  expect_accepted(padded.substr(0, padded.size() - 24));
  for (const std::size_t cut : {1u, 2u, 23u})
    expect_refused(padded.substr(0, padded.size() - cut), "", "ends inside the padding behind its last tensor");
  expect_refused(padded.substr(0, padded.size() - 25), "blocks", "truncated or corrupt");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli::gguf::test
