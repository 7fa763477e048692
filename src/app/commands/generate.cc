// quire generate: one completion on the terminal, streamed as it is made.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <ctime>
#include <limits>
#include <optional>

#include "app/adapters.h"
#include "app/context_shift.h"
#include "app/spec_options.h"
#include "app/text_file.h"
#include "app/wire.h"
#include "base/json.h"
#include "engine/option_ranges.h"
#include "serve/model_chat.h"
#include "text/chat_prompt.h"
#include "text/detok.h"

namespace quire {
namespace {

struct Args {
  ModelOptions model;
  std::string text, prompt, prompt_file;
  std::vector<int> tokens;
  std::vector<std::string> adapters;
  SamplingChoice sampling;
  SpecChoice spec;
  int max_tokens = 128, ctx = 0, n = 1, kv_budget = 0;
  double repetition = -1, presence = 0, frequency = 0;
  uint64_t seed = 0;
  bool json = false, ignore_eos = false, raw = false;
};

// Prints whole UTF-8 as it comes; keeps the tokens for the summary.
class Printer final : public EventSink {
 public:
  Printer(const Tokenizer* tokenizer, bool print) : tokenizer_(tokenizer), print_(print) {
    if (tokenizer != nullptr) detok_.emplace(*tokenizer, false, false);
  }
  void on_token(SeqId, const TokenEvent& event) override {
    tokens.push_back(event.id);
    const size_t before = text.size();
    if (detok_) detok_->push(event.id, text);
    show(before);
  }
  void on_finish(SeqId, Finish reason, const Usage& used, const std::string& message) override {
    const size_t before = text.size();
    if (detok_) detok_->flush(text);
    show(before);
    finish = reason;
    usage = used;
    error = message;
    done = true;
  }

  std::vector<Token> tokens;
  std::string text, error;
  Finish finish = Finish::stop;
  Usage usage;
  bool done = false;

