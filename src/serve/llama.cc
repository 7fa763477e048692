#include "serve/llama.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "serve/code_points.h"
#include "serve/llama_probs.h"
#include "serve/openai.h"
#include "serve/structured.h"
#include "serve/timings.h"

namespace quire {
namespace {

constexpr double kMaxInt32 = 2147483647.0;

constexpr Field kFields[] = {
    field_of("model", kString, &ServeLimits::name_bytes),
    flag_field("stream"),
    count_field("n_probs", 0, &ServeLimits::n_logprobs),
    flag_field("return_tokens"),
    flag_field("timings_per_token"),
    flag_field("return_progress"),
    flag_field("post_sampling_probs"),
    field_of("response_fields", kArray, &ServeLimits::n_parts),
    integer_field("t_max_predict_ms", -1, kMaxInt32),
    integer_field("t_max_prompt_ms", -1, kMaxInt32),
    integer_field("n_indent", 0, kMaxInt32),
    ignored_field("id_slot"),
    unsupported("n_keep", "0", "-1"),
    unsupported("n_discard", "0"),
};

// What is added to logits, end tokens that may not come among it; null: never.
Json bias_of(const Generation& g, const ServeEnv& env) {
  Json::Array out;
  const auto add = [&](Token id, float bias) {
    out.push_back(Json::Object{{"token", static_cast<int64_t>(id)},
                               {"bias", std::isinf(bias) ? Json() : Json(static_cast<double>(bias))}});
  };
  for (const Edit& edit : g.sampling.logit_bias) add(edit.id, edit.add);
  if (g.ignore_eos)
    for (Token id = 0; id < env.tokenizer->n_vocab(); ++id)
      if (env.tokenizer->is_end(id)) add(id, -std::numeric_limits<float>::infinity());
  return Json(std::move(out));
}

Json settings_of(const Job& job, const ServeEnv& env) {
  const Generation& g = job.generation;
  const SamplingParams& s = g.sampling;
  Json::Array stops;
  for (const std::string& stop : g.stops) stops.emplace_back(stop);
  return Json::Object{{"seed", static_cast<int64_t>(s.seed)},
                      {"temperature", static_cast<double>(s.temperature)},
                      {"top_k", static_cast<int64_t>(s.top_k)},
                      {"top_p", static_cast<double>(s.top_p)},
                      {"min_p", static_cast<double>(s.min_p)},
                      {"typical_p", static_cast<double>(s.typical_p)},
                      {"repeat_penalty", static_cast<double>(s.repetition_penalty)},
                      {"presence_penalty", static_cast<double>(s.presence_penalty)},
                      {"frequency_penalty", static_cast<double>(s.frequency_penalty)},
                      {"n_predict", g.prompt_only      ? int64_t{0}
                                    : g.max_tokens > 0 ? g.max_tokens
                                                       : int64_t{-1}},
                      {"adaptive_target", -1.0},
                      {"adaptive_decay", 0.9},
                      {"post_sampling_probs", s.drawn_logprobs},
                      {"logit_bias", bias_of(g, env)},
                      {"n_probs", static_cast<int64_t>(std::max(s.n_logprobs, 0))},
                      {"ignore_eos", g.ignore_eos},
                      {"stream", job.stream},
                      {"stop", std::move(stops)}};
}

// The value at "a/b"; null: there is none.
const Json* at_path(const Json& object, std::string_view path) {
  const Json* at = path.empty() ? nullptr : &object;
  while (at != nullptr && !path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    at = at->find(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return at;
}

class Writer final : public ReplyWriter {
 public:
  Writer(const ServeEnv& env, const Job& job, LlamaCommon common)
      : tokenizer_(*env.tokenizer),
        common_(std::move(common)),
        model_(answering_model(env, job.generation)),
        settings_(settings_of(job, env)),
        max_tokens_(job.generation.max_tokens),
        prompt_only_(job.generation.prompt_only),
        n_(static_cast<size_t>(job.generation.n)),
        n_choices_(job.prompts.size() * n_),
        want_probs_(job.generation.sampling.n_logprobs >= 0),
        endings_(n_choices_),
        told_(n_choices_) {
    const bool tells = wants("prompt") && (!job.stream || n_choices_ == 1);
    for (const std::vector<Token>& prompt : job.prompts) {
      n_tokens_.push_back(static_cast<int64_t>(prompt.size()));
      if (tells) prompts_.push_back(std::make_shared<const std::string>(tokenizer_.decode(prompt, true)));
    }
  }
  int64_t told_bytes() const {
    int64_t out = 0;
    for (const auto& prompt : prompts_) out += static_cast<int64_t>(prompt->size());
    return out;
  }

  void begin(int64_t n_prompt, std::string&) override {
    n_prompt_ = n_prompt;
    timings_.begin(n_prompt);
  }
  void progress(int choice, const PromptProgress& progress, std::string& out) override {
    Json data = Json::Object{{"index", static_cast<int64_t>(choice)},
                             {"content", ""},
                             {"tokens", Json::Array{}},
                             {"stop", false},
                             {"id_slot", -1},
                             {"tokens_predicted", 0},
                             {"tokens_evaluated", n_prompt_},
                             {"prompt_progress", timings_.progress(progress)}};
    if (common_.timings) data.set("timings", timings_.of_prompt(progress));
    append_sse_data(out, data.dump());
  }
  // An event a token where its probabilities are told, each with the text that the token brought.
  void delta(int choice, const Delta& delta, std::string& out) override {
    if (delta.parts.empty() && delta.tokens.empty()) return;
    Told& told = told_[static_cast<size_t>(choice)];
    const std::string text = delta.parts.joined(PartKind::text);
    told.new_line = told.new_line || text.find('\n') != std::string::npos;
    const std::span<const TokenText> tokens = delta.tokens;
    size_t at = 0;
    const auto n = static_cast<int64_t>(tokens.size());
    for (int64_t i = 0; want_probs_ && i + 1 < n; ++i) {
      const size_t end = at + bytes_of_points(std::string_view(text).substr(at),
                                              tokens[static_cast<size_t>(i) + 1].text_at - told.n_points);
      tell(choice, std::string_view(text).substr(at, end - at), tokens.subspan(static_cast<size_t>(i), 1),
           delta.n_tokens - n + i + 1, out);
      told.n_points += count_points(std::string_view(text).substr(at, end - at));
      at = end;
    }
    const std::string_view rest = std::string_view(text).substr(at);
    tell(choice, rest, want_probs_ ? tokens.last(std::min<size_t>(tokens.size(), 1)) : tokens, delta.n_tokens, out);
    told.n_points += count_points(rest);
  }
  void finish(int choice, const Ending& ending, std::string&) override {
    endings_[static_cast<size_t>(choice)] = ending;
  }
  void end(const UsageTotals& usage, std::string& out) override {
    for (size_t i = 0; i < n_choices_; ++i) {
      Json last = Json::Object{{"index", static_cast<int64_t>(i)}, {"content", ""}, {"tokens", Json::Array{}}};
      add_tail(last, i, usage);
      last.set("has_new_line", told_[i].new_line);
      if (!prompts_.empty()) last.set("prompt", *prompts_[i / n_]);
      append_sse_data(out, pick(std::move(last)).dump());
    }
  }
  void error(const HttpError& error, std::string& out) override {
    append_sse_event(out, "error", "", error_body(error));
  }
  Pieces body(std::vector<ChoiceResult> choices, const UsageTotals& usage) override {
    Pieces out;
    const bool many = choices.size() > 1;
    if (many) out.add("[");
    for (size_t i = 0; i < choices.size(); ++i) {
      endings_[i] = choices[i].ending;
      if (i > 0) out.add(",");
      add_choice(std::make_shared<const ChoiceResult>(std::move(choices[i])), usage, out);
    }
    if (many) out.add("]");
    return out;
  }

 private:
  struct Told {  // of a choice's stream
    int64_t n_points = 0;
    bool new_line = false;
  };

  // Bytes of the first n code points of `text`.
  static size_t bytes_of_points(std::string_view text, int64_t n) {
    size_t at = 0;
    for (int64_t i = 0; i < n && at < text.size(); ++i)
      for (++at; at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;) ++at;
    return at;
  }
  void tell(int choice, std::string_view text, std::span<const TokenText> tokens, int64_t n_tokens, std::string& out) {
    std::string data = "{\"index\":" + std::to_string(choice) + ",\"content\":";
    append_json_string(data, text);
    data += ",\"tokens\":[";
    for (const TokenText& token : tokens) {
      if (&token != tokens.data()) data += ',';
      data += std::to_string(token.id);
    }
    data += "],\"stop\":false,\"id_slot\":-1,\"tokens_predicted\":" + std::to_string(n_tokens) +
            ",\"tokens_evaluated\":" + std::to_string(n_prompt_);
    if (want_probs_) {
      data += ",\"completion_probabilities\":[";
      for (const TokenText& token : tokens) append_llama_probs(data, token, common_.drawn, tokenizer_);
      data += ']';
    }
    if (common_.timings) data += ",\"timings\":" + timings_.so_far(n_tokens).dump();
    append_sse_data(out, data + "}");
  }
  bool has_new_line(const ChoiceResult& choice) const {
    return std::ranges::any_of(choice.whole.parts, [](const AnswerPart& part) {
      return part.kind == PartKind::text && part.text.find('\n') != std::string::npos;
    });
  }
  // What stands behind the text.
  void add_tail(Json& out, size_t choice, const UsageTotals& usage) const {
    const Ending& ending = endings_[choice];
    const bool by_word = !ending.stop_string.empty(), cut = ending.reason == FinishReason::length;
    out.set("id_slot", -1);
    out.set("stop", true);
    out.set("model", model_);
    out.set("tokens_predicted", ending.n_tokens);
    out.set("tokens_evaluated", n_tokens_[choice / n_]);
    out.set("generation_settings", settings_);
    // By the end of the context.
    out.set("truncated", cut && !prompt_only_ && (max_tokens_ <= 0 || ending.n_tokens < max_tokens_));
    out.set("stop_type", cut ? "limit" : by_word ? "word" : "eos");
    out.set("stopping_word", ending.stop_string);
    out.set("tokens_cached", usage.n_cached);
    out.set("timings", timings_of(usage));
  }
  Json pick(Json whole) const {
    if (!common_.response_fields) return whole;
    Json out = Json::Object{};
    for (const std::string& path : *common_.response_fields)
      if (const Json* value = at_path(whole, path)) out.set(path, *value);
    return out;
  }
  bool wants(std::string_view name) const {
    const auto& only = common_.response_fields;
    return !only || std::find(only->begin(), only->end(), name) != only->end();
  }
  // The long members are written a piece at a time, the others as one.
  void add_choice(const std::shared_ptr<const ChoiceResult>& choice, const UsageTotals& usage, Pieces& out) const {
    const auto index = static_cast<size_t>(choice->index);
    Json rest = Json::Object{{"index", static_cast<int64_t>(index)}};
    add_tail(rest, index, usage);
    rest.set("has_new_line", has_new_line(*choice));
    std::string tail = pick(std::move(rest)).dump();
    tail.pop_back();
    out.add(tail);
    const char* comma = tail.size() > 1 ? "," : "";
    const auto member = [&](const char* name) {
      out.add(std::string(std::exchange(comma, ",")) + "\"" + name + "\":");
    };
    if (!prompts_.empty()) {
      member("prompt");
      out.add_json_string(*prompts_[index / n_], prompts_[index / n_]);
    }
    if (wants("content")) {
      member("content");
      add_joined(out, choice->whole.parts, PartKind::text, choice);
    }
    const size_t n = choice->whole.tokens.size();
    if (wants("tokens")) {
      member("tokens");
      out.add("[").add_list(common_.tokens ? n : 0, [choice](size_t i, std::string& text) {
        text += std::to_string(choice->whole.tokens[i].id);
      });
      out.add("]");
    }
    if (want_probs_ && wants("completion_probabilities")) {
      member("completion_probabilities");
      out.add("[");
      out.add_list(n, [this, choice](size_t i, std::string& text) {
        append_llama_probs(text, choice->whole.tokens[i], common_.drawn, tokenizer_);
      });
      out.add("]");
    }
    out.add("}");
  }

  const Tokenizer& tokenizer_;
  const LlamaCommon common_;
  const std::string model_;
  const Json settings_;
  const int64_t max_tokens_;
  const bool prompt_only_;
  const size_t n_, n_choices_;
  const bool want_probs_;
  RunningTimings timings_;
  int64_t n_prompt_ = 0;
  std::vector<int64_t> n_tokens_;                            // of each prompt
  std::vector<std::shared_ptr<const std::string>> prompts_;  // their texts; empty: they are not told
  std::vector<Ending> endings_;
  std::vector<Told> told_;
};

ApiResult<std::optional<std::vector<std::string>>> read_response_fields(const Args& args) {
  const Json* list = args.find("response_fields");
  if (list == nullptr) return std::nullopt;
  std::vector<std::string> out;
  for (const Json& path : *list->as_array()) {
    const std::string at = at_index("response_fields", static_cast<int64_t>(out.size()));
    if (path.as_string() == nullptr) return refuse(bad_field(at, "must be a string", "invalid_type"));
    out.push_back(*path.as_string());
  }
  if (out.empty()) return std::nullopt;
  return out;
}

void warn_of_what_is_not_kept(const Args& args, Warnings& warnings) {
  for (const char* name : {"t_max_predict_ms", "t_max_prompt_ms"})
    if (args.integer(name, 0) > 0) warnings.add(std::string(name) + " has no effect: answers do not depend on time");
  if (args.integer("n_indent", 0) > 0) warnings.add("n_indent has no effect");
  const Json* samplers = args.find("samplers");
  if (samplers != nullptr && std::ranges::find(*samplers->as_array(), Json("infill")) != samplers->as_array()->end())
    warnings.add("the sampler infill has no effect");
}

}  // namespace

std::span<const Field> llama_fields() { return kFields; }

ApiResult<Job> begin_llama(const ApiRequest& request, const ServeEnv& env, LlamaCommon& common) {
  const Args& args = request.args;
  Job job;
  QR_TRY(AskedModel asked, check_model(args.text("model"), env, request.reading.warnings));
  QR_TRY(job.generation, read_answer_or_prompt(args, std::move(asked), request.reading, env));
  if (args.integer("n_probs", 0) > 0) job.generation.sampling.n_logprobs = static_cast<int>(args.integer("n_probs", 0));
  warn_of_what_is_not_kept(args, request.reading.warnings);
  job.stream = args.flag("stream", false);
  QR_TRY_VOID(read_handover(request, env, job));
  common.tokens = args.flag("return_tokens", false);
  common.timings = args.flag("timings_per_token", false);
  common.drawn = args.flag("post_sampling_probs", false);
  job.generation.sampling.drawn_logprobs = common.drawn && job.generation.sampling.n_logprobs >= 0;
  job.tells_progress = job.stream && args.flag("return_progress", false);
  QR_TRY(common.response_fields, read_response_fields(args));
  job.want_ids = job.stream || common.tokens;
  return job;
}

std::string llama_verbose(const ServeEnv& env, const Job& job) {
  std::string prompt;
  for (const Token id : job.prompts.front()) env.tokenizer->append_bytes(id, true, prompt);
  std::string out = "{\"prompt\":";
  append_json_string(out, prompt);
  out += ",\"tokens_evaluated\":" + std::to_string(job.prompts.front().size());
  return out + ",\"generation_settings\":" + settings_of(job, env).dump() + "}";
}

void add_llama_writer(const ServeEnv& env, LlamaCommon common, Job& job) {
  auto writer = std::make_unique<Writer>(env, job, std::move(common));
  job.told_bytes = writer->told_bytes();
  job.writer = std::move(writer);
}

}  // namespace quire
