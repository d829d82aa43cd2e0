// SPDX-License-Identifier: Apache-2.0
// A route trace gives back what was written, whatever the form; what was damaged, cut or never ours is refused.
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <csignal>

#include "coli/evidence/load_routes.hpp"
#include "coli/evidence/route_text.hpp"
#include "coli/moe/route_trace_reader.hpp"
#include "coli/moe/route_trace_writer.hpp"
#include "planted_routes.hpp"

namespace coli {
namespace {

using test::ScratchFolder;

struct Read {
  RouteHeader header;
  std::vector<RouteToken> tokens;
  bool closed = false;
};
/// Everything, or the error. Tokens that came before an error are dropped: a reader of evidence uses none of them.
Result<Read> read_all(const std::string& path) {
  COLI_TRY(reader, RouteTraceReader::open(path));
  Read read{reader.header(), {}, false};
  for (RouteToken token;;) {
    COLI_TRY(more, reader.next(token));
    if (!more) break;
    read.tokens.push_back(token);
  }
  read.closed = reader.counted().has_value();
  return read;
}

BOOST_AUTO_TEST_CASE(what_was_written_is_read) {
  const ScratchFolder folder;
  for (const std::uint32_t k : {1U, 3U, 8U, 9U, 16U}) {
    const RouteHeader header = test::planted_header(4, 16, k);
    const auto tokens = test::planted_tokens(header, 5, 7);
    test::write_trace(folder / "t", header, tokens);
    const Read read = *read_all(folder / "t");
    BOOST_TEST(read.header.to_json() == header.to_json());
    BOOST_TEST((read.tokens == tokens));
    BOOST_TEST(read.closed);
    // writer -> reader -> writer: the same bytes
    test::write_trace(folder / "again", read.header, read.tokens);
    BOOST_TEST((test::read_bytes(folder / "t") == test::read_bytes(folder / "again")));
  }
}

BOOST_AUTO_TEST_CASE(its_numbers_are_little_endian_and_where_the_format_says) {
  const ScratchFolder folder;
  const RouteHeader header = test::planted_header();
  test::write_trace(folder / "t", header, test::planted_tokens(header, 0, 1));
  const std::string bytes = test::read_bytes(folder / "t");
  const auto u32 = [&](std::size_t at) { return static_cast<unsigned char>(bytes[at]) | static_cast<unsigned char>(bytes[at + 1]) << 8 | static_cast<unsigned char>(bytes[at + 2]) << 16 | static_cast<unsigned char>(bytes[at + 3]) << 24; };
  BOOST_TEST(bytes.substr(0, 8) == "coliRTR\n");
  BOOST_TEST(u32(8) == 1);
  const auto header_bytes = static_cast<std::size_t>(u32(12));
  BOOST_TEST(bytes.substr(28, header_bytes) == header.to_json().dump());
  BOOST_TEST(u32(16) == static_cast<int>(bytes.size()));
  BOOST_TEST(u32(28 + header_bytes) == 20 + 3 * (10 + 3 * 6 + 1));  // the first frame: three MoE layers, k = 3
}

BOOST_AUTO_TEST_CASE(every_cut_is_refused) {
  const ScratchFolder folder;
  const RouteHeader header = test::planted_header();
  test::write_trace(folder / "t", header, test::planted_tokens(header, 2, 2));
  const std::string bytes = test::read_bytes(folder / "t");
  test::write_bytes(folder / "cut", bytes);
  for (std::size_t n = bytes.size(); n-- > 0;) {
    std::filesystem::resize_file(folder / "cut", n);
    const auto read = read_all(folder / "cut");
    BOOST_TEST_REQUIRE(!read.has_value(), "cut to " << n << " bytes");
    BOOST_TEST((read.error().code == Errc::bad_input));
    BOOST_TEST(read.error().file == folder / "cut");
  }
  test::write_bytes(folder / "longer", bytes + "x");
  BOOST_TEST(!read_all(folder / "longer"));
}

BOOST_AUTO_TEST_CASE(every_flipped_bit_is_noticed) {
  const ScratchFolder folder;
  const RouteHeader header = test::planted_header(2, 4, 2);
  test::write_trace(folder / "t", header, test::planted_tokens(header, 1, 2));
  const std::string bytes = test::read_bytes(folder / "t");
  std::fstream file(folder / "t", std::ios::in | std::ios::out | std::ios::binary);
  const auto put = [&](std::size_t at, int byte) { file.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(byte)).flush(); };
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    put(bit / 8, bytes[bit / 8] ^ 1 << bit % 8);
    BOOST_TEST(!read_all(folder / "t").has_value(), "bit " << bit);
    put(bit / 8, bytes[bit / 8]);
  }
  BOOST_TEST(read_all(folder / "t").has_value());
}