 private:
  void show(size_t from) {
    if (!print_ || tokenizer_ == nullptr) return;
    std::fwrite(text.data() + from, 1, text.size() - from, stdout);
    std::fflush(stdout);
  }
  const Tokenizer* tokenizer_;
  std::optional<Detok> detok_;
  bool print_;
};

Result<std::vector<Token>> prompt_tokens(const Args& args, const LoadedModel& loaded) {
  const int n_vocab = loaded.model->info().n_vocab;
  if (!args.tokens.empty()) {
    for (int id : args.tokens) {
      if (id < 0 || id >= n_vocab) {
        return fail(Code::invalid, "token id " + std::to_string(id) + " is not in 0 … " + std::to_string(n_vocab - 1));
      }
    }
    return std::vector<Token>(args.tokens.begin(), args.tokens.end());
  }
  if (!loaded.tokenizer) return fail(Code::not_found, loaded.path + " has no tokenizer: give --tokens");
  std::string text = args.prompt.empty() ? args.text : args.prompt;
  if (!args.prompt_file.empty()) {
    constexpr int64_t kMostBytes = 64 << 20;
    QR_TRY(text, read_text_file("--prompt-file", args.prompt_file, kMostBytes));
  }
  std::vector<Token> ids;
  if (args.raw || loaded.tokenizer->spec().chat_template.empty()) {
    QR_TRY_VOID(loaded.tokenizer->encode(text, EncodeOptions{.add_special = true}, ids));
  } else {
    QR_TRY(const ModelChat model, model_chat(loaded.tokenizer->spec().chat_template));
    QR_TRY(ChatPrompt prompt,
           question_prompt(model.chat, *loaded.tokenizer, text, local_time_text(std::time(nullptr))));
    ids = std::move(prompt.tokens);
  }
  if (ids.empty()) return fail(Code::invalid, "the prompt is empty");
  return ids;
}

const char* finish_name(Finish finish) {
  switch (finish) {
    case Finish::stop: return "stop";
    case Finish::length: return "length";
    case Finish::cancelled: return "cancelled";
    case Finish::error: return "error";
  }
  return "error";
}

void print_json(const Printer& printer) {
  const Usage& usage = printer.usage;
  const double decode_s = static_cast<double>(usage.total_ns - usage.first_token_ns) * 1e-9;
  Json::Array tokens;
  for (Token id : printer.tokens) tokens.emplace_back(id);
  Json out;
  out.set("text", printer.text);
  out.set("tokens", std::move(tokens));
  out.set("n_prompt", usage.n_prompt);
  out.set("n_cached", usage.n_cached);
  if (usage.n_dropped > 0) out.set("n_dropped", usage.n_dropped);
  out.set("n_drafted", usage.cost.computed[static_cast<size_t>(Cause::draft)]);
  out.set("n_accepted", usage.cost.n_accepted);
  out.set("finish", finish_name(printer.finish));
  out.set("ttft_s", static_cast<double>(usage.first_token_ns) * 1e-9);
  out.set("decode_tok_s", decode_s > 0 ? (usage.n_generated - 1) / decode_s : 0.0);
  std::printf("%s\n", out.dump().c_str());
}

constexpr size_t kMaxPromptBytes = 64 << 20;

// The prompt that is piped in, where none is given otherwise. The line break at its end is the pipe's.
Status read_piped(Args& args) {
  const bool given = !args.text.empty() || !args.prompt.empty() || !args.prompt_file.empty() || !args.tokens.empty();
  if (given || ::isatty(STDIN_FILENO) == 1) return {};
  std::array<char, 1 << 16> room{};
  for (size_t n = 0; (n = std::fread(room.data(), 1, room.size(), stdin)) > 0;) {
    args.text.append(room.data(), n);
    if (args.text.size() > kMaxPromptBytes)
      return fail(Code::invalid, "the prompt on stdin has more than " + std::to_string(kMaxPromptBytes) + " bytes");
  }
  if (std::ferror(stdin) != 0) return fail(Code::io, "stdin: cannot be read");
  if (args.text.ends_with('\n')) args.text.pop_back();
  return {};
}

// One prompt, of one of the places that it may come from.
Status check_prompt(const Args& args) {
  const int n_given =
      int{!args.text.empty()} + int{!args.prompt.empty()} + int{!args.prompt_file.empty()} + int{!args.tokens.empty()};
  if (n_given == 0)
    return fail(Code::invalid,
                "no prompt: quire generate MODEL \"TEXT\", or --prompt, --prompt-file or --tokens, or text on stdin");
  if (n_given > 1) return fail(Code::invalid, "more than one of TEXT, --prompt, --prompt-file and --tokens");
  return {};
}

Status check(const Args& args) {
  QR_TRY_VOID(check_prompt(args));
  QR_TRY_VOID(check(args.sampling));
  return check_one_adapter(args.adapters);
}

// Answer i draws with seed + i, as the server's n does.
Request request_for(const Args& args, const LoadedModel& loaded, const std::vector<Token>& prompt, int i) {
  Request request;
  request.prompt = prompt;
  request.max_tokens = args.max_tokens;
  request.kv_budget = args.kv_budget;
  SamplingDefaults defaults = loaded.sampling;
  apply(args.sampling, defaults);
  SamplingParams& sampling = request.sampling = sampling_params(defaults);
  sampling.seed = args.seed + static_cast<uint64_t>(i);
  if (args.repetition != -1) sampling.repetition_penalty = static_cast<float>(args.repetition);
  sampling.presence_penalty = static_cast<float>(args.presence);
  sampling.frequency_penalty = static_cast<float>(args.frequency);
  if (loaded.tokenizer && !args.ignore_eos) {
    for (Token id = 0; id < loaded.tokenizer->n_vocab(); ++id) {
      if (loaded.tokenizer->is_end(id)) request.stop_ids.push_back(id);
    }
  }
  return request;
}

Status run(Args& args) {
  args.model.ctx = args.ctx;
  QR_TRY_VOID(read_piped(args));
  QR_TRY_VOID(check(args));
  EngineOptions options;
  options.max_seqs = std::min(args.n, 64);
  options.n_ctx = args.ctx;
  QR_TRY_VOID(apply(args.spec, options));
  QR_TRY(const LoadedModel loaded, load(args.model));
  QR_TRY(const std::vector<Token> prompt, prompt_tokens(args, loaded));
  QR_TRY(const std::unique_ptr<AdapterTable> adapters, load_adapters(args.adapters, args.model, loaded, ServeLimits{}));
  SystemClock clock;
  EngineEnv env;
  env.clock = &clock;
  QR_TRY(const Drafter drafter, load_drafter(args.spec, args.model, loaded));
  drafter.put_into(env);
  env.tokenizer = loaded.tokenizer.get();
  QR_TRY(const std::unique_ptr<Engine> engine, make_engine(*loaded.model, *loaded.ops, options, env));
  const bool streamed = !args.json && args.n == 1;
  std::vector<std::shared_ptr<Printer>> printers;
  for (int i = 0; i < args.n; ++i) {
    printers.push_back(std::make_shared<Printer>(loaded.tokenizer.get(), streamed));
    Request request = request_for(args, loaded, prompt, i);
    if (!args.adapters.empty()) {
      QR_TRY(request.adapter, adapters->acquire(name_of_adapter(args.adapters)));
    }
    QR_TRY([[maybe_unused]] const SeqId id, engine->submit(std::move(request), printers.back()));
  }
  for (const auto& printer : printers) {
    while (!printer->done) engine->step();
    if (printer->finish == Finish::error) return fail(Code::internal, printer->error);
    if (args.json) {
      print_json(*printer);
    } else {
      std::printf("%s\n", streamed ? "" : printer->text.c_str());
      if (args.n > 1 && printer != printers.back()) std::printf("---\n");
    }
  }
  return {};
}

QR_REGISTER(Command,
            "generate",
            Command{"complete one prompt", false, [](CommandLine& line) -> std::function<int()> {
                      auto args = std::make_shared<Args>();
                      declare_model_options(line, args->model);
                      declare_shift_option(line, args->model);
                      line.positional("TEXT", args->text, false, "the prompt; without one it is read from stdin");
                      line.option("--prompt", args->prompt, "the same");
                      line.option("--prompt-file", args->prompt_file, "read the prompt from this file");
                      line.option("--tokens", args->tokens, kTokenIds, "the prompt as token ids, separated by commas");
                      line.option("--max-tokens", args->max_tokens, {1, 1e9}, "tokens to generate at most");
                      line.option("--ctx", args->ctx, {2, kMostContext, 0},
                                  "prompt and answer together, 0 for what the model was trained for");
                      line.option("--kv-budget", args->kv_budget, {0, kMostContext},
                                  "tokens of the prompt that are kept behind it, those that its end looks at; 0: all");
                      declare_sampling_options(line, args->sampling);
                      declare_spec_options(line, args->spec);
                      declare_one_lora_option(line, args->adapters);
                      line.option("--repetition-penalty", args->repetition, {0.01, 100, -1},
                                  "divides what has come, 1: off, -1: as the model recommends, else off");
                      line.option("--presence-penalty", args->presence, {-100, 100}, "subtracted from what has come");
                      line.option("--frequency-penalty", args->frequency, {-100, 100},
                                  "subtracted for each time that it came");
                      line.option("--seed", args->seed, kSeeds, "of the random draws; answer i has this + i");
                      line.option("--n", args->n, {1, 1024}, "answers; several are separated by ---");
                      line.flag("--raw", args->raw, "the prompt as it is, without the model's chat template");
                      line.flag("--ignore-eos", args->ignore_eos, "go on past the model's end token");
                      line.flag("--json", args->json, "print a JSON object for each answer instead of the text");
                      return [args] { return exit_code(run(*args)); };
                    }});

}  // namespace
}  // namespace quire
