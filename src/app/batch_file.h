// The lines of an OpenAI batch: requests in, results out. Pure but for the two files that are read. Any thread.
#pragma once
#include <cstdint>
#include <set>
#include <string>

#include "base/json.h"
#include "base/result.h"

namespace quire {

struct BatchLine {
  std::string custom_id, url;
  Json body;
};
// {"custom_id", "method": "POST", "url": "/v1/…", "body": {…}}. Code::invalid names the member; a body that asks for a
// stream is refused.
Result<BatchLine> parse_batch_line(const std::string& text);

// {"id", "custom_id", "response": {"status_code", "request_id", "body"}, "error": null}.
std::string batch_result(int64_t n_line, const std::string& custom_id, int status, Json body);
// The same with "response": null and "error": {"code", "message"}; an empty custom_id becomes null.
std::string batch_failure(int64_t n_line,
                          const std::string& custom_id,
                          const std::string& code,
                          const std::string& message);

// What is done in a results file, so that a run can go on where the last one ended: lines with a status below 500 that
// is not 429. The others are dropped from the file, and so is a last line that was cut off; it is replaced as a whole.
// A file that does not exist has none. Code::io when it cannot be read or replaced.
Result<std::set<std::string>> keep_done(const std::string& path);

}  // namespace quire
