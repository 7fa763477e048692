#include "app/bench_spec.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "app/bench_memory.h"
#include "app/bench_requests.h"
#include "base/json.h"
#include "base/log.h"
#include "text/chat_prompt.h"

namespace quire {
namespace {

constexpr int kQuestions = 3;  // of a user

constexpr const char* kPrompts[] = {
    "What is the capital of France, and what is it known for?",
    "Write a short story about a lighthouse keeper and a storm.",
    "Explain how rain forms, step by step.",
    "List five animals and say what each of them eats.",
    "Repeat this text and correct its mistakes: The quick brown foxes jumps over the lazy dog. Then the foxes sleeps.",
    ("Summarise: The river rises in the hills, flows past three mills, and joins the sea near the old town. The mills "
     "ground corn for the town until the railway came."),
    "How many legs have three spiders and two dogs together?",
    "Translate into simpler words: the committee deferred its deliberations until the subsequent quarter.",
};

Result<std::vector<std::string>> read_prompts(const std::string& path) {
  std::vector<std::string> out;
  if (path.empty()) return std::vector<std::string>(std::begin(kPrompts), std::end(kPrompts));
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) out.push_back(line);
  }
  if (!in.eof() || out.empty()) return fail(Code::io, "--prompts: " + path + " cannot be read or has no lines");
  return out;
}

// A question in the model's chat template; the text alone where it has none, or one that cannot be used.
Result<std::vector<Token>> tokens_of(const Tokenizer& tokenizer, const std::string& text) {
  if (!tokenizer.spec().chat_template.empty()) {
    const Result<ChatTemplate> chat = ChatTemplate::parse(tokenizer.spec().chat_template);
    Result<ChatPrompt> prompt = chat ? question_prompt(*chat, tokenizer, text) : tl::make_unexpected(chat.error());
    if (prompt) return std::move(prompt->tokens);
    log_warn("questions without the chat template: " + prompt.error().message);
  }
  std::vector<Token> ids;
  QR_TRY_VOID(tokenizer.encode(text, EncodeOptions{.add_special = true}, ids));
  return ids;
}

struct Measured {
  std::vector<double> tok_s;
  EngineStats before, after;
  double median() const { return median_of(tok_s); }
};

// What was measured in turns is compared in turns, so that what slows a machine for a while slows both.
struct Gain {
  double median = 1,
         least = 1;  // least: the median is above it with 95 % certainty; of fewer than six rounds the worst
};
Gain gain_of(const Measured& off, const Measured& on) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(off.tok_s.size(), on.tok_s.size()); ++i) ratios.push_back(on.tok_s[i] / off.tok_s[i]);
  std::sort(ratios.begin(), ratios.end());
  const auto n = static_cast<double>(ratios.size());
  const double below = std::floor(n / 2 - 0.5 * 1.96 * std::sqrt(n));  // order statistics of the median
  return {ratios[ratios.size() / 2], ratios[static_cast<size_t>(std::max(below, 0.0))]};
}

class Bench {
 public:
  Bench(const LoadedModel& loaded, const Drafter& drafter, const SpecBench& wanted)
      : loaded_(loaded), drafter_(drafter), wanted_(wanted) {}

  Status run() {
    QR_TRY(const std::vector<std::string> texts, read_prompts(wanted_.prompts));
    for (const std::string& text : texts) {
      QR_TRY(prompts_.emplace_back(), tokens_of(*loaded_.tokenizer, text));
    }
    for (const int n_users : wanted_.users) QR_TRY_VOID(run_for(n_users));
    return {};
  }

 private:
  Result<std::unique_ptr<Engine>> engine_for(int n_users, bool guesses) {
    EngineOptions options;
    SpecChoice spec = wanted_.spec;
    if (guesses) QR_TRY_VOID(apply(spec, options));
    options.max_seqs = n_users;
    size_t longest = 0;
    for (const auto& prompt : prompts_) longest = std::max(longest, prompt.size());
    options.n_ctx = static_cast<int>(longest) + wanted_.n_generate + 1;
    give_room(options, loaded_.model->info().kv_layout, n_users);
    EngineEnv env;
    env.clock = &clock_;
    drafter_.put_into(env);
    env.tokenizer = loaded_.tokenizer.get();
    return make_engine(*loaded_.model, *loaded_.ops, options, env);
  }

  // Of several users each asks kQuestions times. Answers after the first end at different times, as they do in a
  // server.
  int n_requests(int n_users) const { return n_users == 1 ? 1 : kQuestions * n_users; }
  Request request_of(int number, int n_users) const {
    Request out;
    out.prompt = prompts_[static_cast<size_t>(number) % prompts_.size()];
    const int part = number < n_users ? number % kQuestions : 0;
    out.max_tokens = std::max(wanted_.n_generate - part * wanted_.n_generate / kQuestions, 1);
    out.sampling.temperature = wanted_.sampled ? 0.8F : 0.0F;
    if (wanted_.sampled) out.sampling.top_p = 0.95F;
    out.sampling.seed = static_cast<uint64_t>(number) + 1;
    return out;
  }

