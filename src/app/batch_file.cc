#include "app/batch_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>

#include "app/json_fields.h"
#include "app/output_file.h"

namespace quire {
namespace {

// The custom_id of a result that needs no second try; null otherwise.
const std::string* done_id(const Json& line) {
  const Json* response = line.find("response");
  const Json* status = response != nullptr ? response->find("status_code") : nullptr;
  if (status == nullptr || status->as_int() == nullptr) return nullptr;
  if (*status->as_int() >= 500 || *status->as_int() == 429) return nullptr;
  return string_at(line, "custom_id");
}

Json result_head(int64_t n_line, const std::string& custom_id) {
  Json out;
  out.set("id", "batch_req_" + std::to_string(n_line));
  out.set("custom_id", custom_id.empty() ? Json() : Json(custom_id));
  return out;
}

constexpr std::string_view kResultBegins = "{\"id\":\"batch_req_";

// What a cut line could have become.
bool may_become_result(std::string_view cut) {
  const size_t n = std::min(cut.size(), kResultBegins.size());
  return cut.substr(0, n) == kResultBegins.substr(0, n);
}

bool is_result(const Json& line) {
  return line.find("custom_id") != nullptr && line.find("response") != nullptr && line.find("error") != nullptr;
}

// Calls `see` with each result and its line. `cut`: whether the last line has no end; it is not seen.
Status read_results(const std::string& path,
                    const std::function<Status(const std::string&, const Json&)>& see,
                    bool& cut) {
  namespace fs = std::filesystem;
  std::error_code error;
  cut = false;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) return fail(Code::invalid, "OUT " + path + " is there and is no file");
  if (!fs::is_regular_file(status)) return {};
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(Code::io, path + ": cannot read");
  int64_t n_line = 0;
  for (std::string line; std::getline(in, line);) {
    ++n_line;
    cut = in.eof();
    if (!cut && line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Result<Json> json = cut ? Result<Json>(Json()) : Json::parse(line);
    if (cut ? !may_become_result(line) : !json || json->as_object() == nullptr || !is_result(*json)) {
      return fail(Code::invalid, "OUT " + path + " is there, and its line " + std::to_string(n_line) +
                                     " is no result of a batch; name a new file, or --restart replaces it");
    }
    if (!cut) QR_TRY_VOID(see(line, *json));
  }
  return in.bad() ? fail(Code::io, path + ": cannot read") : Status{};
}

}  // namespace

Result<BatchLine> parse_batch_line(const std::string& text) {
  QR_TRY(const Json json, Json::parse(text));
  if (json.as_object() == nullptr) return fail(Code::invalid, "the line is no JSON object");
  BatchLine out;
  const std::string* id = string_at(json, "custom_id");
  if (id == nullptr || id->empty()) return fail(Code::invalid, "custom_id must be a string that is not empty");
  out.custom_id = *id;
  const std::string* method = string_at(json, "method");
  if (method == nullptr || *method != "POST") return fail(Code::invalid, "method must be \"POST\"");
  const std::string* url = string_at(json, "url");
  if (url == nullptr || !url->starts_with("/v1/")) return fail(Code::invalid, "url must begin with \"/v1/\"");
  out.url = *url;
  const Json* body = json.find("body");
  if (body == nullptr || body->as_object() == nullptr) return fail(Code::invalid, "body must be an object");
  const Json* stream = body->find("stream");
  if (stream != nullptr && stream->as_bool() != nullptr && *stream->as_bool())
    return fail(Code::invalid, "body.stream must be false in a batch");
  out.body = *body;
  return out;
}

std::string custom_id_in(const std::string& text) {
  const Result<Json> json = Json::parse(text);
  const std::string* id = json && json->as_object() != nullptr ? string_at(*json, "custom_id") : nullptr;
  return id != nullptr ? *id : "";
}

std::string batch_result(int64_t n_line, const std::string& custom_id, int status, Json body) {
  Json response, out = result_head(n_line, custom_id);
  const std::string* request_id = string_at(body, "id");
  response.set("status_code", status);
  response.set("request_id", request_id != nullptr ? Json(*request_id) : Json());
  response.set("body", std::move(body));
  out.set("response", std::move(response));
  out.set("error", Json());
  return out.dump();
}

std::string batch_failure(int64_t n_line,
                          const std::string& custom_id,
                          const std::string& code,
                          const std::string& message) {
  Json error, out = result_head(n_line, custom_id);
  error.set("code", code);
  error.set("message", message);
  out.set("response", Json());
  out.set("error", std::move(error));
  return out.dump();
}

Status check_results(const std::string& path) {
  bool cut = false;
  return read_results(path, [](const std::string&, const Json&) { return Status{}; }, cut);
}

Result<std::set<std::string>> keep_done(const std::string& path) {
  std::set<std::string> done;
  bool cut = false, others = false;
  QR_TRY_VOID(read_results(
      path,
      [&](const std::string&, const Json& line) -> Status {
        const std::string* id = done_id(line);
        others |= id == nullptr || !done.insert(*id).second;
        return {};
      },
      cut));
  if (!cut && !others) return done;
  QR_TRY(const std::unique_ptr<OutputFile> kept, OutputFile::create(path));
  std::set<std::string> written;
  QR_TRY_VOID(read_results(
      path,
      [&](const std::string& line, const Json& json) -> Status {
        const std::string* id = done_id(json);
        return id != nullptr && written.insert(*id).second ? kept->write((line + '\n').data(), line.size() + 1)
                                                           : Status{};
      },
      cut));
  QR_TRY_VOID(kept->finish());
  return done;
}

}  // namespace quire
