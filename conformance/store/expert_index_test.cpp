// SPDX-License-Identifier: Apache-2.0
// Extents are where they should be, beyond 4 GiB too, and tables that leave their files are refused.
#include "coli/store/expert_index.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>

#include "coli/store/any_store.hpp"
#include "expert_files.hpp"
#include "store_laws.hpp"

namespace coli {
namespace {

ExpertStacks stacks(std::uint64_t first, std::uint64_t bytes) {
  return {{Extent{0, first, bytes}, Extent{0, first + bytes, bytes}, Extent{0, first + 2 * bytes, bytes}}};
}

BOOST_AUTO_TEST_CASE(experts_lie_at_a_stride) {
  const auto index = *ExpertIndex::make({{"a", 100000, {}}}, 4, {std::nullopt, stacks(96, 4000), stacks(20000, 8000)});
  BOOST_TEST(!index.has_experts(LayerId{0}));
  BOOST_TEST(index.has_experts(LayerId{2}));
  BOOST_TEST(!index.has_experts(LayerId{3}));
  BOOST_TEST(index.part_bytes(LayerId{0}, Part::up) == 0U);
  BOOST_TEST(index.part_bytes(LayerId{1}, Part::up) == 1000U);
  BOOST_TEST(index.expert_bytes(LayerId{2}) == 6000U);
  BOOST_TEST(index.largest_part_bytes() == 2000U);
  BOOST_TEST((index.extent({LayerId{1}, ExpertId{3}}, Part::up) == Extent{0, 96 + 4000 + 3000, 1000}));
  BOOST_TEST((index.extent({LayerId{2}, ExpertId{0}}, Part::down) == Extent{0, 36000, 2000}));
}

BOOST_AUTO_TEST_CASE(what_leaves_its_file_is_refused) {
  const auto refused = [](std::vector<std::optional<ExpertStacks>> layers, std::uint32_t n_experts,
                          std::uint64_t size) {
    const auto index = ExpertIndex::make({{"model.gguf", size, {}}}, n_experts, std::move(layers));
    BOOST_REQUIRE(!index);
    BOOST_TEST((index.error().code == Errc::bad_input));
    return index.error().line();
  };
  BOOST_TEST(refused({stacks(0, 4000)}, 4, 11999) ==
             "model.gguf: layer 0 down experts: ends at byte 12000, the file has 11999");
  BOOST_TEST(refused({stacks(0, 4001)}, 4, 50000) ==
             "model.gguf: layer 0 gate experts: 4001 bytes are not 4 equal experts");
  BOOST_TEST(refused({stacks(0, 0)}, 4, 50000) == "model.gguf: layer 0 gate experts: 0 bytes are not 4 equal experts");
  BOOST_TEST(refused({stacks(0, 4000)}, 0, 50000) == "model.gguf: layer 0 gate experts: the model has no experts");
  ExpertStacks elsewhere = stacks(0, 4000);
  elsewhere.part[1].file = 3;
  BOOST_TEST(refused({elsewhere}, 4, 50000) == "layer 0 up experts: lies in file number 3 of 1");
  ExpertStacks wrapping = stacks(0, 4000);
  wrapping.part[2] = Extent{0, 0xFFFFFFFFFFFFF000U, 8192};
  BOOST_TEST(refused({wrapping}, 4, 50000).find("down experts: ends at byte 18446744073709551615") !=
             std::string::npos);
  BOOST_TEST(ExpertIndex::make({{"model.gguf", 12000, {}}}, 4, {stacks(0, 4000)}).has_value());
}

BOOST_AUTO_TEST_CASE(experts_beyond_4_gib_are_read_from_where_they_are) {
  // A sparse file: 128 experts of 48 MiB a part make banks of 6 GiB; only the probes' first bytes are written.
  constexpr std::uint64_t kExpert = 48 * kMiB;
  constexpr std::uint64_t kBank = 128 * kExpert;
  std::string path = "/tmp/coli-sparse-XXXXXX";
  const int fd = ::mkstemp(path.data());
  BOOST_REQUIRE(fd >= 0);
  const std::uint64_t size = 96 + 3 * kBank;
  BOOST_REQUIRE(::ftruncate(fd, static_cast<off_t>(size)) == 0);
  const auto index = *ExpertIndex::make({{path, size, {}}}, 128, {stacks(96, kBank)});
  for (std::size_t p = 0; p < kParts; ++p) {
    for (const std::uint32_t e : {0U, 89U, 127U}) {
      const Extent at = index.extent({LayerId{0}, ExpertId{e}}, static_cast<Part>(p));
      const unsigned char tag = static_cast<unsigned char>(1 + p * 100 + e % 100);
      BOOST_REQUIRE(::pwrite(fd, &tag, 1, static_cast<off_t>(at.offset)) == 1);
      BOOST_REQUIRE(::pwrite(fd, &tag, 1, static_cast<off_t>(at.offset + at.bytes - 1)) == 1);
    }
  }
  for (const StoreKind kind : {StoreKind::pread, StoreKind::uring, StoreKind::mmap}) {
    auto store = AnyStore::open(index, {.kind = kind});
    if (!store) {
      BOOST_TEST_MESSAGE("SKIP: " + store.error().line());
      continue;
    }
    const test::Destinations destinations(1, kExpert, (*store)->alignment());
    for (std::size_t p = 0; p < kParts; ++p) {
      for (const std::uint32_t e : {0U, 89U, 127U}) {
        BOOST_REQUIRE(
            (*store)->submit({LayerId{0}, ExpertId{e}}, static_cast<Part>(p), destinations.at(0), Urgency::demand));
        std::optional<Completion> completion;
        while (!completion) completion = (*store)->wait(std::chrono::milliseconds(1000));
        BOOST_REQUIRE(completion->data);
        const auto tag = static_cast<std::byte>(1 + p * 100 + e % 100);
        BOOST_TEST(((*completion->data)[0] == tag && (*completion->data)[kExpert - 1] == tag));
      }
    }
  }
  ::close(fd);
  ::unlink(path.c_str());
}

BOOST_AUTO_TEST_CASE(a_store_that_is_not_to_be_had_is_an_error_and_a_lower_rung_is_said) {
  const test::ExpertFiles files(test::small_shape());
  const auto memory = AnyStore::open(files.index(), {.kind = StoreKind::memory});
  BOOST_REQUIRE(!memory);
  BOOST_TEST((memory.error().code == Errc::unavailable));
  BOOST_TEST((*AnyStore::open(files.in_memory()))->rung() == "memory");
  BOOST_TEST((*AnyStore::open(files.index(), {.kind = StoreKind::mmap}))->rung() == "mmap");
  BOOST_TEST((*AnyStore::open(files.index(), {.kind = StoreKind::pread}))->rung() == "pread");
  const auto best = *AnyStore::open(files.index());
#ifdef COLI_HAVE_LIBURING
  BOOST_TEST((best->rung() == "uring" || !best->notes().empty()));
#else
  BOOST_TEST(best->rung() == "pread");
  BOOST_TEST(!best->notes().empty());
  BOOST_TEST(!AnyStore::open(files.index(), {.kind = StoreKind::uring}).has_value());
#endif
  // No direct I/O on /proc; nothing is silent about it.
  test::Shape shape = test::small_shape();
  shape.directory = "/dev/shm";
  const test::ExpertFiles shm(shape);
  const auto store = *AnyStore::open(shm.index(), {.kind = StoreKind::pread});
  BOOST_TEST((store->direct() || store->notes().size() == 2U));
  test::check_every_ticket_completes_once(*store, shm, 1, true);
  BOOST_TEST(parse_store_kind("uring").has_value());
  BOOST_TEST(!parse_store_kind("floppy").has_value());
}

}  // namespace
}  // namespace coli
