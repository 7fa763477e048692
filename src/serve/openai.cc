#include "serve/openai.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "serve/adapters.h"
#include "serve/logprobs.h"
#include "serve/seeds.h"

namespace quire {
namespace {

constexpr Field kStreamOptions[] = {
    flag_field("include_usage"),
    ignored_field("include_obfuscation"),
    flag_field("continuous_usage_stats"),
};

ApiResult<OpenaiCommon> read_stream_options(const Args& args, const Reading& reading, bool stream) {
  const Json* options = args.find("stream_options");
  if (options == nullptr) return OpenaiCommon();
  if (!stream) return refuse(bad_field("stream_options", "is only for requests with \"stream\": true"));
  static const Schema kSchema({kStreamOptions});
  QR_TRY(const Args inner, kSchema.check(*options, reading, "stream_options"));
  const bool usage = inner.flag("include_usage", false);
  return OpenaiCommon{usage, usage && inner.flag("continuous_usage_stats", false)};
}

}  // namespace

ApiResult<AskedModel> check_model(std::string_view model, const ServeEnv& env, Warnings& warnings) {
  AskedModel asked;
  const auto is_model = [&env](std::string_view name) {
    return std::ranges::find(env.models, name) != env.models.end();
  };
  if (is_model(model)) return asked;
  asked.prefix = prefix_of_model(model, env.models, env.prefixes);
  if (asked.prefix != nullptr) return asked;
  const size_t at = model.rfind(':');
  asked.adapter_name = at != std::string_view::npos && is_model(model.substr(0, at)) ? model.substr(at + 1) : model;
  if (env.adapters != nullptr) {
    auto adapter = env.adapters->acquire(asked.adapter_name);
    if (!adapter && adapter.error().code == Code::exhausted)
      return refuse(HttpError{503, adapter.error().message, "server_error", "model", "adapters_in_use"});
    if (!adapter && adapter.error().code != Code::not_found) return refuse(to_http_error(adapter.error(), "model"));
    if (adapter) asked.adapter = std::move(*adapter);
    if (adapter) return asked;
  }
  if (env.strict_model)
    return refuse(HttpError{404, "the model '" + shown(model) + "' does not exist here: '" + env.models[0] + "' does",
                            "invalid_request_error", "model", "model_not_found"});
  if (model.empty()) return asked;
  std::string warning = "model ";
  append_header_text(warning, model);
  warning += " is not loaded; answered by ";
  append_header_text(warning, env.models[0]);
  warnings.add(std::move(warning));
  return asked;
}

ApiResult<void> read_learned(const Args& args, AskedModel asked, const ServeEnv& env, Generation& out) {
  out.prefix = asked.prefix;
  out.adapter = std::move(asked.adapter);
  out.adapter_name = std::move(asked.adapter_name);
  if (!args.has("prefix")) return {};
  const std::string_view name = args.text("prefix");
  const auto at = std::ranges::find(env.prefixes, name, &ServedPrefix::name);
  if (at == env.prefixes.end()) {
    std::string known;
    for (const ServedPrefix& prefix : env.prefixes) known += " " + prefix.name;
    return refuse(bad_field("prefix", "is '" + shown(name) + "': " +
                                          (known.empty() ? "no learned prefix is loaded" : "there are:" + known)));
  }
  if (out.adapter != nullptr)
    return refuse(bad_field("prefix", "is '" + shown(name) + "', but the model's name asks for the adapter '" +
                                          out.adapter_name + "': a request has one of them"));
  if (out.prefix != nullptr && out.prefix != &*at)
    return refuse(
        bad_field("prefix", "is '" + shown(name) + "', but the model's name says '" + out.prefix->name + "'"));
  out.prefix = &*at;
  return {};
}

std::vector<std::string> served_names(const ServeEnv& env) {
  std::vector<std::string> out = served_names(env.models, env.prefixes);
  if (env.adapters == nullptr) return out;
  for (const AdapterTable::Entry& entry : env.adapters->all()) {
    out.push_back(entry.name);
    for (const std::string& model : env.models) out.push_back(model + ":" + entry.name);
  }
  return out;
}

std::string answering_model(const ServeEnv& env, const Generation& generation) {
  if (generation.adapter != nullptr) return env.models[0] + ":" + generation.adapter_name;
  return generation.prefix == nullptr ? env.models[0] : env.models[0] + ":" + generation.prefix->name;
}

ApiResult<OpenaiCommon> read_openai(const ApiRequest& request, const ServeEnv& env, Job& job) {
  const Args& args = request.args;
  QR_TRY(AskedModel asked, check_model(args.text("model"), env, request.reading.warnings));
  QR_TRY(job.generation, read_generation(args, env.limits, *env.tokenizer, env.sampling));
  QR_TRY(job.generation.grammar, read_grammar(args, request.reading));
  QR_TRY(job.generation.retention, read_retention(args, request.reading));
  QR_TRY_VOID(read_learned(args, std::move(asked), env, job.generation));
  if (!job.generation.seed_given) job.generation.sampling.seed = env.seeds->next();
  job.stream = args.flag("stream", false);
  if (job.stream && job.generation.sampling.n_prompt_logprobs >= 0)
    return refuse(unsupported_field("prompt_logprobs", "together with \"stream\": true"));
  QR_TRY_VOID(read_handover(request, env, job));
  job.include_cost = args.flag("include_cost", false);
  job.tells_progress = job.stream && args.flag("return_progress", false);
  QR_TRY(OpenaiCommon common, read_stream_options(args, request.reading, job.stream));
  common.timings = args.flag("timings_per_token", false);
  common.accepted = job.want_ids = args.flag("return_accepted", false);
  return common;
}

ApiResult<Generation> read_answer(const Args& args, AskedModel asked, const Reading& reading, const ServeEnv& env) {
  QR_TRY(Generation g, read_answer_or_prompt(args, std::move(asked), reading, env));
  if (g.prompt_only) return refuse(bad_field(g.max_tokens_field, "is 0: the minimum is 1"));
  return g;
}

ApiResult<Generation> read_answer_or_prompt(const Args& args,
                                            AskedModel asked,
                                            const Reading& reading,
                                            const ServeEnv& env) {
  QR_TRY(Generation g, read_generation(args, env.limits, *env.tokenizer, env.sampling));
  QR_TRY(g.grammar, read_grammar(args, reading));
  QR_TRY(g.retention, read_retention(args, reading));
  QR_TRY_VOID(read_learned(args, std::move(asked), env, g));
  if (g.sampling.n_prompt_logprobs >= 0) return refuse(unsupported_field("prompt_logprobs", ""));
  if (!g.seed_given) g.sampling.seed = env.seeds->next();
  return g;
}

ApiResult<Job> begin_answer(const ApiRequest& request, const ServeEnv& env) {
  Job job;
  QR_TRY(AskedModel asked, check_model(request.args.text("model"), env, request.reading.warnings));
  QR_TRY(job.generation, read_answer(request.args, std::move(asked), request.reading, env));
  job.stream = request.args.flag("stream", false);
  return job;
}

static void append_cost(std::string& out, const Cost& cost) {
  const auto count = [&](const char* name, int64_t n) { out += name + std::to_string(n); };
  const auto rows = [&](Cause cause) { return cost.computed[static_cast<size_t>(cause)]; };
  const auto seconds = [&](const char* name, int64_t ns) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9f", static_cast<double>(ns) * 1e-9);
    out += name;
    out += text;
  };
  count(",\"cost\":{\"computed_tokens\":", cost.n_computed());
  count(",\"recomputed_tokens\":", rows(Cause::recomputed));
  count(",\"draft_tokens\":", rows(Cause::draft));
  count(",\"wasted_tokens\":", cost.n_wasted);
  count(",\"reused_tokens\":", cost.n_reused);
  seconds(",\"block_seconds\":", cost.block_ns);
  seconds(",\"prefill_seconds\":", cost.prefill_ns);
  seconds(",\"decode_seconds\":", cost.decode_ns);
  const auto cpu = [&](const char* name, Stage stage) { seconds(name, cost.stage_ns[static_cast<size_t>(stage)]); };
  cpu(",\"cpu_seconds\":{\"plan\":", Stage::plan);
  cpu(",\"batch\":", Stage::batch);
  cpu(",\"forward\":", Stage::forward);
  cpu(",\"sample\":", Stage::sample);
  out += '}';
  out += '}';
}

