// Where an answer that streams may be cut: behind whole events (server-sent events), whole lines (NDJSON) or anywhere.
// What passes through ends there, so that an error which has to be said in the middle is an event of its own. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "http/error_form.h"

namespace quire {

enum class StreamForm : uint8_t { bytes, events, lines };

// By an answer's Content-Type; null: none.
StreamForm form_of(const std::string* content_type);
// How many of `bytes`, which begin at such a place, end at one; 0: not even one is whole.
size_t whole_bytes(StreamForm form, std::string_view bytes);
// How many events that say something, or lines, of `bytes`, which begin at such a place, are whole; 0 of bytes.
int64_t n_whole(StreamForm form, std::string_view bytes);
// What tells `error` at such a place, in a dialect's form; empty: it cannot be told. Lines are Ollama's.
std::string error_tail(StreamForm form, const HttpError& error, ErrorForm dialect);

}  // namespace quire
