#include "tests/sim/traces.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace quire::sim {
namespace {

constexpr int kMooncakeBlock = 512;
constexpr uint64_t kFirstText = 1 << 20;

Script empty_script(int n_ctx) {
  Script out;
  out.knobs.max_seqs = 32;
  out.knobs.step_tokens = out.knobs.max_chunk = 256;
  out.knobs.n_ctx = n_ctx;
  out.knobs.block_tokens = 16;
  out.knobs.n_blocks = 2 * n_ctx / 16;
  out.knobs.max_queue = 1 << 20;
  return out;
}

RequestScript request_at(int64_t ns, int n_out, size_t index) {
  RequestScript out;
  out.arrival_ns = ns;
  out.max_tokens = std::max(1, n_out);
  out.seed = index;
  out.temperature = 1.0F;
  return out;
}

}  // namespace

std::string trace_path(const std::string& file) {
  const char* named = std::getenv("QUIRE_SHARED");
  const std::string path = std::string(named != nullptr ? named : "../shared") + "/data/traces/" + file;
  return std::filesystem::exists(path) ? path : "";
}

Result<Script> azure_script(const std::string& path, const TraceScale& scale) {
  std::ifstream in(path);
  Script out = empty_script(1024);
  std::string line;
  std::getline(in, line);  // the heads of the columns
  int64_t first_ns = -1;
  while (static_cast<int>(out.requests.size()) < scale.n_requests && std::getline(in, line)) {
    int day = 0, hour = 0, minute = 0, n_in = 0, n_out = 0;
    double second = 0;
    if (std::sscanf(line.c_str(), "%*d-%*d-%d %d:%d:%lf,%d,%d", &day, &hour, &minute, &second, &n_in, &n_out) != 6) {
      return fail(Code::corrupt, path + ": \"" + line + "\" is no line of the trace");
    }
    const int64_t minutes = (int64_t{day} * 24 + hour) * 60 + minute;
    const int64_t ns = minutes * 60'000'000'000 + static_cast<int64_t>(second * 1e9);
    if (first_ns < 0) first_ns = ns;
    const size_t i = out.requests.size();
    RequestScript& r = out.requests.emplace_back(request_at((ns - first_ns) / scale.time, n_out / scale.length, i));
    r.prompt.push_back({kFirstText + i, std::max(1, n_in / scale.length)});
  }
  if (out.requests.empty()) return fail(Code::corrupt, path + ": has no requests");
  return out;
}

Result<Script> mooncake_script(const std::string& path, const TraceScale& scale) {
  std::ifstream in(path);
  Script out = empty_script(4096);
  std::string line;
  while (static_cast<int>(out.requests.size()) < scale.n_requests && std::getline(in, line)) {
    QR_TRY(const Json json, Json::parse(line));
    const Json* at = json.find("timestamp");
    const Json* n_in = json.find("input_length");
    const Json* n_out = json.find("output_length");
    const Json* ids = json.find("hash_ids");
    if (!at || !n_in || !n_out || !ids || !ids->as_array()) {
      return fail(Code::corrupt, path + ": \"" + line + "\" is no line of the trace");
    }
    const auto ns = static_cast<int64_t>(at->number() * 1e6) / scale.time;
    RequestScript& r = out.requests.emplace_back(
        request_at(ns, static_cast<int>(n_out->number()) / scale.length, out.requests.size()));
    int left = std::max(1, static_cast<int>(n_in->number()) / scale.length);
    for (const Json& id : *ids->as_array()) {
      if (left == 0) break;
      const int n = std::min(left, kMooncakeBlock / scale.length);
      r.prompt.push_back({kFirstText + static_cast<uint64_t>(id.number()), n});
      left -= n;
    }
  }
  if (out.requests.empty()) return fail(Code::corrupt, path + ": has no requests");
  return out;
}

}  // namespace quire::sim