// What there is nothing of is left out.
static void append_details(std::string& out, const UsageTotals& usage) {
  const int64_t n_drafted = usage.cost.computed[static_cast<size_t>(Cause::draft)];
  if (usage.n_reasoning == 0 && n_drafted == 0) return;
  out += ",\"completion_tokens_details\":{";
  if (usage.n_reasoning > 0) out += "\"reasoning_tokens\":" + std::to_string(usage.n_reasoning);
  if (usage.n_reasoning > 0 && n_drafted > 0) out += ',';
  if (n_drafted > 0)
    out += "\"accepted_prediction_tokens\":" + std::to_string(usage.cost.n_accepted) +
           ",\"rejected_prediction_tokens\":" + std::to_string(n_drafted - usage.cost.n_accepted);
  out += '}';
}

std::string rendered(std::span<const Token> tokens) {
  std::string out = "{\"token_ids\":[";
  append_ids(out, tokens);
  return out + "]}";
}

void append_openai_usage(std::string& out, const UsageTotals& usage, bool include_cost) {
  out += "{\"prompt_tokens\":" + std::to_string(usage.n_prompt) +
         ",\"completion_tokens\":" + std::to_string(usage.n_generated) +
         ",\"total_tokens\":" + std::to_string(usage.n_prompt + usage.n_generated) +
         ",\"prompt_tokens_details\":{\"cached_tokens\":" + std::to_string(usage.n_cached) +
         ",\"cached_tokens_by_tier\":{\"memory\":" + std::to_string(usage.n_cached - usage.n_disk - usage.n_remote) +
         ",\"disk\":" + std::to_string(usage.n_disk) + ",\"remote\":" + std::to_string(usage.n_remote) + '}';
  if (usage.n_dropped > 0) out += ",\"dropped_tokens\":" + std::to_string(usage.n_dropped);
  out += '}';
  append_details(out, usage);
  if (include_cost) append_cost(out, usage.cost);
  out += '}';
}

