// SPDX-License-Identifier: Apache-2.0
// Does every include follow the table of edges?
#include "edges.hpp"

#include <boost/test/unit_test.hpp>

#include "support.hpp"

using namespace coli::structure;

BOOST_AUTO_TEST_SUITE(edges)

BOOST_AUTO_TEST_CASE(the_tree_has_no_forbidden_edge) {
  BOOST_TEST(repository().files.size() > 20u);
  check_none(forbidden_edges(repository()));
}

BOOST_AUTO_TEST_CASE(planted_edges_are_found) {
  const auto plant = [](std::string path, std::string text, std::string_view sentence) {
    BOOST_TEST_CONTEXT(path << " | " << text) { check_bites(forbidden_edges(with_file(path, text)), sentence); }
  };
  plant("kernels/simd/matvec.hpp", "\n#include \"coli/cache/slot_pool.hpp\"\n",
        "kernels/simd/matvec.hpp:2: kernels/ may not include coli/cache/slot_pool.hpp");
  plant("kernels/ref/matvec.hpp", "#include \"coli/kernels/simd/matvec.hpp\"", "kernels/ref/ may not include");
  plant("include/coli/cache/expert_cache.hpp", "#include \"coli/quant/q8_0.hpp\"", "may not include coli/quant/");
  plant("include/coli/cache/expert_cache.hpp", "#include \"coli/contracts/quant_format.hpp\"", "may not include");
  plant("include/coli/core/ids.hpp", "# include <coli/gguf/reader.hpp>", "may not include coli/gguf/");
  plant("include/coli/model/layer.hpp", "#include \"coli/kernels/ref/matvec.hpp\"", "may not include coli/kernels/");
  plant("include/coli/engine.hpp", "#include \"driver/options.hpp\"", "may not include driver/options.hpp");
  plant("include/coli/engine.hpp", "#include \"kernels/ref/matvec.hpp\"", "may not include kernels/ref/");
  plant("include/coli/gguf/reader.hpp", "#include \"../core/ids.hpp\"", "include from the root");
  plant("include/coli/misc/junk.hpp", "", "no row in the table");
  plant("scripts/tool.cpp", "", "no row in the table");
  plant("include/coli/model/layer.hpp", "#include <xsimd/xsimd.hpp>", "belongs only in kernels/simd/");
  plant("include/coli/cache/io.hpp", "#include <liburing.h>", "belongs only in include/coli/store/");
  plant("include/coli/text/vocab.hpp", "#include <boost/regex.hpp>", "belongs only in conformance/");
}

BOOST_AUTO_TEST_CASE(allowed_edges_pass) {
  const auto pass = [](std::string path, std::string text) {
    BOOST_TEST_CONTEXT(path << " | " << text) { check_none(forbidden_edges(with_file(path, text))); }
  };
  pass("kernels/simd/matvec.hpp", "#include \"coli/kernels/simd/simd_config.hpp\"\n#include \"coli/quant/q4_k.hpp\"");
  pass("include/coli/cache/expert_cache.hpp", "#include \"coli/contracts/expert_store.hpp\"\n#include <vector>");
  pass("include/coli/cache/eviction/lru.hpp", "#include \"coli/contracts/eviction_policy.hpp\"");
  pass("include/coli/cache/eviction/sieve.hpp", "#include \"coli/cache/slot_pool.hpp\"");
  pass("include/coli/engine.hpp", "#include \"coli/cache/expert_cache.hpp\"\n#include \"coli/model/layer.hpp\"");
  pass("conformance/engine/x_test.cpp", "#include \"driver/options.hpp\"\n#include \"support.hpp\"");
  pass("include/coli/core/bytes.hpp", "// #include \"coli/gguf/reader.hpp\" is what callers do\n");
}

BOOST_AUTO_TEST_SUITE_END()
