// quire explain: how much of a prompt a running server has cached, and why no more (POST /v1/cache/explain).
#include <cstdio>

#include "app/command.h"
#include "app/json_fields.h"
#include "app/remote.h"
#include "app/text_file.h"

namespace quire {
namespace {

struct Args {
  std::string file, prompt, url = "http://localhost:8080", api_key, model, salt;
  bool json = false;
};

constexpr int kTimeoutMs = 60'000;
constexpr int64_t kMostBytes = 64 << 20;

// A file that is a JSON object is a request's body; any other is the prompt itself.
Result<Json> body_of(const Args& args) {
  if (args.file.empty() == args.prompt.empty())
    return fail(Code::invalid, "give one of FILE and --prompt, the prompt to explain");
  Json body = Json::Object{};
  if (args.file.empty()) {
    body.set("prompt", args.prompt);
  } else {
    QR_TRY(std::string text, args.file == "-" ? read_stdin(kMostBytes) : read_text_file("FILE", args.file, kMostBytes));
    Result<Json> json = Json::parse(text);
    const bool is_body = json && json->as_object() != nullptr;
    if (is_body) body = std::move(*json);
    if (!is_body) body.set("prompt", std::move(text));
  }
  if (!args.model.empty()) body.set("model", args.model);
  if (!args.salt.empty()) body.set("cache_salt", args.salt);
  return body;
}

int64_t number_at(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  return value != nullptr && value->as_int() != nullptr ? *value->as_int() : 0;
}

std::string text_at(const Json& object, std::string_view key) {
  const std::string* value = string_at(object, key);
  return value != nullptr ? *value : "";
}

// In one line: quoted and escaped as JSON has it.
std::string quoted(const Json& object, std::string_view key) {
  std::string out;
  append_json_string(out, text_at(object, key));
  return out;
}

void print(const Json& answer) {
  const Json* tiers = answer.find("cached_tokens_by_tier");
  std::printf("prompt      %lld tokens\n", static_cast<long long>(number_at(answer, "prompt_tokens")));
  std::printf("cached      %lld", static_cast<long long>(number_at(answer, "cached_tokens")));
  if (tiers != nullptr) {
    std::printf(" (memory %lld, disk %lld, remote %lld)", static_cast<long long>(number_at(*tiers, "memory")),
                static_cast<long long>(number_at(*tiers, "disk")), static_cast<long long>(number_at(*tiers, "remote")));
  }
  std::printf("\nto compute  %lld\n", static_cast<long long>(number_at(answer, "computed_tokens")));
  std::printf("cause       %s: %s\n", text_at(answer, "cause").c_str(), text_at(answer, "reason").c_str());
  const Json* difference = answer.find("first_difference");
  if (difference == nullptr || difference->as_object() == nullptr) return;
  const std::string role = text_at(*difference, "role");
  const std::string in =
      role.empty() ? "" : ", in messages[" + std::to_string(number_at(*difference, "message")) + "] (" + role + ")";
  std::printf("parts at    token %lld%s, behind %s\n", static_cast<long long>(number_at(*difference, "token")),
              in.c_str(), quoted(*difference, "before").c_str());
  std::printf("  prompt    %s\n", quoted(*difference, "prompt").c_str());
  std::printf("  stored    %s\n", quoted(*difference, "stored").c_str());
}

Status run(const Args& args) {
  QR_TRY(const Json body, body_of(args));
  QR_TRY(Remote remote, parse_remote(args.url));
  remote.api_key = args.api_key;
  HttpClient client = connect_to(remote, kTimeoutMs);
  QR_TRY(const Json answer, post_json(client, remote, "/v1/cache/explain", body));
  if (args.json) {
    std::printf("%s\n", answer.dump().c_str());
  } else {
    print(answer);
  }
  return {};
}

QR_REGISTER(Command,
            "explain",
            Command{"say how much of a prompt a running server has cached, and why no more", false,
                    [](CommandLine& line) -> std::function<int()> {
                      auto args = std::make_shared<Args>();
                      line.positional(
                          "FILE", args->file, false,
                          "the body of a chat or completion request as JSON, or the prompt as text; - is stdin");
                      line.option("--prompt", args->prompt, "the prompt's text, in place of FILE");
                      line.option("--url", args->url, "the server");
                      line.option("--api-key", args->api_key, "of that server");
                      line.option("--model-name", args->model, "what to ask it for, an adapter's name say");
                      line.option("--salt", args->salt, "the request's cache_salt");
                      line.flag("--json", args->json, "print the server's answer as it is");
                      return [args] { return exit_code(run(*args)); };
                    }});

}  // namespace
}  // namespace quire