  // What all of them answered, and how fast as long as nobody was missing: else who guesses well would be done sooner
  // and leave smaller steps to the others, which no server does that has users waiting.
  Result<std::vector<std::vector<Token>>> once(Engine& engine, int n_users, Measured& measured) {
    std::vector<std::shared_ptr<BenchAnswer>> answers, running;
    const auto ask = [&]() -> Status {
      answers.push_back(std::make_shared<BenchAnswer>());
      running.push_back(answers.back());
      const int number = static_cast<int>(answers.size()) - 1;
      QR_TRY([[maybe_unused]] const SeqId id, engine.submit(request_of(number, n_users), answers.back()));
      return {};
    };
    const int64_t start = clock_.now_ns();
    for (int user = 0; user < n_users; ++user) QR_TRY_VOID(ask());
    double tok_s = 0;
    while (!running.empty()) {
      engine.step();
      const auto n_ended = std::erase_if(running, [](const auto& answer) { return answer->done; });
      for (size_t i = 0; i < n_ended && std::ssize(answers) < n_requests(n_users); ++i) QR_TRY_VOID(ask());
      if (tok_s > 0 || std::ssize(running) == n_users) continue;
      int64_t n_tokens = 0;
      for (const auto& answer : answers) n_tokens += std::ssize(answer->tokens);
      tok_s = static_cast<double>(n_tokens) / (static_cast<double>(clock_.now_ns() - start) * 1e-9);
    }
    measured.tok_s.push_back(tok_s);
    std::vector<std::vector<Token>> out;
    for (const auto& answer : answers) {
      if (!answer->error.empty()) return fail(Code::internal, "a sequence failed: " + answer->error);
      out.push_back(std::move(answer->tokens));
    }
    return out;
  }

  // A warm-up each, which teaches what guesses are worth, then in turns.
  Status run_for(int n_users) {
    QR_TRY(const std::unique_ptr<Engine> plain, engine_for(n_users, false));
    QR_TRY(const std::unique_ptr<Engine> guessing, engine_for(n_users, true));
    Measured off, on, warm_up;
    for (Engine* engine : {plain.get(), guessing.get()}) QR_TRY_VOID(once(*engine, n_users, warm_up));
    on.before = guessing->stats();
    for (int round = 0; round < wanted_.n_rounds; ++round) {
      QR_TRY(const auto truth, once(*plain, n_users, off));
      QR_TRY(const auto guessed, once(*guessing, n_users, on));
      if (truth != guessed) return fail(Code::internal, "an answer differs with guesses from what it is without");
    }
    on.after = guessing->stats();
    print(n_users, off, on);
    return {};
  }

  void print(int n_users, const Measured& off, const Measured& on) const {
    constexpr auto kDraft = static_cast<size_t>(Cause::draft);
    const auto n_drafts = static_cast<double>(on.after.n_drafts - on.before.n_drafts);
    const auto n_drafted = static_cast<double>(on.after.spent.computed[kDraft] - on.before.spent.computed[kDraft]);
    const auto n_accepted = static_cast<double>(on.after.spent.n_accepted - on.before.spent.n_accepted);
    const double accepted = n_drafted > 0 ? n_accepted / n_drafted : 0;
    const double length = n_drafts > 0 ? 1 + n_accepted / n_drafts : 1;
    const Gain gain = gain_of(off, on);
    if (!wanted_.json) {
      std::printf("%4d users  off %9.2f tok/s  %s %9.2f tok/s  %5.3f x (at least %5.3f)  ", n_users, off.median(),
                  wanted_.spec.mode.c_str(), on.median(), gain.median, gain.least);
      std::printf("accepted %5.1f%%  %.2f tokens a guess  %s\n", accepted * 100, length,
                  std::string(static_cast<size_t>(std::clamp(gain.median * 20, 1.0, 100.0)), '#').c_str());
      std::fflush(stdout);
      return;
    }
    Json out;
    out.set("test", "spec");
    out.set("users", n_users);
    out.set("off_tok_s", off.median());
    out.set("tok_s", on.median());
    out.set("gain", gain.median);
    out.set("gain_at_least", gain.least);
    out.set("accepted", accepted);
    out.set("tokens_per_guess", length);
    out.set("drafted", n_drafted);
    std::printf("%s\n", out.dump().c_str());
    std::fflush(stdout);
  }

  const LoadedModel& loaded_;
  const Drafter& drafter_;
  const SpecBench& wanted_;
  SystemClock clock_;
  std::vector<std::vector<Token>> prompts_;
};

}  // namespace

Status bench_spec(const LoadedModel& loaded, const Drafter& drafter, const SpecBench& wanted) {
  if (!loaded.tokenizer) return fail(Code::unsupported, loaded.path + " has no tokenizer, so there are no questions");
  return Bench(loaded, drafter, wanted).run();
}

}  // namespace quire