OpenaiWriter::OpenaiWriter(Form form, const ServeEnv& env, const Job& job, const OpenaiCommon& common)
    : tokenizer_(env.tokenizer),
      n_choices_(static_cast<int>(job.prompts.size()) * job.generation.n),
      want_logprobs_(job.generation.sampling.n_logprobs >= 0),
      include_usage_(common.include_usage),
      continuous_usage_(common.continuous_usage),
      include_cost_(job.include_cost),
      prompt_logprobs_by_choice_(form.prompt_logprobs_by_choice),
      n_prompt_logprobs_(job.generation.sampling.n_prompt_logprobs),
      timings_(common.timings),
      accepted_(common.accepted),
      verbose_(common.verbose) {
  std::string rest = "\",\"created\":" + std::to_string(job.name.created_s) + ",\"model\":";
  append_json_string(rest, answering_model(env, job.generation));
  rest += ",\"system_fingerprint\":\"build-quire-" QR_VERSION "\",\"choices\":[";
  const std::string id = "{\"id\":\"" + std::string(form.id_prefix) + job.name.id + "\",\"object\":\"";
  head_ = id + std::string(form.object) + rest;
  chunk_head_ = "data: " + id + std::string(form.chunk_object) + rest;
}

void OpenaiWriter::open_chunk(int choice, std::string& out) const {
  out += chunk_head_;
  out += "{\"index\":" + std::to_string(choice) + ",";
}

void OpenaiWriter::append_chunk(int choice, std::string_view content, std::string& out) {
  open_chunk(choice, out);
  out += content;
  out += ",\"logprobs\":null";
  close_chunk("null", 0, {}, out);
}

