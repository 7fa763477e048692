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
// The custom_id of a line, whatever else is wrong with it; empty where it has none.
std::string custom_id_in(const std::string& text);

// {"id", "custom_id", "response": {"status_code", "request_id", "body"}, "error": null}.
std::string batch_result(int64_t n_line, const std::string& custom_id, int status, Json body);
// The same with "response": null and "error": {"code", "message"}; an empty custom_id becomes null.
std::string batch_failure(int64_t n_line,
                          const std::string& custom_id,
                          const std::string& code,
                          const std::string& message);

// Whether a run can go on with a results file: every line is a result, by whichever program, or empty, and a last one
// without an end begins as results of batch_result() do. Code::invalid names file and line of the first that is none.
// Nothing is written. A file that is not there, a pipe and a device hold none; a folder is refused.
Status check_results(const std::string& path);

// What is done in a results file, so that a run can go on where the last one ended: lines with a status below 500 that
// is not 429. The others are dropped from the file, and so is a last line that was cut off; where there are such it is
// replaced as a whole. Errors as check_results(), with the file as it was; Code::io when it cannot be read or replaced.
Result<std::set<std::string>> keep_done(const std::string& path);

}  // namespace quire
