// Reading a recording: a file from anywhere, so every line is bounded and every value checked before it is used.
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

#include "engine/recording.h"
#include "engine/recording_json.h"

namespace quire {
namespace {

constexpr int64_t kMaxBytes = int64_t{4} << 30;
constexpr int64_t kMaxNs = int64_t{1} << 61;
constexpr size_t kMaxPrefixes = 64;
constexpr int kMaxVirtual = 1 << 16;
constexpr size_t kMaxLineBytes = size_t{64} << 20;

// One line without its end; false at the end of the file. A line over the limit comes back cut, and is refused then.
bool read_line(std::istream& in, std::string& line, bool& whole) {
  line.clear();
  std::array<char, 65536> part;
  whole = false;
  while (line.size() <= kMaxLineBytes) {
    in.getline(part.data(), part.size());
    const auto n = static_cast<size_t>(in.gcount());
    if (n == 0 && line.empty() && in.eof()) return false;
    const bool more = in.fail() && !in.eof() && n == part.size() - 1;
    whole = !more && !in.eof();
    line.append(part.data(), whole ? n - 1 : n);
    if (!more) return true;
    in.clear();
  }
  return true;
}

class Reader {
 public:
  explicit Reader(Recording& out) : out_(out) {}

  // One line. REQUIRES nothing after a line that failed.
  Status add(std::string_view text) {
    ++n_line_;
    QR_TRY(const Json json, parse(text));
    if (out_.complete) return wrong("a line follows the last one");
    if (n_line_ == 1) return header(json);
    if (json.find("hash") != nullptr) return last(json);
    return step(json);
  }

 private:
  tl::unexpected<Error> wrong(const std::string& what) const {
    return fail(Code::corrupt, "line " + std::to_string(n_line_) + ": " + what);
  }
  Result<Json> parse(std::string_view text) const {
    if (text.size() > kMaxLineBytes) return wrong("longer than " + std::to_string(kMaxLineBytes) + " bytes");
    Result<Json> json = Json::parse(text);
    if (!json) return wrong(json.error().message);
    if (json->as_object() == nullptr) return wrong("no object");
    return json;
  }

  template <class T>
  Status field(const Json& json, const char* name, T& out) const {
    std::string inner;
    const Json* value = json.find(name);
    if (value == nullptr) return wrong(std::string("\"") + name + "\" is missing");
    if (!recording::read(*value, out, inner)) {
      return wrong(std::string("\"") + name + (inner.empty() ? "" : "." + inner) + "\" has a wrong value");
    }
    return {};
  }

  // A monotonic clock's reading, far from where sums would overflow.
  Status time(const Json& json, const char* name, int64_t& out) const {
    QR_TRY_VOID(field(json, name, out));
    if (out < 0 || out > kMaxNs) return wrong(std::string("\"") + name + "\" is no time: " + std::to_string(out));
    return {};
  }

  Status header(const Json& json) {
    int version = 0;
    if (json.find("quire_recording") == nullptr) return wrong("this is no recording: \"quire_recording\" is missing");
    QR_TRY_VOID(field(json, "quire_recording", version));
    if (version < kOldestRecordingVersion || version > kRecordingVersion) {
      return fail(Code::unsupported, "the recording has version " + std::to_string(version) + ", this program reads " +
                                         std::to_string(kOldestRecordingVersion) + " to " +
                                         std::to_string(kRecordingVersion));
    }
    QR_TRY_VOID(field(json, "n_vocab", out_.n_vocab));
    QR_TRY_VOID(field(json, "fingerprint", out_.fingerprint));
    QR_TRY_VOID(field(json, "n_blocks", out_.n_blocks));
    if (version < 5) out_.options.kv_policy = "lru";
    if (version < 8) out_.options.recompute_share = 1;  // all that fitted came in
    if (version < 7) out_.options.allowance = 0;
    if (version < 6) out_.options.swap_bytes = 0;
    QR_TRY_VOID(field(json, "options", out_.options));
    if (json.find("window") != nullptr) {
      QR_TRY_VOID(field(json, "window", out_.window));
      QR_TRY_VOID(field(json, "n_window_blocks", out_.n_window_blocks));
      if (out_.window < 1 || out_.n_window_blocks < 1)
        return wrong("\"window\" and \"n_window_blocks\" must be at least 1");
    }
    if (json.find("prefixes") != nullptr) QR_TRY_VOID(read_prefixes(json));
    if (out_.n_vocab < 1 || out_.n_blocks < 1) return wrong("\"n_vocab\" and \"n_blocks\" must be at least 1");
    return {};
  }

