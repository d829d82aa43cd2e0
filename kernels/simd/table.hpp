// SPDX-License-Identifier: Apache-2.0
// What does the kernel table of an instruction set hold? One instantiation of everything.
//
// Include only where the instruction set's flags are on: driver/isa/table_<isa>.cpp, or a host that compiles for it and
// uses table_for<Native>(). Calls nothing that is not a template on Arch, so that no code compiled here can be linked
// into callers of another instruction set.
#pragma once

#include "coli/kernels/simd/add.hpp"
#include "coli/kernels/simd/argmax.hpp"
#include "coli/kernels/simd/attend.hpp"
#include "coli/kernels/simd/kernel_table.hpp"
#include "coli/kernels/simd/kv_write.hpp"
#include "coli/kernels/simd/matmul.hpp"
#include "coli/kernels/simd/prepare.hpp"
#include "coli/kernels/simd/quantise.hpp"
#include "coli/kernels/simd/read.hpp"
#include "coli/kernels/simd/rmsnorm.hpp"
#include "coli/kernels/simd/rope.hpp"
#include "coli/kernels/simd/softmax.hpp"
#include "coli/kernels/simd/swiglu.hpp"
#include "coli/kernels/simd/top_k.hpp"

namespace coli::simd {

namespace detail {

template <class Arch>
struct TableMaker {
  struct Text {
    char text[48]{};
  };
  /// "matmul/<format>/<isa>/x16", or ".../decoded" for a format without a kernel of its own.
  template <class Q>
  static constexpr Text make_id() {
    Text id;
    std::size_t n = 0;
    const auto put = [&](const char* part) {
      while (*part != 0) id.text[n++] = *part++;
    };
    put("matmul/");
    put(Q::name.text);
    put("/");
    put(Arch::kName);
    put(has_tile<Q> ? "/x16" : "/decoded");
    return id;
  }
  template <class Q>
  static constexpr Text kId = make_id<Q>();

  template <class Q>
  static constexpr MatmulKernel kernel() {
    MatmulKernel k{kId<Q>.text, nullptr, nullptr, nullptr, &prepare<Arch, Q>};
    if constexpr (reads_q8<Q>) k.q8 = &matmul_rows<Arch, Q>;
    else if constexpr (has_tile<Q>) k.f32 = &matmul_rows<Arch, Q>;
    else k.decoded = &matmul_rows_decoded<Arch>;
    return k;
  }

  static constexpr KernelTable make() {
    KernelTable t{};
    t.isa = Arch::kName;
    t.priority = Arch::kPriority;
    for (std::size_t i = 0; i < kFormats; ++i)
      t.matmul[i] = visit_format(static_cast<Format>(i), []<class Q>() { return kernel<Q>(); });
    t.quantise = &quantise<Arch>;
    t.rmsnorm = &rmsnorm<Arch>;
    t.rope = &rope<Arch>;
    t.write_f16 = &write_f16<Arch>;
    t.attend_f32 = &attend<Arch, false>;
    t.attend_f16 = &attend<Arch, true>;
    t.swiglu = &swiglu<Arch>;
    t.add = &add<Arch>;
    t.add_weighted = &add_weighted<Arch>;
    t.softmax = &softmax<Arch>;
    t.top_k = &top_k<Arch>;
    t.argmax = &argmax<Arch>;
    t.read = {&read<Arch, 1, false>, &read<Arch, 2, false>, &read<Arch, 4, false>, &read<Arch, 8, false>,
              &read<Arch, 1, true>,  &read<Arch, 2, true>,  &read<Arch, 4, true>,  &read<Arch, 8, true>};
    return t;
  }
};

template <class Arch>
inline constexpr KernelTable kTable = TableMaker<Arch>::make();

}  // namespace detail

template <class Arch>
constexpr const KernelTable& table_for() noexcept {
  return detail::kTable<Arch>;
}

}  // namespace coli::simd
