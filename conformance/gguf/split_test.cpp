// SPDX-License-Identifier: Apache-2.0
// Does any shard open its whole set, and is every set that does not belong together refused with the culprit's name?
#include "coli/gguf/split.hpp"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <functional>
#include <map>

#include "expect.hpp"
#include "raw_file.hpp"
#include "temporary_folder.hpp"

namespace coli::gguf::test {
namespace {

/// Three shards: no tensors, two, one; metadata in the first; data sections of their own.
std::vector<RawFile> good_set() {
  std::vector<RawFile> set(3);
  for (std::size_t i = 0; i < set.size(); ++i) {
    set[i].set("split.no", ValueType::u16, raw(static_cast<std::uint16_t>(i)));
    set[i].set("split.count", ValueType::u16, raw(std::uint16_t{3}));
    set[i].set("split.tensors.count", ValueType::i32, raw(std::int32_t{3}));
  }
  set[0].set("general.architecture", ValueType::string, raw("toy"));
  set[1].tensors = {{"one", 0, {8}, 0}, {"two", 0, {8}, 32}};
  set[1].data = std::string(64, '1');
  set[2].tensors = {{"three", 0, {16}, 0}};
  set[2].data = std::string(64, '2');
  return set;
}

std::string shard_name(std::size_t number, std::size_t count = 3) {
  return SplitName{"m", 0, static_cast<std::uint32_t>(count)}.path(static_cast<std::uint32_t>(number));
}

/// The set in memory; shards whose file is empty are missing.
struct MemorySet {
  std::map<std::string, std::string> files;
  explicit MemorySet(const std::vector<RawFile>& set) {
    for (std::size_t i = 0; i < set.size(); ++i) files[shard_name(i + 1)] = set[i].bytes();
  }
  Result<ModelFile> open(const std::string& path) const {
    std::vector<MemoryFile> all;
    for (const auto& [name, bytes] : files) all.push_back({name, bytes_of(bytes)});
    return ModelFile::parse(all, path);
  }
};

/// Whichever shard is opened, the broken set is refused for this reason; the good one is not.
void plant(const std::string& file, std::string_view subject, std::string_view says, Errc code,
           const std::function<void(std::map<std::string, std::string>&, std::vector<RawFile>&)>& fault) {
  BOOST_TEST_CONTEXT("fault about " << file << " '" << subject << "': " << says) {
    MemorySet set(good_set());
    for (std::size_t i = 1; i <= 3; ++i) BOOST_TEST(set.open(shard_name(i)).has_value());
    std::vector<RawFile> broken = good_set();
    std::map<std::string, std::string> changed;
    fault(changed, broken);
    set = MemorySet(broken);
    for (auto& [name, bytes] : changed) {
      if (bytes == "missing")
        set.files.erase(name);
      else
        set.files[name] = bytes;
    }
    for (std::size_t i = 1; i <= 3; ++i)
      if (set.files.contains(shard_name(i))) expect_error(set.open(shard_name(i)), code, subject, says, file);
  }
}

BOOST_AUTO_TEST_SUITE(split)

BOOST_AUTO_TEST_CASE(names) {
  const auto name = parse_split_name("dir.gguf/m-x-00002-of-00010.gguf");
  BOOST_TEST_REQUIRE(name.has_value());
  BOOST_TEST(name->prefix == "dir.gguf/m-x");
  BOOST_TEST(name->number == 2u);
  BOOST_TEST(name->count == 10u);
  BOOST_TEST(name->path(10) == "dir.gguf/m-x-00010-of-00010.gguf");
  BOOST_TEST(parse_split_name("-00001-of-00001.gguf").has_value());
  for (const char* other :
       {"m.gguf", "", ".gguf", "m-00001-of-0002.gguf", "m-0001-of-00002.gguf", "m-00001-of-00002.GGUF",
        "m-00001-of-00002", "m-00001-of-00002.gguf.part", "m-00001_of_00002.gguf", "m-+0001-of-00002.gguf",
        "m-0000x-of-00002.gguf", "m00001-of-00002.gguf", "m-00001-of--0002.gguf"})
    BOOST_TEST(!parse_split_name(other).has_value(), other);
}

BOOST_AUTO_TEST_CASE(any_shard_opens_the_set) {
  const MemorySet set(good_set());
  for (std::size_t i = 1; i <= 3; ++i) {
    const auto model = set.open(shard_name(i));
    BOOST_TEST_REQUIRE(model.has_value(), (model ? "" : model.error().line()));
    BOOST_TEST(sound(*model));
    BOOST_TEST(*model->metadata().get<std::string_view>("general.architecture") == "toy");
    BOOST_TEST_REQUIRE(model->shards().size() == 3u);
    for (std::size_t s = 0; s < 3; ++s) {
      BOOST_TEST(model->shards()[s].path == shard_name(s + 1));
      BOOST_TEST(model->shards()[s].size == set.files.at(shard_name(s + 1)).size());
      BOOST_TEST(model->shards()[s].memory.size() == model->shards()[s].size);
    }
    BOOST_TEST_REQUIRE(model->tensors().size() == 3u);
    BOOST_TEST(model->tensors()[0].name == "one");
    BOOST_TEST(model->tensors()[2].name == "three");
    for (const auto& [name, file, fill] : {std::tuple{"one", 1u, '1'}, {"two", 1u, '1'}, {"three", 2u, '2'}}) {
      const TensorInfo* t = model->find(name);
      BOOST_TEST_REQUIRE(t != nullptr);
      BOOST_TEST(t->file == file);
      const auto shard = model->shards()[t->file].memory;
      BOOST_TEST(static_cast<char>(shard[static_cast<std::size_t>(t->offset)]) == fill);
      BOOST_TEST(t->offset >= model->shards()[t->file].data_offset);
    }
  }
}

BOOST_AUTO_TEST_CASE(sets_on_disk_open_from_any_shard) {
  const TemporaryFolder folder;
  const MemorySet set(good_set());
  for (const auto& [name, bytes] : set.files) folder.write(name, bytes);
  for (std::size_t i = 1; i <= 3; ++i) {
    const auto model = ModelFile::open(folder / shard_name(i));
    BOOST_TEST_REQUIRE(model.has_value(), (model ? "" : model.error().line()));
    BOOST_TEST(model->tensors().size() == 3u);
    BOOST_TEST(model->shards()[2].path == folder / shard_name(3));
    BOOST_TEST(model->shards()[0].memory.empty());
  }
  // Links keep the names, whatever they point to.
  std::filesystem::create_directory(folder / "blobs");
  std::filesystem::create_directory(folder / "links");
  for (const auto& [name, bytes] : set.files) {
    std::filesystem::rename(folder / name, folder / "blobs/" + name + ".blob");
    std::filesystem::create_symlink(folder / "blobs/" + name + ".blob", folder / "links/" + name);
  }
  BOOST_TEST(ModelFile::open(folder / "links/" + shard_name(2)).has_value());
  std::filesystem::remove(folder / "blobs/" + shard_name(3) + ".blob");
  expect_error(ModelFile::open(folder / "links/" + shard_name(2)), Errc::io, "", "shard 3 of 3 is missing",
               folder / "links/" + shard_name(3));
}

BOOST_AUTO_TEST_CASE(missing_and_foreign_shards) {
  plant(shard_name(2), "", "shard 2 of 3 is missing", Errc::io,
        [](auto& files, auto&) { files[shard_name(2)] = "missing"; });
  plant(shard_name(1), "", "shard 1 of 3 is missing", Errc::io,
        [](auto& files, auto&) { files[shard_name(1)] = "missing"; });
  plant(shard_name(3), "", "shard 3 of 3 is missing", Errc::io,
        [](auto& files, auto&) { files[shard_name(3)] = "missing"; });
  plant(shard_name(2), "", "not a GGUF file: it starts with \"some\"", Errc::bad_input,
        [](auto& files, auto&) { files[shard_name(2)] = "some text"; });
  plant(shard_name(3), "three", "truncated or corrupt", Errc::bad_input,
        [](auto&, auto& set) { set[2].data.resize(60); });
  plant(shard_name(2), "split.count", "the name says shard 2 of 3, but the file is not part of a split set",
        Errc::bad_input, [](auto& files, auto&) { files[shard_name(2)] = good_file().bytes(); });
  plant(shard_name(2), "", "a second GGUF file begins at byte", Errc::bad_input,
        [](auto& files, auto& set) { files[shard_name(2)] = set[1].bytes() + set[2].bytes(); });
}

BOOST_AUTO_TEST_CASE(shards_that_disagree) {
  plant(shard_name(2), "split.no", "the name says shard 2 of 3, but the file is shard 1 of 3: wrong file in the set",
        Errc::bad_input, [](auto&, auto& set) { set[1].set("split.no", ValueType::u16, raw(std::uint16_t{0})); });
  plant(shard_name(3), "split.no", "but the file is shard 3 of 4", Errc::bad_input,
        [](auto&, auto& set) { set[2].set("split.count", ValueType::u16, raw(std::uint16_t{4})); });
  plant(shard_name(2), "one", "tensor is also in " + shard_name(1), Errc::bad_input, [](auto&, auto& set) {
    set[0].tensors = {{"one", 0, {8}, 0}};
    set[0].data = std::string(32, '0');
    set[1].tensors[1].name = "one and a half";
    for (RawFile& file : set) file.set("split.tensors.count", ValueType::i32, raw(std::int32_t{4}));
  });
  plant(shard_name(1), "split.tensors.count", "the set should have 4 tensors, but its shards hold 3", Errc::bad_input,
        [](auto&, auto& set) {
          for (RawFile& file : set) file.set("split.tensors.count", ValueType::i32, raw(std::int32_t{4}));
        });
  // Which of two disagreeing shards is named depends on the order of reading; that one is, does not.
  for (std::size_t opened = 1; opened <= 3; ++opened) {
    std::vector<RawFile> set = good_set();
    set[2].set("split.tensors.count", ValueType::i32, raw(std::int32_t{30}));
    const auto model = MemorySet(set).open(shard_name(opened));
    BOOST_TEST_REQUIRE(!model.has_value());
    BOOST_TEST(model.error().subject == "split.tensors.count");
    BOOST_TEST(contains(model.error().message, "wrong file in the set"));
  }
}

BOOST_AUTO_TEST_CASE(split_keys) {
  const auto key = [](std::string_view subject, std::string_view says, std::string_view name, ValueType type,
                      std::string value) {
    plant(shard_name(2), subject, says, Errc::bad_input, [&](auto&, auto& set) { set[1].set(name, type, value); });
  };
  key("split.no", "3 is not below split.count 3", "split.no", ValueType::u16, raw(std::uint16_t{3}));
  key("split.no", "expected u32, found i16 -1, which is out of range", "split.no", ValueType::i16,
      raw(std::int16_t{-1}));
  key("split.no", "expected u32, found string", "split.no", ValueType::string, raw("1"));
  key("split.count", "expected u32, found string \"3\"", "split.count", ValueType::string, raw("3"));
  key("split.count", "expected u32, found i32 -3", "split.count", ValueType::i32, raw(std::int32_t{-3}));
  key("split.count", "100000 shards cannot be named", "split.count", ValueType::u32, raw(std::uint32_t{100000}));
  key("split.tensors.count", "expected u64, found i32 -1", "split.tensors.count", ValueType::i32,
      raw(std::int32_t{-1}));
  key("split.tensors.count", "expected u64, found f32 3", "split.tensors.count", ValueType::f32, raw(3.0f));
  plant(shard_name(3), "split.no", "required metadata key is missing (expected u32)", Errc::bad_input,
        [](auto&, auto& set) { std::erase_if(set[2].keys, [](const RawKey& k) { return k.key == "split.no"; }); });
  plant(shard_name(1), "split.tensors.count", "required metadata key is missing (expected u64)", Errc::bad_input,
        [](auto&, auto& set) {
          for (RawFile& file : set)
            std::erase_if(file.keys, [](const RawKey& k) { return k.key == "split.tensors.count"; });
        });
  plant(shard_name(2), "general.split_count", "split with the keys that GGUF had before", Errc::bad_input,
        [](auto&, auto& set) {
          set[1].keys.clear();
          set[1].set("general.split_count", ValueType::u16, raw(std::uint16_t{3}));
        });
  // any integer width; later shards need not repeat the total
  std::vector<RawFile> set = good_set();
  set[1].set("split.no", ValueType::i64, raw(std::int64_t{1}));
  set[1].set("split.count", ValueType::u8, raw(std::uint8_t{3}));
  std::erase_if(set[2].keys, [](const RawKey& k) { return k.key == "split.tensors.count"; });
  for (std::size_t i = 1; i <= 3; ++i) BOOST_TEST(MemorySet(set).open(shard_name(i)).has_value());
}

BOOST_AUTO_TEST_CASE(names_that_do_not_fit) {
  const std::vector<RawFile> set = good_set();
  const auto open_as = [](const RawFile& file, const std::string& name) {
    static std::string bytes;  // outlives the call
    bytes = file.bytes();
    return ModelFile::parse(bytes_of(bytes), name);
  };
  expect_error(open_as(set[1], "renamed.gguf"), Errc::bad_input, "split.count",
               "this is shard 2 of 3, but its name does not end in", "renamed.gguf");
  const std::string joined = set[1].bytes() + set[2].bytes();
  expect_error(ModelFile::parse(bytes_of(joined), "joined.gguf"), Errc::bad_input, "", "shards joined with cat",
               "joined.gguf");
  for (const std::string name : {"m-00000-of-00003.gguf", "m-00004-of-00003.gguf", "m-00002-of-00004.gguf"})
    expect_error(open_as(set[1], name), Errc::bad_input, "split.no", "wrong file in the set", name);
  expect_error(open_as(good_file(), "m-00001-of-00002.gguf"), Errc::bad_input, "split.count", "not part of a split set",
               "m-00001-of-00002.gguf");
  // Merged files keep a count of 0 or 1, under any name.
  for (const std::uint16_t count : {std::uint16_t{0}, std::uint16_t{1}}) {
    RawFile merged = good_file();
    merged.set("split.count", ValueType::u16, raw(count));
    merged.set("split.tensors.count", ValueType::i32, raw(std::int32_t{77}));
    BOOST_TEST(open_as(merged, "m.gguf").has_value());
    BOOST_TEST(open_as(merged, "m-00001-of-00001.gguf").has_value());
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli::gguf::test