void OpenaiWriter::close_chunk(std::string_view finish, int64_t n_tokens, std::string_view more, std::string& out) {
  out += ",\"finish_reason\":";
  out += finish;
  out += "}]";
  if (include_usage_ && !continuous_usage_) out += ",\"usage\":null";
  if (continuous_usage_)
    out += ",\"usage\":{\"prompt_tokens\":" + std::to_string(n_prompt_) +
           ",\"completion_tokens\":" + std::to_string(n_tokens) +
           ",\"total_tokens\":" + std::to_string(n_prompt_ + n_tokens) + "}";
  out += more;
  out += "}\n\n";
}

void OpenaiWriter::begin(int64_t n_prompt, std::string&) {
  n_prompt_ = n_prompt;
  running_.begin(n_prompt);
}

void OpenaiWriter::progress(int choice, const PromptProgress& progress, std::string& out) {
  open_chunk(choice, out);
  append_delta(choice, Delta{}, out);
  out += ",\"logprobs\":null";
  std::string more = ",\"prompt_progress\":" + running_.progress(progress).dump();
  if (timings_) more += ",\"timings\":" + running_.of_prompt(progress).dump();
  close_chunk("null", 0, more, out);
}

void OpenaiWriter::delta(int choice, const Delta& delta, std::string& out) {
  open_chunk(choice, out);
  append_delta(choice, delta, out);
  out += ",\"logprobs\":";
  append_logprobs(choice, delta.tokens, out);
  if (accepted_) append_accepted(out += ',', delta);
  const std::string more = timings_ ? ",\"timings\":" + running_.so_far(delta.n_tokens).dump() : "";
  close_chunk("null", delta.n_tokens, more, out);
}

void OpenaiWriter::finish(int choice, const Ending& ending, std::string& out) {
  open_chunk(choice, out);
  append_delta(choice, Delta{}, out);
  out += ",\"logprobs\":null";
  // At the end of one and the same choice, whoever goes on with the stream.
  const bool shows = choice == 0 && !verbose_.empty();
  const std::string verbose = shows ? ",\"__verbose\":" + std::exchange(verbose_, {}) : "";
  close_chunk("\"" + std::string(finish_name(ending.reason)) + "\"", ending.n_tokens, verbose, out);
}

void OpenaiWriter::end(const UsageTotals& usage, std::string& out) {
  if (include_usage_) {
    out += chunk_head_;
    out += "],\"usage\":";
    append_openai_usage(out, usage, include_cost_);
    if (timings_) out += ",\"timings\":" + timings_of(usage).dump();
    out += "}\n\n";
  }
  out += "data: [DONE]\n\n";
}

void OpenaiWriter::error(const HttpError& error, std::string& out) {
  append_sse_event(out, "error", "", error_body(error));
}

void OpenaiWriter::add_prompt(const Shared& choice, Pieces& out) const {
  out.add(",\"prompt_logprobs\":");
  add_prompt_logprobs(out, choice->prompt, n_prompt_logprobs_, *tokenizer_);
}

Pieces OpenaiWriter::body(std::vector<ChoiceResult> choices, const UsageTotals& usage) {
  Pieces out;
  out.add(head_);
  Shared first;
  for (ChoiceResult& one : choices) {
    const auto choice = std::make_shared<const ChoiceResult>(std::move(one));
    if (first == nullptr) first = choice;
    if (choice != first) out.add(",");
    out.add("{\"index\":" + std::to_string(choice->index) + ",");
    add_whole(choice, out);
    out.add(",\"logprobs\":");
    add_logprobs(choice, out);
    if (accepted_) add_accepted(out.add(","), choice);
    if (n_prompt_logprobs_ >= 0 && prompt_logprobs_by_choice_) add_prompt(choice, out);
    out.add(",\"finish_reason\":\"" + std::string(finish_name(choice->ending.reason)) + "\"}");
  }
  std::string tail = "],\"usage\":";
  append_openai_usage(tail, usage, include_cost_);
  if (timings_) tail += ",\"timings\":" + timings_of(usage).dump();
  if (!verbose_.empty()) tail += ",\"__verbose\":" + std::exchange(verbose_, {});
  out.add(tail);
  if (n_prompt_logprobs_ >= 0 && !prompt_logprobs_by_choice_) add_prompt(first, out);
  out.add("}");
  return out;
}

}  // namespace quire
