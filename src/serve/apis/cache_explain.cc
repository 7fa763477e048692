// POST /v1/cache/explain: how much of a prompt is cached, and why no more, without computing anything. What others have
// stored is never told: of stored text only the asker's own under the same adapter and salt is looked at
// (kv/path_trace.h).
#include <algorithm>

#include "engine/request.h"
#include "serve/adapters.h"
#include "serve/api.h"
#include "serve/miss.h"
#include "serve/openai.h"
#include "serve/prompt_body.h"
#include "serve/recent_salts.h"

namespace quire {
namespace {

class Writer final : public ReplyWriter {
 public:
  Writer(std::string model, MissContext context) : model_(std::move(model)), context_(std::move(context)) {}
  // Never streamed.
  void begin(int64_t, std::string&) override {}
  void delta(int, const Delta&, std::string&) override {}
  void finish(int, const Ending&, std::string&) override {}
  void end(const UsageTotals&, std::string&) override {}
  void error(const HttpError& error, std::string& out) override { out += error_body(error); }
  Pieces body(std::vector<ChoiceResult> choices, const UsageTotals&) override {
    const Explanation& found = choices.front().explained;
    const Miss miss = name_miss(found, context_);
    const int n_cached = found.n_memory + found.n_disk + found.n_remote;
    Json::Object out{{"object", "cache.explanation"},
                     {"model", model_},
                     {"prompt_tokens", found.n_prompt},
                     {"cached_tokens", n_cached},
                     {"cached_tokens_by_tier",
                      Json::Object{{"memory", found.n_memory}, {"disk", found.n_disk}, {"remote", found.n_remote}}},
                     {"computed_tokens", found.n_prompt - n_cached},
                     {"block_tokens", found.block_tokens},
                     {"cause", miss.cause},
                     {"reason", miss.reason},
                     {"first_difference", first_difference(found, context_)}};
    Json evicted;
    if (found.cause == MissCause::evicted) {
      evicted = Json::Object{{"seconds_ago", static_cast<double>(found.evicted_ago_ns) * 1e-9},
                             {"for", found.made_way_for_own ? "own" : "another"}};
    }
    out.emplace_back("evicted", std::move(evicted));
    Pieces pieces;
    pieces.add(Json(std::move(out)).dump());
    return pieces;
  }

 private:
  const std::string model_;
  const MissContext context_;
};

// The salts that the asker is known to have named, then the same salt with other adapters. Salts as requests name them.
void add_others(const ApiRequest& request, const ServeEnv& env, const Generation& asked, Job& job, MissContext& to) {
  const uint64_t own = asked.adapter != nullptr ? asked.adapter->content : 0;
  std::vector<ExplainWish::Root>& roots = job.explain->others;
  const auto add = [&](const ExplainWish::Root& root, OtherRoot&& words) {
    if (roots.size() == kMostOtherRoots) return;
    roots.push_back(root);
    to.others.push_back(std::move(words));
  };
  std::vector<uint64_t> salts{0};
  if (env.salts != nullptr && !request.asker.asks_secret) {
    for (const uint64_t salt : env.salts->of(request.asker.owner)) salts.push_back(salt);
  }
  for (size_t i = 0; i < salts.size(); ++i) {
    if (salts[i] == asked.cache_salt || (i > 0 && salts[i] == 0)) continue;
    add({own, salts[i], asked.adapter != nullptr ? asked.adapter->invocation : std::vector<Token>()},
        {.unsalted = salts[i] == 0});
  }
  if (own != 0) add({0, asked.cache_salt}, {.is_adapter = true});
  if (env.adapters == nullptr) return;
  for (const AdapterTable::Entry& entry : env.adapters->all()) {
    if (entry.content != own)
      add({entry.content, asked.cache_salt, entry.invocation}, {.is_adapter = true, .adapter = entry.name});
  }
}

ApiResult<Call> explain(const ApiRequest& request, const ServeEnv& env) {
  Job job;
  MissContext context;
  QR_TRY_VOID(read_prompt_body(request, env, job, &context.chat));
  context.tokenizer = env.tokenizer;
  context.reasoning = env.reasoning.kind;
  job.explain.emplace();
  job.explain->n_before = kToldTokens;
  job.explain->n_behind = kComparedTokens;
  add_others(request, env, job.generation, job, context);
  job.writer = std::make_unique<Writer>(answering_model(env, job.generation), std::move(context));
  return Call(std::move(job));
}

const Api kApi{{
    {.method = "POST",
     .path = "/v1/cache/explain",
     .schema = &prompt_body_schema(),
     .parse = &explain,
     .summary = "How much of a prompt is cached, and why no more"},
}};
QR_REGISTER(Api, "cache_explain", kApi);

}  // namespace
}  // namespace quire
