// SPDX-License-Identifier: Apache-2.0
// Is it SHA-256? The vectors are those of FIPS 180-4 and NIST's examples.
#include "coli/core/sha256.hpp"

#include <array>
#include <boost/test/unit_test.hpp>
#include <span>
#include <string>
#include <string_view>

namespace coli {
namespace {

void add(Sha256& hash, std::string_view text) { hash.update(std::as_bytes(std::span(text))); }
std::string of(std::string_view text) {
  Sha256 hash;
  add(hash, text);
  return hash.hex();
}

BOOST_AUTO_TEST_SUITE(sha256)

BOOST_AUTO_TEST_CASE(published_vectors) {
  BOOST_TEST(of("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  BOOST_TEST(of("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  BOOST_TEST(of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
             "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  BOOST_TEST(of("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu") ==
             "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  BOOST_TEST(of(std::string(1'000'000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  BOOST_TEST(of("\xbd") == "68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b");
}

// Lengths about a block's end are where padding goes wrong.
BOOST_AUTO_TEST_CASE(lengths_about_a_block) {
  BOOST_TEST(of(std::string(55, '\0')) == "02779466cdec163811d078815c633f21901413081449002f24aa3e80f0b88ef7");
  BOOST_TEST(of(std::string(56, '\0')) == "d4817aa5497628e7c77e6b606107042bbba3130888c5f47a375e6179be789fbb");
  BOOST_TEST(of(std::string(57, '\0')) == "65a16cb7861335d5ace3c60718b5052e44660726da4cd13bb745381b235a1785");
  BOOST_TEST(of(std::string(64, '\0')) == "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b");
  BOOST_TEST(of(std::string(1000, '\0')) == "541b3e9daa09b20bf85fa273e5cbd3e80185aa4ec298e765db87742b70138a53");
}

BOOST_AUTO_TEST_CASE(pieces_do_not_matter_and_hex_does_not_end_it) {
  const std::string text(300, 'x');
  for (std::size_t piece = 1; piece <= 130; ++piece) {
    Sha256 hash;
    for (std::size_t at = 0; at < text.size(); at += piece) {
      add(hash, std::string_view(text).substr(at, piece));
      if (at % 3 == 0) (void)hash.hex();
    }
    BOOST_TEST_REQUIRE(hash.hex() == of(text));
  }
}

BOOST_AUTO_TEST_CASE(values_are_their_bytes) {
  const std::array<float, 2> values{1.0F, -0.0F};
  Sha256 hash;
  hash.update_values<float>(values);
  BOOST_TEST(hash.hex() == of(std::string_view("\x00\x00\x80\x3f\x00\x00\x00\x80", 8)));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace coli
