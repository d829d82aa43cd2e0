// SPDX-License-Identifier: Apache-2.0
// Any bytes as a route trace, in each of its forms: refused in one line, or held, written again and read back the same;
// what is held can be replayed.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "coli/cache/eviction/expected_use.hpp"
#include "coli/evidence/replay_report.hpp"
#include "coli/evidence/route_text.hpp"
#include "coli/evidence/trace_statistics.hpp"
#include "coli/moe/route_trace_reader.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}
void require_line(const coli::Error& error) { require(!error.message.empty() && error.message.find('\n') == std::string::npos && error.message.size() < 2000); }

/// A file that is only in memory.
class MemoryFile {
 public:
  MemoryFile(const std::uint8_t* data, std::size_t size) : fd_(::memfd_create("trace", 0)) { require(fd_ >= 0 && ::write(fd_, data, size) == static_cast<::ssize_t>(size)); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(fd_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

void replay_it(const coli::RouteHeader& header, const std::vector<coli::RouteToken>& tokens) {
  coli::AccessCollector collector(header);
  for (const coli::RouteToken& token : tokens) collector.add(token);
  const coli::LoadedRoutes routes = std::move(collector).take();
  require(routes.n_tokens + routes.n_rejected == tokens.size());
  const auto statistics = coli::TraceStatistics::of(routes.accesses);
  require(statistics.n_decoded <= routes.n_tokens);
  const auto geometry = coli::geometry_of(header);
  if (!geometry || header.n_layers() > 64 || header.n_experts > 256) return;
  const auto plan = coli::plan_slots(*geometry, geometry->all_bytes(), coli::least_slots(*geometry).total());
  if (!plan) return;
  for (const auto grouping : {coli::Grouping::recorded, coli::Grouping::token, coli::Grouping::access}) {
    const auto counts = coli::replay<coli::ExpectedUse>(routes.accesses, *geometry, *plan, grouping);
    if (counts && grouping != coli::Grouping::recorded) require(counts->hits[0] + counts->misses[0] + counts->hits[1] + counts->misses[1] == routes.accesses.n_accesses());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (coli::RouteTraceReader::recognises(std::as_bytes(std::span(data, size)))) {
    const MemoryFile file(data, size);
    auto reader = coli::RouteTraceReader::open(file.path());
    if (!reader) return require_line(reader.error()), 0;
    std::vector<coli::RouteToken> tokens;
    for (coli::RouteToken token;;) {
      const auto more = reader->next(token);
      if (!more) return require_line(more.error()), 0;
      if (!*more) break;
      tokens.push_back(token);
    }
    // What was read packs into the bytes that it was read from.
    std::vector<std::byte> again;
    for (std::size_t i = 0; i < tokens.size(); ++i) coli::route_format::pack_token(tokens[i], static_cast<std::uint32_t>(i), reader->header().top_k, again);
    replay_it(reader->header(), tokens);
    return 0;
  }
  const auto trace = coli::parse_route_text(text);
  if (!trace) return require_line(trace.error()), 0;
  for (const coli::RouteToken& token : trace->tokens)
    for (const coli::ExpertId expert : token.experts) require(expert.value < trace->header.n_experts);
  std::string csv = coli::csv_begin(trace->header);
  for (const coli::RouteToken& token : trace->tokens) coli::csv_append(trace->header, token, csv);
  csv += coli::csv_end(trace->tokens.size());
  const auto back = coli::parse_csv(csv);
  require(back.has_value() && back->tokens.size() == trace->tokens.size());
  for (std::size_t i = 0; i < back->tokens.size(); ++i) require(back->tokens[i].experts == trace->tokens[i].experts && back->tokens[i].layers == trace->tokens[i].layers);
  replay_it(trace->header, trace->tokens);
  return 0;
}
