#include "app/load/workload.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>

#include "app/command.h"
#include "base/json.h"
#include "base/rng.h"

namespace quire {
namespace {

constexpr int64_t kMaxSessions = 10'000'000;
constexpr int kMooncakeBlock = 512;  // tokens of one id
constexpr double kNsPerSecond = 1e9;

// Streams of random numbers under one seed.
constexpr uint64_t kArrivals = 1, kLengths = 2, kShared = 3, kTurns = 4, kBlocks = 5, kRows = 6;

constexpr std::array<const char*, 64> kWords = {
    "time",   "year",    "people", "way",      "day",      "man",     "thing",   "woman", "life",  "child",   "world",
    "school", "state",   "family", "student",  "group",    "country", "problem", "hand",  "part",  "place",   "case",
    "week",   "company", "system", "program",  "question", "work",    "number",  "night", "point", "home",    "water",
    "room",   "mother",  "area",   "money",    "story",    "fact",    "month",   "lot",   "right", "study",   "book",
    "eye",    "job",     "word",   "business", "issue",    "side",    "kind",    "head",  "house", "service", "friend",
    "father", "power",   "hour",   "game",     "line",     "end",     "member",  "law",   "car"};

Status check(const WorkloadOptions& o) {
  QR_TRY_VOID(in_range("--rate", o.rate, 0, 1e6));
  QR_TRY_VOID(in_range("--requests", o.n_sessions, 0, kMaxSessions));
  QR_TRY_VOID(in_range("--duration", o.seconds, 0, 1e6));
  QR_TRY_VOID(in_range("--turns", o.turns, 1, 1000));
  QR_TRY_VOID(in_range("--prompt-tokens", o.prompt_tokens, 1, 1 << 24));
  QR_TRY_VOID(in_range("--max-tokens", o.max_tokens, 1, 1 << 24));
  QR_TRY_VOID(in_range("--spread", o.spread, 0, 1));
  QR_TRY_VOID(in_range("--shared-tokens", o.shared_tokens, 0, 1 << 24));
  QR_TRY_VOID(in_range("--prefixes", o.n_prefixes, 1, 1 << 24));
  QR_TRY_VOID(in_range("--tokens-per-word", o.tokens_per_word, 0.1, 100));
  QR_TRY_VOID(in_range("--trace-speed", o.trace_speed, 1e-6, 1e6));
  QR_TRY_VOID(in_range("--trace-lengths", o.trace_lengths, 1e-3, 1e6));
  if (o.arrivals != "poisson" && o.arrivals != "fixed")
    return fail(Code::invalid, "--arrivals must be poisson or fixed, got \"" + o.arrivals + "\"");
  if (o.n_sessions == 0 && o.seconds == 0 && o.trace.empty())
    return fail(Code::invalid, "how long? Give --requests or --duration");
  if (!o.trace.empty() && o.rate > 0)
    return fail(Code::invalid, "--rate and --trace exclude each other: a trace has its own arrivals");
  return {};
}

}  // namespace

std::string random_words(uint64_t seed, uint64_t stream, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) {
    if (i > 0) out += ' ';
    out += kWords[random_bits(mix64(seed) ^ stream, static_cast<uint64_t>(i)) % kWords.size()];
  }
  return out;
}

Result<Workload> Workload::make(const WorkloadOptions& options) {
  QR_TRY_VOID(check(options));
  Workload out;
  out.options_ = options;
  if (!options.trace.empty()) {
    QR_TRY_VOID(out.read_trace());
  } else if (options.rate > 0) {
    out.schedule();
  }
  out.n_sessions_ = out.open_loop()          ? static_cast<int64_t>(out.at_ns_.size())
                    : options.n_sessions > 0 ? options.n_sessions
                                             : kMaxSessions;
  return out;
}

bool Workload::full(int64_t at_ns) const {
  const auto n = static_cast<int64_t>(at_ns_.size());
  return n >= kMaxSessions || (options_.n_sessions > 0 && n >= options_.n_sessions) ||
         (options_.seconds > 0 && static_cast<double>(at_ns) >= options_.seconds * kNsPerSecond);
}

void Workload::schedule() {
  double at = 0;
  for (uint64_t i = 0; !full(static_cast<int64_t>(at)); ++i) {
    at_ns_.push_back(static_cast<int64_t>(at));
    const double gap =
        options_.arrivals == "fixed" ? 1.0 : -std::log1p(-random_unit(mix64(options_.seed) ^ kArrivals, i));
    at += gap / options_.rate * kNsPerSecond;
  }
}

Status Workload::read_trace() {
  std::ifstream in(options_.trace);
  if (!in) return fail(Code::io, options_.trace + ": cannot read");
  const bool azure = options_.trace.ends_with(".csv");
  int64_t n_line = 0, first_ns = -1;
  for (std::string line; std::getline(in, line);) {
    ++n_line;
    if (line.empty() || (azure && n_line == 1)) continue;  // the heads of the columns
    const size_t before = at_ns_.size();
    const Status read = azure ? read_azure_line(line, first_ns) : read_mooncake_line(line);
    if (!read) {
      return fail(Code::corrupt, options_.trace + ": line " + std::to_string(n_line) + ": " + read.error().message);
    }
    if (at_ns_.size() == before) break;
  }
  if (at_ns_.empty()) return fail(Code::corrupt, options_.trace + ": has no requests");
  return {};
}

