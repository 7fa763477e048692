#include "engine/recording.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "base/log.h"
#include "base/rng.h"
#include "engine/answer.h"
#include "engine/recording_json.h"

namespace quire {
namespace {

const char* const kFinishNames[] = {"stop", "length", "cancelled", "error"};

Json pair(SeqId id, Json second) { return Json::Array{Json(static_cast<int64_t>(id)), std::move(second)}; }

Json line_of(const RecordedStep& step) {
  Json out = Json::Object{};
  Json::Array submits, cancels, drafts, grants, outputs;
  int64_t n_preempted = 0;
  for (const RecordedRequest& r : step.submits) submits.push_back(recording::write(r));
  for (const SeqId id : step.cancels) cancels.emplace_back(static_cast<int64_t>(id));
  for (const RecordedDraft& d : step.drafts) {
    Json draft = pair(d.seq, recording::write(d.tokens));
    if (!d.parents.empty()) draft.as_array()->push_back(recording::write(d.parents));
    drafts.push_back(std::move(draft));
  }
  for (const EngineDecision& d : step.decisions) {
    switch (d.kind) {
      case EngineDecision::Kind::preempt: n_preempted += d.value; break;
      case EngineDecision::Kind::grant: grants.push_back(pair(d.seq, d.value)); break;
      case EngineDecision::Kind::token: outputs.push_back(pair(d.seq, d.value)); break;
      case EngineDecision::Kind::finish: outputs.push_back(pair(d.seq, kFinishNames[d.value])); break;
    }
  }
  out.set("start", step.start_ns);
  if (!submits.empty()) out.set("submit", std::move(submits));
  if (!cancels.empty()) out.set("cancel", std::move(cancels));
  if (!drafts.empty()) out.set("drafts", std::move(drafts));
  if (n_preempted > 0) out.set("preempted", n_preempted);
  if (!grants.empty()) out.set("grants", std::move(grants));
  if (step.end_ns >= 0) out.set("end", step.end_ns);
  if (!outputs.empty()) out.set("out", std::move(outputs));
  return out;
}

}  // namespace

void DecisionHash::add(const EngineDecision& d) {
  value_ = mix64(value_ ^ mix64(d.seq * 4 + static_cast<uint64_t>(d.kind)) ^ static_cast<uint64_t>(d.value));
}

Result<std::unique_ptr<RecordingWriter>> RecordingWriter::create(const std::string& path, int64_t max_bytes) {
  // Not blocking: a pipe that nobody reads would be waited for already here.
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666);
  std::FILE* file = fd < 0 ? nullptr : ::fdopen(fd, "wb");
  if (file == nullptr) {
    const int error = errno;
    if (fd >= 0) ::close(fd);
    return fail(Code::io, path + ": cannot be written: " + std::strerror(error));
  }
  struct stat about = {};
  if (::fstat(fd, &about) == 0 && !S_ISREG(about.st_mode) && (!S_ISCHR(about.st_mode) || ::isatty(fd) == 1)) {
    std::fclose(file);
    return fail(Code::invalid,
                path + ": a recording goes to a file: whoever reads it from elsewhere could stop the engine");
  }
  return std::unique_ptr<RecordingWriter>(new RecordingWriter(path, file, max_bytes));
}

RecordingWriter::~RecordingWriter() {
  if (file_ != nullptr) std::fclose(file_);
}

void RecordingWriter::begin(const Engine& engine, const ModelInfo& model, std::span<const VirtualTokens> prefixes) {
  Json header = Json::Object{};
  header.set("quire_recording", kRecordingVersion);
  header.set("n_vocab", model.n_vocab);
  header.set("fingerprint", std::to_string(model.fingerprint));
  const EngineStats stats = engine.stats();
  header.set("n_blocks", stats.n_blocks - stats.n_learned_blocks);
  for (int g = 1; g < model.kv_layout.n_groups(); ++g) {
    header.set("window", model.kv_layout.group(g).window);
    header.set("n_window_blocks", stats.n_window_blocks - stats.n_learned_blocks);
  }
  std::vector<RecordedPrefix> recorded;
  for (const VirtualTokens& tokens : prefixes) recorded.push_back({tokens.content, tokens.n});
  if (!recorded.empty()) header.set("prefixes", recording::write(recorded));
  header.set("options", recording::write(engine.options()));
  write(header);
}

