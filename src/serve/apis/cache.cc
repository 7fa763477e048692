// The cache as clients may use it: prompts whose computed past is to stay. POST /v1/cache/pin computes a prompt and
// pins it, POST /v1/cache/unpin gives it up, GET /v1/cache/pins lists what the asker has pinned. A pin is its key's: no
// other key sees it or gives it up, and as with everything cached no other key's prompts find it.
#include <algorithm>
#include <charconv>

#include "serve/api.h"
#include "serve/openai.h"
#include "serve/prompt_body.h"
#include "serve/seeds.h"

namespace quire {
namespace {

constexpr std::string_view kIdPrefix = "pin_";
constexpr size_t kIdDigits = 16;

constexpr Field kUnpinFields[] = {field_of("id", kString, &ServeLimits::name_bytes)};
const Schema kUnpin({kUnpinFields});

std::string id_text(uint64_t id) { return std::string(kIdPrefix) + hex64(id); }

// 0: no id of ours.
uint64_t read_id(std::string_view text) {
  if (text.size() != kIdPrefix.size() + kIdDigits || !text.starts_with(kIdPrefix)) return 0;
  text.remove_prefix(kIdPrefix.size());
  uint64_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id, 16);
  return error == std::errc() && end == text.data() + text.size() ? id : 0;
}

class Writer final : public ReplyWriter {
 public:
  Writer(uint64_t id, std::string_view model) : id_(id_text(id)) { append_json_string(model_, model); }
  // Never streamed.
  void begin(int64_t, std::string&) override {}
  void delta(int, const Delta&, std::string&) override {}
  void finish(int, const Ending&, std::string&) override {}
  void end(const UsageTotals&, std::string&) override {}
  void error(const HttpError& error, std::string& out) override { out += error_body(error); }
  Pieces body(std::vector<ChoiceResult>, const UsageTotals& usage) override {
    Pieces out;
    out.add("{\"id\":\"" + id_ + "\",\"object\":\"cache.pin\",\"model\":" + model_ + ",\"prompt_tokens\":" +
            std::to_string(usage.n_prompt) + ",\"pinned_tokens\":" + std::to_string(usage.n_pinned) +
            ",\"cached_tokens\":" + std::to_string(usage.n_cached) + "}");
    return out;
  }

 private:
  const std::string id_;
  std::string model_;
};

ApiResult<Call> pin(const ApiRequest& request, const ServeEnv& env) {
  const int64_t most = env.limits.n_pins_each;
  if (const auto n = std::ssize(env.pins(request.asker.owner)); n >= most) {
    return refuse(HttpError{400,
                            "there are " + std::to_string(n) + " pins of this client: the limit is " +
                                std::to_string(most) + limit_note(&ServeLimits::n_pins_each),
                            "invalid_request_error", "", "pins_full"});
  }
  Job job;
  QR_TRY_VOID(read_prompt_body(request, env, job));
  job.pin = {std::max<uint64_t>(env.seeds->next(), 1), request.asker.owner, static_cast<int>(most)};
  job.writer = std::make_unique<Writer>(job.pin.id, answering_model(env, job.generation));
  return Call(std::move(job));
}

ApiResult<Call> unpin(const ApiRequest& request, const ServeEnv& env) {
  const std::string_view text = request.args.text("id");
  if (text.empty()) return refuse(missing_field("id"));
  const uint64_t id = read_id(text);
  if (id == 0 || !env.unpin(id, request.asker.owner)) {
    return refuse(HttpError{404, "this client has no pin of that id", "not_found_error", "id", "not_found"});
  }
  return Answer{.body = Json(Json::Object{{"id", id_text(id)}, {"object", "cache.pin"}, {"deleted", true}}).dump()};
}

ApiResult<Call> list(const ApiRequest& request, const ServeEnv& env) {
  Json::Array pins;
  for (const PinView& pin : env.pins(request.asker.owner)) {
    pins.push_back(Json::Object{{"id", id_text(pin.id)},
                                {"object", "cache.pin"},
                                {"pinned_tokens", static_cast<int64_t>(pin.n_tokens)},
                                {"bytes", pin.bytes}});
  }
  return Answer{.body = Json(Json::Object{{"object", "list"}, {"data", std::move(pins)}}).dump()};
}

const Api kApi{{
    {.method = "POST",
     .path = "/v1/cache/pin",
     .schema = &prompt_body_schema(),
     .parse = &pin,
     .summary = "Compute a prompt and keep its cached past until it is given up"},
    {.method = "POST",
     .path = "/v1/cache/unpin",
     .schema = &kUnpin,
     .parse = &unpin,
     .summary = "Give a pinned prompt up"},
    {.method = "GET",
     .path = "/v1/cache/pins",
     .quick = true,
     .parse = &list,
     .summary = "The prompts that are pinned"},
}};
QR_REGISTER(Api, "cache", kApi);

}  // namespace
}  // namespace quire
