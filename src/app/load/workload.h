// What a load generator asks for and when: sessions of one or more turns with the time at which each should begin. All
// of it follows from the options and the seed; a session is made when it is needed. Const after make(), any thread.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace quire {

struct WorkloadOptions {
  double rate = 0;  // sessions per second (open loop); 0: closed loop, sessions begin when a user is free
  std::string arrivals = "poisson";  // of the open loop: poisson or fixed
  int n_sessions = 0;                // 0: by seconds
  double seconds = 0;                // sessions that begin within; 0: no limit
  int turns = 1;                     // questions of a session, each with what came before
  int prompt_tokens = 128, max_tokens = 128;
  double spread = 0;             // lengths vary evenly within ± this share
  int shared_tokens = 0;         // at the start of every session, the same for all of a prefix
  int n_prefixes = 1;            // how many such starts there are
  double tokens_per_word = 1.3;  // how the server's tokenizer is guessed to cut
  std::string trace = {};    // a .csv of Azure's or a .jsonl of Mooncake's form: arrivals and lengths come from there
  double trace_speed = 1;    // its gaps are divided by it
  double trace_lengths = 1;  // its lengths are divided by it
  uint64_t seed = 1;
};

struct LoadTurn {
  std::string text;
  int max_tokens = 0;
};
struct LoadSession {
  int64_t at_ns = -1;  // since the start; -1 in a closed loop
  std::string system;  // the shared start; empty where there is none
  std::vector<LoadTurn> turns;
};

class Workload {
 public:
  // Code::invalid names option, range and value; Code::io and Code::corrupt the trace's line.
  static Result<Workload> make(const WorkloadOptions& options);

  int64_t size() const { return n_sessions_; }  // of a closed loop by seconds: as many as anybody can ask for
  bool open_loop() const { return !at_ns_.empty(); }
  int64_t at_ns(int64_t i) const { return at_ns_.empty() ? -1 : at_ns_[static_cast<size_t>(i)]; }
  LoadSession session(int64_t i) const;

 private:
  struct TraceRow {
    int n_in = 0, n_out = 0;
    std::vector<uint64_t> blocks;  // equal ids are equal text; empty: text of its own
  };
  Status read_trace();
  Status read_azure_line(const std::string& line, int64_t& first_ns);
  Status read_mooncake_line(const std::string& line);
  void schedule();
  bool full(int64_t at_ns) const;
  int words_of(double tokens) const;
  int varied(int length, uint64_t stream, uint64_t counter) const;
  std::string trace_text(const TraceRow& row, uint64_t i) const;

  WorkloadOptions options_;
  int64_t n_sessions_ = 0;
  std::vector<int64_t> at_ns_;
  std::vector<TraceRow> rows_;
};

// n words, each a function of (seed, stream, its place).
std::string random_words(uint64_t seed, uint64_t stream, int n);

}  // namespace quire
