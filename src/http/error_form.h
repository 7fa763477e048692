// How the dialects of this server's clients write an error: one place for all who refuse before a dialect's own code
// runs, and for the dialects themselves. Pure; any thread.
#pragma once
#include <string>
#include <string_view>

#include "http/message.h"

namespace quire {

// The body of a refusal, always valid JSON. OpenAI's form is error_body (http/message.h).
using ErrorForm = std::string (*)(const HttpError&);

// {"type":"error","error":{"type":…,"message":…}}, the type by the status.
std::string anthropic_error(const HttpError&);
// {"error":"…"}
std::string ollama_error(const HttpError&);

// Whether the path is of Ollama's dialect.
bool is_ollama(std::string_view path);
// The form of the dialect that the path belongs to: /v1/messages is Anthropic's, /api Ollama's, any other OpenAI's.
ErrorForm error_form(std::string_view path);

}  // namespace quire