  Status read_prefixes(const Json& json) {
    QR_TRY_VOID(field(json, "prefixes", out_.prefixes));
    for (const RecordedPrefix& p : out_.prefixes) {
      if (p.content == 0) return wrong("\"prefixes\" names content 0");
      if (p.n < 1 || p.n > kMaxVirtual)
        return wrong("a prefix has 1 to " + std::to_string(kMaxVirtual) + " virtual tokens, got " +
                     std::to_string(p.n));
    }
    if (out_.prefixes.size() <= kMaxPrefixes) return {};
    return wrong("at most " + std::to_string(kMaxPrefixes) + " prefixes are taken");
  }

  Status last(const Json& json) {
    int64_t n_steps = 0;
    QR_TRY_VOID(field(json, "steps", n_steps));
    QR_TRY_VOID(field(json, "hash", out_.hash));
    if (n_steps != static_cast<int64_t>(out_.steps.size())) {
      return wrong("\"steps\" is " + std::to_string(n_steps) + ", there are " + std::to_string(out_.steps.size()));
    }
    out_.complete = true;
    return {};
  }

  Status step(const Json& json) {
    RecordedStep& step = out_.steps.emplace_back();
    QR_TRY_VOID(time(json, "start", step.start_ns));
    if (json.find("end") != nullptr) QR_TRY_VOID(time(json, "end", step.end_ns));
    if (const Json* submits = json.find("submit")) QR_TRY_VOID(read_submits(*submits, step));
    if (const Json* cancels = json.find("cancel")) QR_TRY_VOID(read_cancels(*cancels, step));
    if (const Json* drafts = json.find("drafts")) QR_TRY_VOID(read_drafts(*drafts, step));
    if (json.find("preempted") != nullptr) {
      int64_t n = 0;
      QR_TRY_VOID(field(json, "preempted", n));
      step.decisions.push_back({EngineDecision::Kind::preempt, 0, n});
    }
    if (const Json* grants = json.find("grants")) QR_TRY_VOID(read_decisions(*grants, "grants", step));
    if (const Json* outputs = json.find("out")) QR_TRY_VOID(read_decisions(*outputs, "out", step));
    return {};
  }

  Status read_submits(const Json& json, RecordedStep& step) {
    if (json.as_array() == nullptr) return wrong("\"submit\" is no list");
    for (const Json& each : *json.as_array()) {
      RecordedRequest& r = step.submits.emplace_back();
      std::string inner;
      if (each.find("id") == nullptr || !recording::read(each, r, inner)) {
        return wrong("\"submit" + (inner.empty() ? "" : "." + inner) + "\" has a wrong value");
      }
      if (!is_sound(r.request.sampling.thinking)) return wrong("\"submit.sampling.thinking\" has a wrong value");
      if (r.id <= last_id_) return wrong("\"submit.id\" is " + std::to_string(r.id) + ", they must rise");
      QR_TRY_VOID(time(each, "at", r.at_ns));
      last_id_ = r.id;
    }
    return {};
  }

  // A budget of thinking that its rule can take.
  bool is_sound(const std::shared_ptr<const ThinkingBudget>& budget) const {
    constexpr size_t kMaxMark = 64;
    if (budget == nullptr) return true;
    const auto is_token = [&](Token id) { return id >= 0 && id < out_.n_vocab; };
    const auto is_mark = [&](const std::string& text, Token id) {
      return !text.empty() && text.size() <= kMaxMark && (id == -1 || is_token(id));
    };
    return budget->n_tokens >= 0 && is_mark(budget->open, budget->open_id) &&
           is_mark(budget->close, budget->close_id) && !budget->closing.empty() && budget->closing.size() <= kMaxMark &&
           std::all_of(budget->closing.begin(), budget->closing.end(), is_token);
  }

