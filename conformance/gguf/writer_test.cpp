// SPDX-License-Identifier: Apache-2.0
// Does a written file read back as it was set, byte for byte as spelled out by hand, and never stand half done?
#include "coli/gguf/writer.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <filesystem>
#include <limits>
#include <vector>

#include "expect.hpp"
#include "raw_file.hpp"
#include "temporary_folder.hpp"

namespace coli::gguf::test {
namespace {

/// No file of this process grows past `bytes` while this lives: how a write comes to fail half way.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(::rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    const ::rlimit limited{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limited);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  ::rlimit before_{};
  void (*handler_)(int) = SIG_DFL;
};

void expect_usage(const Result<void>& result, std::string_view subject, std::string_view says) {
  BOOST_TEST_REQUIRE(!result.has_value());
  BOOST_TEST((result.error().code == Errc::usage));
  BOOST_TEST(result.error().subject == subject);
  BOOST_TEST(contains(result.error().message, says), result.error().line());
}

BOOST_AUTO_TEST_SUITE(writer)

BOOST_AUTO_TEST_CASE(bytes_are_those_of_the_format) {
  Writer w;
  w.set("general.architecture", "toy");
  w.set("a.u8", std::uint8_t{200}).set("a.i8", std::int8_t{-100}).set("a.u16", std::uint16_t{60000});
  w.set("a.i16", std::int16_t{-30000}).set("a.u32", std::uint32_t{4000000000u}).set("a.i32", std::int32_t{-2000000000});
  w.set("a.u64", std::uint64_t{18000000000000000000u}).set("a.i64", std::int64_t{-9000000000000000000});
  w.set("a.f32", 1.5f).set("a.f64", -2.25).set("a.bool", true);
  w.set_strings("b.strings", {"one", "", "drei"});
  w.set_array<float>("b.floats", {0.5f, -1.0f});
  w.set_array<std::int16_t>("b.ints", {-7, 9});
  w.set_array<bool>("b.bools", {true, false});
  w.declare("plain", "F32", {8, 2}).declare("half", "F16", {3, 5}).declare("blocks", "Q8_0", {32, 2, 2});
  w.declare("last", "BF16", {16, 1, 1, 2});
  RawFile by_hand = good_file();
  by_hand.data.clear();
  BOOST_TEST((w.header() == by_hand.bytes()));
}

BOOST_AUTO_TEST_CASE(every_type_and_alignment_survives_the_round_trip) {
  const TemporaryFolder folder;
  for (const std::uint32_t alignment : {1u, 8u, 32u, 64u, 4096u}) {
    BOOST_TEST_CONTEXT("alignment " << alignment) {
      Writer w(alignment);
      w.set("general.architecture", "toy");
      w.set_strings("tokens", std::vector<std::string>{"a", "\xff\x00", "c"});
      for (const TensorType& type : kTensorTypes) {
        if (type.removed()) continue;
        w.declare(std::string("t.") + std::string(type.name), type.name, {std::uint64_t{type.values_per_block} * 2, 3});
      }
      const std::string path = folder / ("all" + std::to_string(alignment) + ".gguf");
      BOOST_TEST_REQUIRE(w.create(path).has_value());
      BOOST_TEST(!std::filesystem::exists(path));  // not before it is complete
      const std::vector<TensorInfo> declared(w.tensors().begin(), w.tensors().end());
      std::vector<std::string> data;
      for (const TensorInfo& t : declared) {
        std::string bytes(static_cast<std::size_t>(t.bytes), static_cast<char>(t.type_id + 1));
        bytes.back() = 'e';
        // in two parts
        BOOST_TEST_REQUIRE(w.write(t.name, bytes_of(bytes).first(1)).has_value());
        BOOST_TEST_REQUIRE(w.write(t.name, bytes_of(bytes).subspan(1)).has_value());
        data.push_back(std::move(bytes));
      }
      BOOST_TEST_REQUIRE(w.finish().has_value());

      const auto model = ModelFile::open(path);
      BOOST_TEST_REQUIRE(model.has_value(), (model ? "" : model.error().line()));
      BOOST_TEST(sound(*model));
      BOOST_TEST(model->shards()[0].alignment == alignment);
      BOOST_TEST(model->shards()[0].version == 3u);
      BOOST_TEST((**model->metadata().strings("tokens"))[1] == std::string_view("\xff"));  // literals end at NUL
      BOOST_TEST_REQUIRE(model->tensors().size() == declared.size());
      const std::string whole = TemporaryFolder::read(path);
      BOOST_TEST(whole.size() % alignment == 0u);
      for (std::size_t i = 0; i < declared.size(); ++i) {
        const TensorInfo& t = model->tensors()[i];
        BOOST_TEST(t.name == declared[i].name);
        BOOST_TEST(t.type == declared[i].type);
        BOOST_TEST((t.dims == declared[i].dims));
        BOOST_TEST((whole.substr(static_cast<std::size_t>(t.offset), static_cast<std::size_t>(t.bytes)) == data[i]));
      }
    }
  }
  BOOST_TEST(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 5);  // no leftovers
}

BOOST_AUTO_TEST_CASE(mistakes_are_told) {
  const TemporaryFolder folder;
  const std::string path = folder / "m.gguf";
  const auto mistake = [&](Writer w, std::string_view subject, std::string_view says) {
    expect_usage(w.create(path), subject, says);
  };
  mistake(std::move(Writer().set("k", 1u).set("k", 2u)), "k", "set twice");
  mistake(std::move(Writer().set("", 1u)), "", "empty metadata key");
  mistake(std::move(Writer().declare("t", "Q9_9", {32})), "t", "unknown tensor type \"Q9_9\"");
  mistake(std::move(Writer().declare("t", "Q4_2", {32})), "t", "unknown tensor type");
  mistake(std::move(Writer().declare("t", "Q8_0", {33})), "t", "row length 33 is not a multiple of 32");
  mistake(std::move(Writer().declare("t", "F32", {1, 1, 1, 1, 1})), "t", "at most 4 dimensions");
  mistake(std::move(Writer().declare("t", "F32", {0})), "t", "impossible shape [0]");
  mistake(std::move(Writer().declare("t", "F32", {1ull << 33, 1ull << 33})), "t", "impossible shape");
  mistake(std::move(Writer().declare("t", "F64", {1ull << 61})), "t", "impossible shape");  // values can be counted, bytes can't
  mistake(std::move(Writer().declare("t", "F32", {1}).declare("t", "F32", {1})), "t", "declared twice");
  mistake(std::move(Writer().declare("", "F32", {1})), "", "1 to 64 bytes");
  mistake(Writer(48), "", "not a power of two");
}

BOOST_AUTO_TEST_CASE(order_and_completeness_are_enforced) {
  const TemporaryFolder folder;
  const std::string path = folder / "m.gguf";
  const std::string eight(8, 'x');
  {
    Writer w;
    w.declare("a", "F32", {2}).declare("b", "F32", {2});
    expect_usage(w.write("a", bytes_of(eight)), "a", "create() comes before write()");
    expect_usage(w.finish(), "", "create() comes before finish()");
    BOOST_TEST_REQUIRE(w.create(path).has_value());
    expect_usage(w.create(path), "", "create() was called before");
    expect_usage(w.write("b", bytes_of(eight)), "b", "tensor a is next");
    expect_usage(w.write("a", bytes_of(eight + "y")), "a", "has 8 bytes, not 9");
    BOOST_TEST(w.write("a", bytes_of(eight)).has_value());
    expect_usage(w.finish(), "b", "tensor lacks data");
    BOOST_TEST(w.write("b", bytes_of(eight)).has_value());
    expect_usage(w.write("b", bytes_of(eight)), "b", "all declared tensors are written");
  }  // abandoned
  BOOST_TEST(std::filesystem::is_empty(folder.path()));
  Writer nowhere;
  const std::string bad = folder / "no/such/folder.gguf";
  expect_error(nowhere.create(bad), Errc::io, "", "cannot create: No such file or directory", bad);
}

BOOST_AUTO_TEST_CASE(a_system_that_refuses_leaves_nothing_behind) {
  const TemporaryFolder folder;
  const std::string path = folder / "m.gguf";
  std::filesystem::create_directory(path);  // a folder has the name: no file can take it
  {
    Writer w;
    w.declare("a", "F32", {2});
    BOOST_TEST_REQUIRE(w.create(path).has_value());
    BOOST_TEST_REQUIRE(w.write("a", bytes_of(std::string(8, 'x'))).has_value());
    expect_error(w.finish(), Errc::io, "", "cannot complete: Is a directory", path);
    BOOST_TEST(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  }
  BOOST_TEST_REQUIRE(std::filesystem::remove(path));
  {
    const FileSizeLimit limit(4096);
    Writer w;
    w.declare("a", "F32", {4096});
    BOOST_TEST_REQUIRE(w.create(path).has_value());
    expect_error(w.write("a", bytes_of(std::string(16384, 'x'))), Errc::io, "", "cannot write: File too large", path);
  }
  BOOST_TEST(std::filesystem::is_empty(folder.path()));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli::gguf::test
