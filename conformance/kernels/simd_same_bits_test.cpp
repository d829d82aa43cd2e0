// SPDX-License-Identifier: Apache-2.0
// Are the results of every kernel the same bits on every instruction set, and the same as ever?
//
// All results go into one digest a kernel. Instruction sets are compared with each other and with digests written down
// here: they catch a contracted multiply-add or a reordered sum on any compiler, also where only one set runs (NEON).
#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <map>
#include <string>

#include "coli/kernels/simd/attend.hpp"
#include "simd_matrix.hpp"

using namespace coli;
using namespace coli::test;

namespace {

/// FNV-1a over the bits of floats. A NaN counts as one value: its payload is the processor's affair.
struct Digest {
  std::uint64_t value = 0xcbf29ce484222325u;
  void add(const float* x, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint32_t bits = x[i] == x[i] ? std::bit_cast<std::uint32_t>(x[i]) : 0x7FC00000u;
      for (int byte = 0; byte < 4; ++byte) value = (value ^ ((bits >> (8 * byte)) & 255u)) * 0x100000001b3u;
    }
  }
};

std::map<std::string, std::uint64_t> digests_of(const simd::KernelTable& table) {
  std::map<std::string, std::uint64_t> digests;
  for_each_format([&]<class F>(Format format) {
    Digest d;
    const std::size_t n_cols = std::max<std::size_t>(3 * F::kValuesPerBlock, 288) / F::kValuesPerBlock * F::kValuesPerBlock;
    const TestMatrix<F> m(table, format, 37, n_cols, 21);
    std::vector<Column> columns;
    for (unsigned c = 0; c < 5; ++c) columns.emplace_back(table, random_floats(n_cols, 50 + c, c == 1 ? 1e-20f : 10.0f));
    std::vector<float> y(37);
    for (const Column& column : columns) {
      multiply(table, format, m.rows(Layout::prepared), {&column}, {y.data()});
      d.add(y.data(), y.size());
    }
    digests[std::string("matmul ") + F::name.text] = d.value;
  });
  const std::vector<float> x = random_floats(1000, 30, 30), w = random_floats(1000, 31);
  std::vector<float> y(1000);
  const auto keep = [&](const char* name, const std::vector<float>& result) {
    Digest d;
    d.add(result.data(), result.size());
    digests[name] = d.value;
  };
  table.rmsnorm(x.data(), w.data(), x.size(), 1e-6f, y.data());
  keep("rmsnorm", y);
  table.swiglu(x.data(), w.data(), x.size(), y.data());
  keep("swiglu", y);
  table.softmax(x.data(), x.size(), y.data());
  keep("softmax", y);
  y = x;
  table.rope(y.data(), w.data(), y.size());
  keep("rope", y);
  y = x;
  table.add(w.data(), w.size(), y.data());
  keep("add", y);
  std::vector<float> sum(250);
  table.add_weighted(x.data(), w.data(), 4, 250, sum.data());
  keep("add_weighted", sum);
  for (bool f16 : {false, true}) {
    const std::vector<float> keys = random_floats(530 * 72, 40, 2), values = random_floats(530 * 72, 41), queries = random_floats(3 * 72, 42, 2);
    std::vector<std::byte> k(keys.size() * 4), v(k.size());
    if (f16) {
      table.write_f16(keys.data(), keys.size(), k.data());
      table.write_f16(values.data(), values.size(), v.data());
    } else {
      std::memcpy(k.data(), keys.data(), k.size());
      std::memcpy(v.data(), values.data(), v.size());
    }
    std::vector<float> out(queries.size());
    (f16 ? table.attend_f16 : table.attend_f32)({queries.data(), k.data(), v.data(), 1, 3, 0, 530, 72, 0.1f, out.data()});
    keep(f16 ? "attend f16" : "attend f32", out);
  }
  return digests;
}

const std::map<std::string, std::uint64_t> kRecorded{
    {"add", 0x20acf915c45dda22u},
    {"add_weighted", 0x42e51865c897d9f3u},
    {"attend f16", 0xd3edac8de82e6df0u},
    {"attend f32", 0xf70a23f428c143abu},
    {"matmul BF16", 0xdfe38b4c68b7b10eu},
    {"matmul F16", 0x690613fc778eed9cu},
    {"matmul F32", 0x44f9666d44a711c3u},
    {"matmul MXFP4", 0x9286c404d17f4301u},
    {"matmul Q2_K", 0x9a9689b3991eab8du},
    {"matmul Q3_K", 0x4f70c0aff97f520u},
    {"matmul Q4_0", 0x15ef4b55874efbfu},
    {"matmul Q4_1", 0x6c0d41166886aa6bu},
    {"matmul Q4_K", 0x491fc416a99b7c4u},
    {"matmul Q5_0", 0x584b6cb58f9f9fb4u},
    {"matmul Q5_1", 0xb7d6d16fe071da0fu},
    {"matmul Q5_K", 0x6ef5e7e62c5e7bcbu},
    {"matmul Q6_K", 0xb77a1693123ca573u},
    {"matmul Q8_0", 0x9a9d43f094ce059du},
    {"rmsnorm", 0xccf34eb915bdf814u},
    {"rope", 0x45ffb81a19adf082u},
    {"softmax", 0xdaa6559f6be129abu},
    {"swiglu", 0x8a79483dd36357a6u},
};

}  // namespace

BOOST_AUTO_TEST_SUITE(simd_same_bits)

BOOST_AUTO_TEST_CASE(on_every_instruction_set_and_as_recorded) {
  for_each_table([](const simd::KernelTable& table) {
    for (const auto& [kernel, digest] : digests_of(table)) {
      const auto recorded = kRecorded.find(kernel);
      if (recorded == kRecorded.end()) std::printf("    {\"%s\", 0x%llxu},\n", kernel.c_str(), static_cast<unsigned long long>(digest));
      BOOST_TEST((recorded != kRecorded.end() && digest == recorded->second), table.isa << ": " << kernel << " has other bits");
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()