BOOST_AUTO_TEST_CASE(foreign_files_and_other_versions_are_refused_in_words) {
  const ScratchFolder folder;
  const RouteHeader header = test::planted_header();
  test::write_trace(folder / "t", header, test::planted_tokens(header, 2, 2));
  std::string bytes = test::read_bytes(folder / "t");
  bytes[8] = 2;
  test::write_bytes(folder / "version", bytes);
  BOOST_TEST(load_routes(folder / "version").error().message == "is of version 2; this program reads version 1");
  test::write_bytes(folder / "foreign", "GGUF and so on, many bytes of it, more than a prologue has");
  BOOST_TEST(load_routes(folder / "foreign").error().message.starts_with("is not a route trace"));
  BOOST_TEST((load_routes(folder / "foreign").error().code == Errc::bad_input));
  BOOST_TEST((load_routes(folder / "missing").error().code == Errc::io));
  test::write_bytes(folder / "empty", "");
  BOOST_TEST((load_routes(folder / "empty").error().code == Errc::bad_input));
  test::write_trace(folder / "none", header, {});
  BOOST_TEST((load_routes(folder / "none").error().code == Errc::nothing_compared));
}

BOOST_AUTO_TEST_CASE(a_process_that_is_killed_leaves_its_whole_tokens) {
  const ScratchFolder folder;
  const RouteHeader header = test::planted_header();
  const auto tokens = test::planted_tokens(header, 0, 40000);  // several windows of the writer
  int told[2];
  BOOST_REQUIRE(::pipe(told) == 0);
  const ::pid_t child = ::fork();
  BOOST_REQUIRE(child >= 0);
  if (child == 0) {
    auto writer = RouteTraceWriter::create(folder / "t", header);
    for (std::size_t i = 0; writer && i < tokens.size(); ++i) {
      if (!writer->append(std::span(tokens).subspan(i, 1))) break;
      const auto n = static_cast<std::uint32_t>(i + 1);
      if (::write(told[1], &n, sizeof n) != sizeof n) break;
    }
    for (;;) ::pause();
  }
  ::close(told[1]);
  std::uint32_t n = 0;
  while (n < 15000 && ::read(told[0], &n, sizeof n) == sizeof n) {}
  ::kill(child, SIGKILL);
  while (::read(told[0], &n, sizeof n) == sizeof n) {}
  ::close(told[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  BOOST_TEST(WIFSIGNALED(status));
  const Read read = *read_all(folder / "t");
  BOOST_TEST(!read.closed);
  BOOST_TEST(read.tokens.size() >= n);
  BOOST_TEST(read.tokens.size() <= n + 1);
  BOOST_TEST((std::equal(read.tokens.begin(), read.tokens.end(), tokens.begin())));
  BOOST_TEST(!load_routes(folder / "t")->closed);
  // But what was cut off afterwards is missing, not dead.
  const std::string bytes = test::read_bytes(folder / "t");
  std::uint64_t counts = 0;
  std::memcpy(&counts, bytes.data() + route_format::kCountingAt, 8);
  counts &= 0xFFFF'FFFF'FFFFU;
  test::write_bytes(folder / "cut", bytes.substr(0, counts - 1));
  BOOST_TEST(!load_routes(folder / "cut").has_value());
}

BOOST_AUTO_TEST_CASE(text_forms_give_the_same_trace_back) {
  const ScratchFolder folder;
  const RouteHeader header = test::planted_header();
  auto tokens = test::planted_tokens(header, 5, 9);
  tokens[7].phase = RoutePhase::draft, tokens[7].accepted = false;
  std::string csv = csv_begin(header);
  for (const RouteToken& token : tokens) csv_append(header, token, csv);
  csv += csv_end(tokens.size());
  const RouteTrace from_csv = *parse_csv(csv);
  BOOST_TEST(from_csv.header.to_json() == header.to_json());
  BOOST_TEST((from_csv.tokens == tokens));
  RouteHeader::Json json{{"coli_route_trace", 1}, {"header", header.to_json()}, {"tokens", RouteHeader::Json::array()}};
  for (const RouteToken& token : tokens) json["tokens"].push_back(json_of(header, token));
  const RouteTrace from_json = *parse_json(json.dump());
  BOOST_TEST(from_json.header.to_json() == header.to_json());
  BOOST_TEST((from_json.tokens == tokens));

  for (std::size_t n = 0; n < csv.size(); ++n) BOOST_TEST_REQUIRE((!parse_csv(std::string_view(csv).substr(0, n)) || n + 1 == csv.size()), "CSV cut to " << n);
  const std::string text = json.dump();
  for (std::size_t n = 0; n < text.size(); n += 7) BOOST_TEST_REQUIRE(!parse_json(std::string_view(text).substr(0, n)), "JSON cut to " << n);

  const auto refuses = [&](std::string_view from, std::string_view to) {
    std::string damaged = csv;
    damaged.replace(damaged.find(from), from.size(), to);
    return !parse_csv(damaged).has_value();
  };
  BOOST_TEST(refuses("0,0,prefill,1,1,0,", "0,0,prefill,1,0,0,"));  // a dense layer
  BOOST_TEST(refuses("0,0,prefill,1,1,0,", "0,0,prefill,1,1,1,"));  // a rank out of order
  BOOST_TEST(refuses("0,0,prefill,1,1,0,", "0,0,prefix,1,1,0,"));
  BOOST_TEST(refuses("\"top_k\":3", "\"top_k\":4"));
  BOOST_TEST(refuses("\"n_experts\":16", "\"n_experts\":2"));
  BOOST_TEST(refuses("position,pass", "pass,position"));
}

/// What "coli route trace" refuses as evidence, and what it leaves out.
BOOST_AUTO_TEST_CASE(lossy_options_are_refused_and_rejected_drafts_not_counted) {
  const ScratchFolder folder;
  RouteHeader header = test::planted_header();
  auto tokens = test::planted_tokens(header, 5, 9);
  test::write_trace(folder / "honest", header, tokens);
  const LoadedRoutes honest = *load_routes(folder / "honest");
  BOOST_TEST(honest.n_tokens == 14U);
  BOOST_TEST(honest.n_decoded == 9U);
  for (const RouteHeader::Json& on : {RouteHeader::Json(true), RouteHeader::Json(0.9), RouteHeader::Json("on"), RouteHeader::Json::object()}) {
    header.lossy["expert_dropping"] = on;
    test::write_trace(folder / "lossy", header, tokens);
    const auto refused = load_routes(folder / "lossy");
    BOOST_REQUIRE(!refused);
    BOOST_TEST((refused.error().code == Errc::bad_input));
    BOOST_TEST(refused.error().message == "the lossy option expert_dropping was on: what it routed is no evidence");
  }
  // Three drafts, of which the last was rejected: they are decoded tokens, but for that one.
  header = test::planted_header();
  for (std::size_t i = 8; i < 11; ++i) tokens[i].phase = RoutePhase::draft;
  tokens[10].accepted = false;
  test::write_trace(folder / "drafts", header, tokens);
  const LoadedRoutes drafts = *load_routes(folder / "drafts");
  BOOST_TEST(drafts.n_rejected == 1U);
  BOOST_TEST(drafts.n_decoded == 8U);
  BOOST_TEST(drafts.accesses.n_accesses() == honest.accesses.n_accesses() - 3 * 3);
}

BOOST_AUTO_TEST_CASE(a_pass_is_asked_for_layer_by_layer) {
  const ScratchFolder folder;
  const RouteHeader header = test::planted_header();
  test::write_trace(folder / "t", header, test::planted_tokens(header, 3, 1));
  const LoadedRoutes routes = *load_routes(folder / "t");
  std::vector<std::pair<std::uint32_t, std::uint32_t>> order;  // layer, token
  for (std::size_t r = 0; r < routes.accesses.n_rows(); ++r) order.emplace_back(routes.accesses.row(r).layer.value, routes.accesses.row(r).token);
  const std::vector<std::pair<std::uint32_t, std::uint32_t>> expected{{1, 0}, {1, 1}, {1, 2}, {2, 0}, {2, 1}, {2, 2}, {3, 0}, {3, 1}, {3, 2}, {1, 3}, {2, 3}, {3, 3}};
  BOOST_TEST((order == expected));
  std::size_t n_groups = 0;
  routes.accesses.for_each_group(Grouping::recorded, [&](LayerId, Phase, std::span<const ExpertId>) { ++n_groups; });
  BOOST_TEST(n_groups == 6U);
}

constexpr std::string_view kRecorded =
    "# route_trace v1\n# model=/somewhere/else/m.gguf arch=qwen3moe n_layer=2 n_expert=4 n_expert_used=2\n"
    "# layer=0 expert_bytes=1000 dense_bytes=7\n# layer=1 expert_bytes=2000 dense_bytes=8\n"
    "turn,phase,step,layer,slot,expert,weight,residency,expert_bytes\n"
    "0,0,0,0,0,3,0.6,0,1000\n0,0,0,0,1,1,0.4,0,1000\n"  // the prompt's last layer ran for its last token only
    "0,0,1,0,0,2,0.6,0,1000\n0,0,1,0,1,1,0.4,1,0\n0,0,1,1,0,0,0.7,0,2000\n0,0,1,1,1,3,0.3,0,2000\n"
    "0,1,0,0,0,2,0.6,1,0\n0,1,0,0,1,0,0.4,0,1000\n0,1,0,1,0,1,0.7,0,2000\n0,1,0,1,1,3,0.3,1,0\n";

BOOST_AUTO_TEST_CASE(recorded_csv_is_imported_with_its_provenance) {
  const RouteTrace trace = *parse_recorded_csv(kRecorded);
  BOOST_TEST(trace.header.model == "m.gguf");  // the foreign path is gone
  BOOST_TEST(trace.header.to_json().dump().find("somewhere") == std::string::npos);
  BOOST_TEST(trace.header.layers[0].expert() == 1000U);
  BOOST_TEST(trace.header.layers[1].expert() == 2000U);
  Sha256 hash;
  hash.update(std::as_bytes(std::span(kRecorded)));
  BOOST_TEST(trace.header.source["sha256"] == hash.hex());
  BOOST_TEST_REQUIRE(trace.tokens.size() == 3U);
  BOOST_TEST(trace.tokens[0].n_rows() == 1U);
  BOOST_TEST((trace.tokens[1].pass == 0 && trace.tokens[2].pass == 1 && trace.tokens[2].phase == RoutePhase::decode));
  BOOST_TEST((trace.tokens[2].experts == std::vector{ExpertId{2}, ExpertId{0}, ExpertId{1}, ExpertId{3}}));
  BOOST_TEST((trace.tokens[2].resident == std::vector<std::uint8_t>{1, 0, 0, 1}));
}

BOOST_AUTO_TEST_CASE(recorded_csv_that_is_cut_or_wrong_is_refused) {
  const std::size_t last_line = kRecorded.rfind("0,1,0,1,1");
  for (std::size_t n = 0; n + 1 < kRecorded.size(); ++n) {
    if (kRecorded.substr(0, n) == kRecorded.substr(0, kRecorded.rfind("0,1,0,0,0")) || n + 1 == kRecorded.rfind("0,1,0,0,0")) continue;  // one token less is a shorter trace
    if (kRecorded[n - 1] == '1' && n + 2 == 0) continue;
    const auto cut = parse_recorded_csv(kRecorded.substr(0, n));
    const bool prompt_only = n < kRecorded.rfind("0,1,0,0,0");
    BOOST_TEST_REQUIRE((!cut || prompt_only), "cut to " << n << " of " << last_line);
  }
  const auto refuses = [](std::string_view from, std::string_view to) {
    std::string damaged(kRecorded);
    damaged.replace(damaged.find(from), from.size(), to);
    return !parse_recorded_csv(damaged).has_value();
  };
  BOOST_TEST(refuses("n_layer=2", "n_layer=3"));
  BOOST_TEST(refuses("n_expert_used=2", "n_expert_used=3"));
  BOOST_TEST(refuses("0,1,0,0,1,0,0.4", "0,1,0,0,1,9,0.4"));
  BOOST_TEST(refuses("0,1,0,0,1,0,0.4", "0,1,0,0,1,2,0.4"));  // the same expert twice
  BOOST_TEST(refuses("0,1,0,0,1,0,0.4", "0,1,0,0,0,0,0.4"));  // the same rank twice
  BOOST_TEST(refuses("0,1,0,0,1,0,0.4", "0,1,0,0,1,0,nan"));
  BOOST_TEST(refuses("0.4,0,1000\n0,1,0,1,0", "0.4,0,999\n0,1,0,1,0"));
  BOOST_TEST(refuses("expert_bytes=2000", "expert_bytes=-2"));
  // An engine that dropped experts said so.
  std::string lossy(kRecorded);
  lossy.replace(lossy.find(" n_layer"), 0, " drop_cold=1");
  BOOST_TEST(parse_recorded_csv(lossy)->header.lossy_option().value_or("") == "drop_cold");
}

}  // namespace
}  // namespace coli
