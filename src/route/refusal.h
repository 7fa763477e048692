// What the router itself says where it refuses a request. One text for one cause, and one place that knows how a
// dialect writes errors. Pure but for the sending.
#pragma once
#include <string_view>

#include "http/keys.h"
#include "http/reply.h"

namespace quire {

// Whether the path is of Ollama's dialect.
bool is_ollama(std::string_view path);

// As the dialect of the path writes errors: Ollama's, else OpenAI's. `extra`: more fields of the head.
void send_error_of(Reply& reply, std::string_view path, const HttpError& error, HttpHeaders extra);

// Retry-After: at least a second; no field where asking again later is no help.
HttpHeaders retry_after(const KeyRefusal& refusal);

// `where`: "here", or "on this machine" where other workers' models are of no use.
HttpError unknown_model(std::string_view name, std::string_view where);
HttpError stopping();

}  // namespace quire