  // The number of a sequence that was submitted before.
  bool read_id(const Json& json, SeqId& out) const {
    if (json.as_int() == nullptr || *json.as_int() < 1) return false;
    out = static_cast<SeqId>(*json.as_int());
    return out <= last_id_;
  }

  Status read_cancels(const Json& json, RecordedStep& step) const {
    if (json.as_array() == nullptr) return wrong("\"cancel\" is no list");
    for (const Json& each : *json.as_array()) {
      if (!read_id(each, step.cancels.emplace_back())) return wrong("\"cancel\" names no sequence");
    }
    return {};
  }

  Status read_drafts(const Json& json, RecordedStep& step) const {
    if (json.as_array() == nullptr) return wrong("\"drafts\" is no list");
    std::string inner;
    for (const Json& each : *json.as_array()) {
      const Json::Array* parts = each.as_array();
      RecordedDraft& draft = step.drafts.emplace_back();
      const bool read = parts != nullptr && (parts->size() == 2 || parts->size() == 3) &&
                        read_id((*parts)[0], draft.seq) && recording::read((*parts)[1], draft.tokens, inner) &&
                        (parts->size() == 2 || recording::read((*parts)[2], draft.parents, inner));
      const auto outside = [&](Token id) { return id < 0 || id >= out_.n_vocab; };
      if (!read || std::any_of(draft.tokens.begin(), draft.tokens.end(), outside)) {
        return wrong("\"drafts\" has a wrong entry");
      }
    }
    return {};
  }

  Status read_decisions(const Json& json, const std::string& name, RecordedStep& step) const {
    if (json.as_array() == nullptr) return wrong("\"" + name + "\" is no list");
    for (const Json& each : *json.as_array()) {
      const Json::Array* two = each.as_array();
      EngineDecision& d = step.decisions.emplace_back();
      if (two == nullptr || two->size() != 2 || !read_id((*two)[0], d.seq) || !read_value((*two)[1], name, d)) {
        return wrong("\"" + name + "\" has a wrong entry");
      }
    }
    return {};
  }

  bool read_value(const Json& json, const std::string& name, EngineDecision& d) const {
    if (const std::string* text = json.as_string()) {
      static constexpr std::array<std::string_view, 4> kNames = {"stop", "length", "cancelled", "error"};
      const auto at = std::find(kNames.begin(), kNames.end(), *text);
      d.kind = EngineDecision::Kind::finish;
      d.value = at - kNames.begin();
      return name == "out" && at != kNames.end();
    }
    if (json.as_int() == nullptr) return false;
    d.kind = name == "out" ? EngineDecision::Kind::token : EngineDecision::Kind::grant;
    d.value = *json.as_int();
    return name == "out" ? d.value >= 0 && d.value < out_.n_vocab : d.value >= 1;
  }

  Recording& out_;
  int64_t n_line_ = 0;
  SeqId last_id_ = 0;
};

}  // namespace

Result<Recording> read_recording(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return fail(Code::invalid, path + ": is a folder; a recording is a file that quire serve --record has written");
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return fail(Code::io, path + ": cannot be read");
  if (const int64_t bytes = in.tellg(); bytes > kMaxBytes) {
    return fail(Code::invalid,
                path + ": has " + std::to_string(bytes) + " bytes, at most " + std::to_string(kMaxBytes) + " are read");
  }
  in.seekg(0);
  Result<Recording> out = read_recording(in);
  if (!out) return fail(out.error().code, path + ": " + out.error().message);
  return out;
}

Result<Recording> read_recording(std::istream& in) {
  Recording out;
  Reader reader(out);
  std::string line;
  int64_t n_lines = 0;
  for (bool whole = false; read_line(in, line, whole); ++n_lines) {
    if (!whole && n_lines > 0 && line.size() <= kMaxLineBytes) break;  // the program was killed while it wrote
    QR_TRY_VOID(reader.add(line));
  }
  if (n_lines == 0) return fail(Code::corrupt, "is empty");
  return out;
}

}  // namespace quire