void RecordingWriter::record(const EngineInput& input) {
  if (file_ == nullptr) return;
  try {
    take(input);
  } catch (const std::bad_alloc&) {
    give_up(kNoMemory);
  }
}

Request recorded_part(const Request& r) {
  Request out;
  out.prompt = r.prompt;
  out.sampling = r.sampling;
  out.max_tokens = r.max_tokens;
  out.stop_ids = r.stop_ids;
  out.ignore_eos = r.ignore_eos;
  out.cache_salt = r.cache_salt;
  out.n_public = r.n_public;
  out.prefix = r.prefix;
  out.priority = r.priority;
  out.retention = r.retention;
  out.tenant = r.tenant;
  out.weight = r.weight;
  out.deadline_ns = r.deadline_ns;
  out.match_prefix = r.match_prefix;
  out.pool = r.pool;
  out.max_draft = r.max_draft;
  return out;
}

void RecordingWriter::take(const EngineInput& input) {
  switch (input.kind) {
    case EngineInput::Kind::clock:
      if (stepping_ && step_.end_ns < 0 && !step_.decisions.empty() &&
          step_.decisions.back().kind == EngineDecision::Kind::grant) {
        step_.end_ns = input.time_ns;
        return;
      }
      flush_step();
      step_.start_ns = input.time_ns;
      return;
    case EngineInput::Kind::cancel: step_.cancels.push_back(input.seq); break;
    case EngineInput::Kind::draft:
      step_.drafts.push_back(
          {input.seq, {input.draft.begin(), input.draft.end()}, {input.parents.begin(), input.parents.end()}});
      break;
    case EngineInput::Kind::submit: {
      RecordedRequest& r = step_.submits.emplace_back();
      r.id = input.seq;
      r.at_ns = input.time_ns;
      r.request = recorded_part(*input.request);
    }
  }
  stepping_ = true;
}

void RecordingWriter::decided(const EngineDecision& made) {
  if (file_ == nullptr) return;
  hash_.add(made);
  stepping_ = true;
  try {
    step_.decisions.push_back(made);
  } catch (const std::bad_alloc&) {
    give_up(kNoMemory);
  }
}

void RecordingWriter::flush_step() {
  if (stepping_) {
    write(line_of(step_));
    ++n_steps_;
  }
  step_ = RecordedStep{};
  stepping_ = false;
  if (room_ >= 0 || file_ == nullptr) return;
  log_warn(path_ + ": the recording has reached its limit and ends; the run goes on");
  end();
}

void RecordingWriter::write(const Json& line) {
  const std::string text = line.dump() + "\n";
  room_ -= static_cast<int64_t>(text.size());
  if (file_ == nullptr || std::fwrite(text.data(), 1, text.size(), file_) == text.size()) return;
  give_up(std::strerror(errno));
}

void RecordingWriter::give_up(std::string_view why) {
  failed_ = true;
  log_warn(failure({path_, ": the recording cannot be written and ends: ", why, "; the run goes on"}));
  if (file_ != nullptr) std::fclose(file_);
  file_ = nullptr;
}

void RecordingWriter::end() {
  Json last = Json::Object{};
  last.set("steps", n_steps_);
  last.set("hash", std::to_string(hash_.value()));
  write(last);
  if (file_ != nullptr && std::fclose(file_) != 0) failed_ = true;
  file_ = nullptr;
}

Status RecordingWriter::finish() {
  flush_step();
  if (file_ != nullptr) end();
  if (failed_) return fail(Code::io, path_ + ": not everything could be written");
  return {};
}

}  // namespace quire
