#include "app/batch_file.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "app/json_fields.h"

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

Result<std::set<std::string>> keep_done(const std::string& path) {
  std::set<std::string> done;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return done;
  std::ifstream in(path, std::ios::binary);
  const std::string kept_path = path + ".kept";
  std::ofstream kept(kept_path, std::ios::binary);
  for (std::string line; std::getline(in, line);) {
    if (in.eof()) break;  // the last one has no end: it was cut off
    const Result<Json> json = Json::parse(line);
    const std::string* id = json ? done_id(*json) : nullptr;
    if (id != nullptr && done.insert(*id).second) kept << line << '\n';
  }
  if (in.bad() || (!in.eof() && in.fail())) return fail(Code::io, path + ": cannot read");
  kept.close();
  if (kept.fail()) return fail(Code::io, kept_path + ": cannot write");
  std::filesystem::rename(kept_path, path, error);
  if (error) return fail(Code::io, path + ": cannot be replaced: " + error.message());
  return done;
}

}  // namespace quire
