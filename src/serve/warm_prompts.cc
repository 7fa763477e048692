#include "serve/warm_prompts.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "serve/prompt_body.h"
#include "serve/public_prompts.h"
#include "serve/seeds.h"

namespace quire {
namespace {

class Waiter final : public EventSink {
 public:
  void on_token(SeqId, const TokenEvent&) override {}
  void on_finish(SeqId, Finish finish, const Usage& usage, const std::string& error) override {
    const std::lock_guard lock(mutex_);
    finish_ = finish;
    usage_ = usage;
    error_ = error;
    done_ = true;
    ready_.notify_one();
  }
  Result<Usage> wait() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [this] { return done_; });
    if (finish_ == Finish::error) return fail(Code::exhausted, error_);
    if (finish_ == Finish::cancelled) return fail(Code::cancelled, "the engine has stopped");
    return usage_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  bool done_ = false;
  Finish finish_ = Finish::stop;
  Usage usage_;
  std::string error_;
};

ApiResult<Job> read_line(const Json& value, const ServeEnv& env) {
  Json body = value;
  if (value.as_string() != nullptr) {
    body = Json(Json::Object{{"prompt", value}});
  } else if (value.as_object() == nullptr) {
    return refuse(HttpError{400, "it must be a string or an object", "invalid_request_error", "", "invalid_type"});
  }
  Warnings warnings;
  const Reading reading{env.limits, warnings};
  QR_TRY(const Args args, prompt_body_schema().check(body, reading, ""));
  if (args.has("cache_salt")) return refuse(unsupported_field("cache_salt", "a prompt that is warmed is everybody's"));
  const HttpRequest none;
  Job job;
  QR_TRY_VOID(read_prompt_body({none, args, reading}, env, job));
  if (const std::string text = warnings.text(); !text.empty()) log_warn("a warm prompt: " + text);
  return job;
}

Request make_request(Job&& job, uint64_t id) {
  Request out;
  out.prompt = std::move(job.prompts[0]);
  out.n_public = static_cast<int>(out.prompt.size());
  out.sampling = job.generation.sampling;
  out.max_tokens = 1;
  if (job.generation.prefix != nullptr) out.prefix = job.generation.prefix->content;
  out.adapter = job.generation.adapter;
  out.pin = {id, kOperatorPins, std::numeric_limits<int>::max()};
  return out;
}

Result<Usage> warm_one(const std::string& line, const ServeEnv& env, Engine& engine, PublicPrompts& prompts) {
  QR_TRY(const Json value, Json::parse(line));
  ApiResult<Job> job = read_line(value, env);
  if (!job) return fail(Code::invalid, job.error().message);
  prompts.add(job->prompts[0]);
  const auto waiter = std::make_shared<Waiter>();
  QR_TRY_VOID(engine.submit(make_request(std::move(*job), std::max<uint64_t>(env.seeds->next(), 1)), waiter));
  return waiter->wait();
}

}  // namespace

Status warm_up(std::span<const std::string> lines, const ServeEnv& env, Engine& engine, PublicPrompts& prompts) {
  int64_t n_tokens = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    const Result<Usage> warmed = warm_one(lines[i], env, engine, prompts);
    if (!warmed)
      return fail(warmed.error().code, "warm prompt " + std::to_string(i + 1) + ": " + warmed.error().message);
    n_tokens += warmed->n_pinned;
  }
  if (!lines.empty())
    log_info("warm prompts: " + std::to_string(lines.size()) + ", of which " + std::to_string(n_tokens) +
             " tokens are pinned");
  return {};
}

}  // namespace quire
