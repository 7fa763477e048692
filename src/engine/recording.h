// A run of the engine as a file: every input that is no function of the requests (arrivals, cancellations, clock, what
// steps cost) and what the engine decided, one line of JSON a step. With it the run happens again (engine/replay.h),
// with the model or without. The file holds prompts and answers as token ids, and of
// constraints their sources.
//
//   {"quire_recording":4,"n_vocab":…,"fingerprint":"…","n_blocks":…,"options":{…},
//    "prefixes":[{"content":"…","n":n}]}
//   {"start":ns,"submit":[{…}],"cancel":[id],"drafts":[[id,[token],[parent]]],"preempted":n,"grants":[[id,n]],"end":ns,
//    "out":[[id,token]|[id,"stop"]]}
//   {"steps":n,"hash":"…"}                                        last; absent where the program was killed
//
// Seeds, salts, fingerprints and hashes are text, since a JSON number does not hold 64 bits. Absent fields have their
// defaults; a step that neither took something in nor computed anything has no line.
#pragma once
#include <cstdint>
#include <cstdio>
#include <istream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "engine/engine.h"

namespace quire {

// 8 had no trees of guesses, 7 no budgets of thinking, 6 no allowances, 5 no retention, 4 one order of eviction, 3 no
// constraints.
inline constexpr int kRecordingVersion = 9;
inline constexpr int kOldestRecordingVersion = 2;  // that is still read

// One number for all decisions of a run, in order.
class DecisionHash {
 public:
  void add(const EngineDecision& decision);
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0;
};

struct RecordedRequest {
  SeqId id = 0;
  int64_t at_ns = 0;  // submit
  Request request;    // without rules of its own: they are the caller's code
};

// What a recording holds of a request: all that decides what the engine makes of it.
Request recorded_part(const Request& request);

struct RecordedDraft {
  SeqId seq = 0;
  std::vector<Token> tokens;
  std::vector<int32_t> parents;  // as Draft has them; empty: each token follows the one before
};

struct RecordedStep {
  int64_t start_ns = 0, end_ns = -1;  // -1: nothing was computed
  std::vector<RecordedRequest> submits;
  std::vector<SeqId> cancels;
  std::vector<RecordedDraft> drafts;      // in the order of their grants
  std::vector<EngineDecision> decisions;  // in order
};

struct RecordedPrefix {
  uint64_t content = 0;
  int n = 0;  // virtual tokens
};

struct Recording {
  EngineOptions options;  // as resolved
  int n_vocab = 0, n_blocks = 0;
  int window = 0, n_window_blocks = 0;   // of the layers that see one; 0: there is none
  uint64_t fingerprint = 0;              // of the model
  std::vector<RecordedPrefix> prefixes;  // that requests could ask for
  std::vector<RecordedStep> steps;
  bool complete = false;  // has its last line: ends where the run ended, or at the limit of its size
  uint64_t hash = 0;      // of all decisions
};

// Reads a whole recording. Code::corrupt and Code::invalid name line and field; a last line that was cut off is left
// out and the recording is not complete.
Result<Recording> read_recording(const std::string& path);
Result<Recording> read_recording(std::istream& in);

// Writes one. Errors while writing (a full disk, no memory) end the recording with a line in the log, never the run.
class RecordingWriter final : public InputRecorder {
 public:
  // Ends the recording, complete, with the step that passes max_bytes. Refuses (Code::invalid) what whoever reads it
  // could keep from being written, a pipe say: the engine waits for no reader.
  static Result<std::unique_ptr<RecordingWriter>> create(const std::string& path, int64_t max_bytes);
  ~RecordingWriter() override;
  // The first line; before the engine's first step.
  void begin(const Engine& engine, const ModelInfo& model, std::span<const VirtualTokens> prefixes = {});
  // The last line; after the engine stopped. Says whether all was written.
  Status finish();

  void record(const EngineInput& input) override;     // engine thread
  void decided(const EngineDecision& made) override;  // engine thread

 private:
  RecordingWriter(std::string path, std::FILE* file, int64_t max_bytes)
      : path_(std::move(path)), file_(file), room_(max_bytes) {}
  void take(const EngineInput& input);
  void give_up(std::string_view why);
  void flush_step();
  void write(const Json& line);
  void end();

  std::string path_;
  std::FILE* file_;  // null once it ended
  int64_t room_;
  bool failed_ = false;
  RecordedStep step_;
  bool stepping_ = false;  // step_ holds something
  int64_t n_steps_ = 0;
  DecisionHash hash_;
};

}  // namespace quire
