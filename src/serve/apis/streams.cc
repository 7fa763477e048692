// GET /v1/streams/{name}: a client that was cut off takes up its stream again, behind the event that Last-Event-ID, or
// the query's "after", names; from the start without. Where no key proves who it is, the secret that came with the
// stream does. DELETE ends it: a client that stops reading is one that may come back.
#include <charconv>

#include "serve/api.h"
#include "serve/resumable_stream.h"

namespace quire {
namespace {

constexpr std::string_view kPath = "/v1/streams/";

ApiResult<std::shared_ptr<ResumableStream>> stream_of(const ApiRequest& request, const ServeEnv& env) {
  const std::string_view id = std::string_view(request.http.path).substr(kPath.size());
  const std::string* secret = request.http.header(kStreamSecretHeader);
  auto stream = env.streams->find(id, request.asker, secret != nullptr ? *secret : "");
  if (stream == nullptr)
    return refuse(
        HttpError{404, "no stream '" + shown(id) + "' is kept here", "not_found_error", "", "stream_not_found"});
  return stream;
}

ApiResult<Call> take_up(const ApiRequest& request, const ServeEnv& env) {
  const std::string* header = request.http.header("last-event-id");
  const std::string number = header != nullptr ? *header : request.http.query_param("after").value_or("0");
  int64_t after = -1;
  const auto [end, ec] = std::from_chars(number.data(), number.data() + number.size(), after);
  if (ec != std::errc() || end != number.data() + number.size() || after < 0)
    return refuse(bad_field("last-event-id", "is '" + shown(number) + "': it must be an event's number"));
  QR_TRY(auto stream, stream_of(request, env));
  return Call(TakeUp{std::move(stream), after});
}

ApiResult<Call> cancel(const ApiRequest& request, const ServeEnv& env) {
  QR_TRY(const auto stream, stream_of(request, env));
  env.streams->erase(*stream);
  stream->cancel();
  std::string out = "{\"id\":";
  append_json_string(out, stream->name().id);
  return Call(Answer{.body = out + ",\"object\":\"stream\",\"deleted\":true}"});
}

const Api kApi{{{.method = "GET",
                 .path = "/v1/streams/*",
                 .quick = true,
                 .parse = &take_up,
                 .summary = "Goes on with a stream whose client was cut off"},
                {.method = "DELETE",
                 .path = "/v1/streams/*",
                 .quick = true,
                 .parse = &cancel,
                 .summary = "Ends a stream and forgets it"}}};
QR_REGISTER(Api, "streams", kApi);

}  // namespace
}  // namespace quire
