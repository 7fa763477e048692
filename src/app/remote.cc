#include "app/remote.h"

#include "app/json_fields.h"
#include "base/clock.h"
#include "http/server_url.h"

namespace quire {
namespace {

HttpHeaders headers_for(const Remote& remote) {
  HttpHeaders out{{"Content-Type", "application/json"}};
  if (!remote.api_key.empty()) out.push_back({"Authorization", "Bearer " + remote.api_key});
  return out;
}

// The words of an error object, or the start of whatever came instead.
std::string error_words(const std::string& body) {
  const Result<Json> json = Json::parse(body);
  const Json* error = json ? json->find("error") : nullptr;
  if (const std::string* message = error != nullptr ? string_at(*error, "message") : nullptr) return *message;
  return body.substr(0, 200);
}

void read_usage(const Json& usage, RemoteAnswer& out) {
  const auto number = [](const Json* value, int64_t& into) {
    if (value != nullptr && value->as_int() != nullptr) into = *value->as_int();
  };
  number(usage.find("prompt_tokens"), out.n_prompt);
  number(usage.find("completion_tokens"), out.n_generated);
  if (const Json* details = usage.find("prompt_tokens_details")) number(details->find("cached_tokens"), out.n_cached);
}

// Reads one stream; `done` once [DONE] came.
class StreamReader {
 public:
  StreamReader(const Ask& ask, RemoteAnswer& out) : ask_(ask), out_(out) {}
  bool done() const { return done_; }

  bool take(const SseEvent& event, int64_t at_ns) {
    if (event.data == "[DONE]") {
      done_ = true;
      return true;
    }
    const Result<Json> json = Json::parse(event.data);
    if (!json || json->as_object() == nullptr) {
      out_.failure = "protocol";
      out_.message = "an event is no JSON object: " + event.data.substr(0, 200);
      return false;
    }
    if (event.event == "error" || json->find("error") != nullptr) {
      out_.failure = "stream";
      out_.message = error_words(event.data);
      return false;
    }
    if (const Json* usage = json->find("usage")) read_usage(*usage, out_);
    return take_choice(*json, at_ns);
  }

 private:
  bool take_choice(const Json& chunk, int64_t at_ns) {
    const Json* choices = chunk.find("choices");
    if (choices == nullptr || choices->as_array() == nullptr || choices->as_array()->empty()) return true;
    const Json& choice = choices->as_array()->front();
    if (const std::string* finish = string_at(choice, "finish_reason")) out_.finish = *finish;
    const Json* delta = choice.find("delta");
    bool more = true;
    if (delta != nullptr) {
      more = take_text(string_at(*delta, "reasoning_content"), at_ns);
      more = take_text(string_at(*delta, "content"), at_ns) && more;
    }
    return take_text(string_at(choice, "text"), at_ns) && more;
  }
  bool take_text(const std::string* text, int64_t at_ns) {
    if (text == nullptr || text->empty()) return true;
    out_.piece_ns.push_back(at_ns);
    out_.text += *text;
    return !ask_.on_text || ask_.on_text(*text);
  }

  const Ask& ask_;
  RemoteAnswer& out_;
  bool done_ = false;
};

std::string failure_of(const Error& error) {
  if (error.code == Code::timeout) return "timeout";
  if (error.code == Code::corrupt) return "protocol";
  return error.message.find("cannot connect") != std::string::npos ? "connect" : "cut";
}

}  // namespace

Result<Remote> parse_remote(const std::string& url) {
  auto read = parse_server_url(url);
  if (!read) return fail(Code::invalid, "\"" + url + "\" is no address of a server: " + read.error().message);
  if (!read->at.tls_name.empty())
    return fail(Code::invalid, "\"" + url + "\": https is not supported here, put a proxy in front or use http");
  return Remote{std::move(read->at.host), read->at.port, std::move(read->base), ""};
}

HttpClient connect_to(const Remote& remote, int timeout_ms) {
  ClientOptions options;
  options.host = remote.host;
  options.port = remote.port;
  options.timeout_ms = timeout_ms;
  return HttpClient(options);
}

RemoteAnswer ask(HttpClient& client, const Remote& remote, const Ask& ask) {
  RemoteAnswer out;
  Json body = ask.body;
  body.set("stream", true);
  Json options;
  options.set("include_usage", true);
  body.set("stream_options", std::move(options));
  ClientRequest request{"POST", remote.base + (ask.chat ? "/v1/chat/completions" : "/v1/completions"),
                        headers_for(remote), body.dump()};
  StreamReader reader(ask, out);
  const auto response =
      client.events(request, [&](SseEvent&& event, int64_t at_ns) { return reader.take(event, at_ns); });
  out.done_ns = response ? response->done_ns : SystemClock().now_ns();
  if (!response) {
    out.failure = failure_of(response.error());
    out.message = response.error().message;
    return out;
  }
  out.sent_ns = response->sent_ns;
  if (response->status != 200) {
    out.failure = "http_" + std::to_string(response->status);
    out.message = error_words(response->body);
  } else if (out.failure.empty() && response->stopped) {
    out.left = true;
  } else if (out.failure.empty() && !reader.done() && out.finish.empty()) {
    out.failure = "cut";
    out.message = "the stream ended without [DONE] or a finish_reason";
  }
  return out;
}

Result<Json> post_json(HttpClient& client, const Remote& remote, std::string_view path, const Json& body) {
  const std::string name(path);
  QR_TRY(const HttpResponse response, client.request({"POST", remote.base + name, headers_for(remote), body.dump()}));
  if (response.status != 200)
    return fail(Code::io, name + " answers " + std::to_string(response.status) + ": " + error_words(response.body));
  Result<Json> json = Json::parse(response.body);
  if (!json) return fail(Code::corrupt, name + " answers no JSON");
  return json;
}

Result<std::string> first_model(HttpClient& client, const Remote& remote) {
  QR_TRY(const HttpResponse response,
         client.request({"GET", remote.base + "/v1/models", headers_for(remote), std::string()}));
  if (response.status != 200) {
    return fail(Code::io, "/v1/models answers " + std::to_string(response.status) + ": " + error_words(response.body));
  }
  const Result<Json> json = Json::parse(response.body);
  const Json* data = json ? json->find("data") : nullptr;
  if (data == nullptr || data->as_array() == nullptr || data->as_array()->empty()) {
    return fail(Code::corrupt, "/v1/models names no model");
  }
  const std::string* id = string_at(data->as_array()->front(), "id");
  if (id == nullptr) return fail(Code::corrupt, "/v1/models names no model");
  return *id;
}

}  // namespace quire