// TIMESTAMP,ContextTokens,GeneratedTokens
Status Workload::read_azure_line(const std::string& line, int64_t& first_ns) {
  int day = 0, hour = 0, minute = 0, n_in = 0, n_out = 0;
  double second = 0;
  if (std::sscanf(line.c_str(), "%*d-%*d-%d %d:%d:%lf,%d,%d", &day, &hour, &minute, &second, &n_in, &n_out) != 6)
    return fail(Code::corrupt, "no TIMESTAMP,ContextTokens,GeneratedTokens");
  const double since_month = ((day * 24.0 + hour) * 60.0 + minute) * 60.0 + second;
  const auto ns = static_cast<int64_t>(since_month * kNsPerSecond / options_.trace_speed);
  if (first_ns < 0) first_ns = ns;
  if (ns < first_ns) return fail(Code::corrupt, "goes back in time");
  if (full(ns - first_ns)) return {};
  at_ns_.push_back(ns - first_ns);
  rows_.push_back({n_in, n_out, {}});
  return {};
}

// timestamp (ms), input_length, output_length, hash_ids of its blocks of 512 tokens
Status Workload::read_mooncake_line(const std::string& line) {
  QR_TRY(const Json json, Json::parse(line));
  const Json* at = json.find("timestamp");
  const Json* n_in = json.find("input_length");
  const Json* n_out = json.find("output_length");
  const Json* ids = json.find("hash_ids");
  const auto whole = [](const Json* v) { return v != nullptr && v->as_int() != nullptr && *v->as_int() >= 0; };
  if (at == nullptr || !at->is_number() || !whole(n_in) || !whole(n_out))
    return fail(Code::corrupt, "no timestamp, input_length, output_length");
  const auto ns = static_cast<int64_t>(at->number() * 1e6 / options_.trace_speed);
  if (ns < 0 || (!at_ns_.empty() && ns < at_ns_.back())) return fail(Code::corrupt, "goes back in time");
  if (full(ns)) return {};
  constexpr int64_t kLongest = 1 << 24;
  TraceRow row{static_cast<int>(std::min(*n_in->as_int(), kLongest)),
               static_cast<int>(std::min(*n_out->as_int(), kLongest)),
               {}};
  if (ids != nullptr && ids->as_array() != nullptr) {
    for (const Json& id : *ids->as_array()) row.blocks.push_back(static_cast<uint64_t>(id.number()));
  }
  at_ns_.push_back(ns);
  rows_.push_back(std::move(row));
  return {};
}

int Workload::words_of(double tokens) const {
  return tokens > 0 ? std::max(1, static_cast<int>(std::lround(tokens / options_.tokens_per_word))) : 0;
}

int Workload::varied(int length, uint64_t stream, uint64_t counter) const {
  const double share = options_.spread * (2 * random_unit(mix64(options_.seed) ^ stream, counter) - 1);
  return std::max(1, static_cast<int>(std::lround(length * (1 + share))));
}

std::string Workload::trace_text(const TraceRow& row, uint64_t i) const {
  const double tokens = row.n_in / options_.trace_lengths;
  if (row.blocks.empty()) return random_words(options_.seed, mix64(kRows) + i, words_of(std::max(1.0, tokens)));
  std::string out;
  double left = std::max(1.0, tokens);
  for (const uint64_t block : row.blocks) {
    if (left <= 0) break;
    const double n = std::min(left, kMooncakeBlock / options_.trace_lengths);
    if (!out.empty()) out += ' ';
    out += random_words(options_.seed, mix64(kBlocks) + block, words_of(n));
    left -= n;
  }
  return out;
}

LoadSession Workload::session(int64_t index) const {
  const auto i = static_cast<uint64_t>(index);
  LoadSession out;
  out.at_ns = at_ns(index);
  if (!rows_.empty()) {
    const TraceRow& row = rows_[static_cast<size_t>(index)];
    out.turns.push_back({trace_text(row, i), std::max(1, static_cast<int>(row.n_out / options_.trace_lengths))});
    return out;
  }
  if (options_.shared_tokens > 0) {
    const uint64_t prefix = random_bits(mix64(options_.seed) ^ kShared, i) % static_cast<uint64_t>(options_.n_prefixes);
    out.system = random_words(options_.seed, mix64(kShared) + prefix, words_of(options_.shared_tokens));
  }
  for (int t = 0; t < options_.turns; ++t) {
    const uint64_t turn = i * 1000 + static_cast<uint64_t>(t);
    const int n_in = varied(options_.prompt_tokens, kLengths, 2 * turn);
    const int n_out = varied(options_.max_tokens, kLengths, 2 * turn + 1);
    out.turns.push_back({random_words(options_.seed, mix64(kTurns) + turn, words_of(n_in)), n_out});
  }
  return out;
}

}  // namespace quire
