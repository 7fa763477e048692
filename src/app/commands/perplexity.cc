// quire perplexity: how well a model foretells a text, and how far it lies from another model that read it before.
#include "app/perplexity.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "app/context_shift.h"
#include "app/output_file.h"
#include "app/progress.h"
#include "app/text_tokens.h"
#include "app/wire.h"
#include "base/json.h"
#include "engine/limits.h"
#include "engine/option_ranges.h"

namespace quire {
namespace {

constexpr int kDefaultWindow = 512;

struct Args {
  ModelOptions model;
  std::string text, nll_out, kl_base, kl_base_out;
  std::vector<int> tokens;
  int ctx = 0, stride = 0, prompt = 0, kv_budget = 0;
  bool json = false;
};

Result<std::vector<Token>> read_tokens(const Args& args, const LoadedModel& loaded) {
  QR_TRY(std::vector<Token> out, text_tokens(args.text, loaded));
  out.insert(out.end(), args.tokens.begin(), args.tokens.end());
  QR_TRY_VOID(check_ids(out, loaded));
  if (out.size() < 2) {
    return fail(Code::invalid, "the text has " + std::to_string(out.size()) + " tokens; 2 at least are needed");
  }
  return out;
}

Status check_budget(const Windows& w, const LoadedModel& loaded) {
  if (w.n_prompt > 0 && w.stride != w.ctx) return fail(Code::invalid, "--prompt excludes --stride");
  if (w.n_prompt > w.ctx - 2) {
    return fail(Code::invalid, "--prompt must be at most " + std::to_string(w.ctx - 2) + ", two less than --ctx, got " +
                                   std::to_string(w.n_prompt));
  }
  if (w.kv_budget == 0) return {};
  if (w.n_prompt == 0) return fail(Code::invalid, "--kv-budget needs --prompt, the tokens that it is for");
  const std::string_view why = why_no_budget(loaded.model->info(), *loaded.ops, false);
  if (!why.empty()) return fail(Code::invalid, "--kv-budget: " + std::string(why));
  const int least = least_budget(kWindowBlock);
  if (w.kv_budget >= least) return {};
  return fail(Code::invalid,
              "--kv-budget must be at least " + std::to_string(least) + ", got " + std::to_string(w.kv_budget));
}

// Windows begin with BOS where the text does and the model's tokenizer has it so.
Result<Windows> windows_of(const Args& args, const LoadedModel& loaded, const std::vector<Token>& tokens) {
  const ModelInfo& info = loaded.model->info();
  const int ctx = args.ctx != 0 ? args.ctx : std::min(kDefaultWindow, info.n_ctx);
  const Token bos = begin_of_text(loaded);
  const Windows out{ctx, args.stride == 0 ? ctx : args.stride, tokens.front() == bos ? bos : -1, args.prompt,
                    args.kv_budget};
  if (out.ctx < 2 || out.ctx > info.n_ctx) {
    return fail(Code::invalid,
                "--ctx must be 2 to " + std::to_string(info.n_ctx) + " for this model, got " + std::to_string(out.ctx));
  }
  if (out.stride < 1 || out.stride > out.ctx) {
    return fail(Code::invalid,
                "--stride must be 1 to " + std::to_string(out.ctx) + ", got " + std::to_string(out.stride));
  }
  QR_TRY_VOID(check_budget(out, loaded));
  return out;
}

// What is gathered over a text.
struct Tally {
  std::vector<double> nll, base_nll, kl;
  int64_t n_same_top = 0;
};

size_t top_of(const std::vector<double>& log_p) {
  return static_cast<size_t>(std::max_element(log_p.begin(), log_p.end()) - log_p.begin());
}

class Scorer {
 public:
  Result<Tally> run(const Args& args, const LoadedModel& loaded, const std::vector<Token>& tokens, const Windows& w) {
    const int n_vocab = loaded.model->info().n_vocab;
    if (!args.kl_base.empty()) {
      QR_TRY(BaseReader reader, BaseReader::open(args.kl_base, tokens, w, n_vocab));
      reader_ = std::make_unique<BaseReader>(std::move(reader));
    }
    if (!args.kl_base_out.empty()) {
      QR_TRY(BaseWriter writer, BaseWriter::create(args.kl_base_out, tokens, w, n_vocab));
      writer_ = std::make_unique<BaseWriter>(std::move(writer));
    }
    if (!args.nll_out.empty()) {
      QR_TRY(nll_file_, OutputFile::create(args.nll_out));
    }
    QR_TRY(Forward forward, Forward::make(*loaded.model, *loaded.ops, w.ctx, std::min(w.ctx, kScoredRows)));
    Progress bar("perplexity", std::ssize(tokens));
    QR_TRY_VOID(score_text(forward, tokens, w, [this, &bar](const Scored& scored) {
      bar.update(scored.position + 1);
      return see(scored);
    }));
    if (writer_) QR_TRY_VOID(writer_->finish());
    if (nll_file_) QR_TRY_VOID(nll_file_->finish());
    return std::move(tally_);
  }

 private:
  Status see(const Scored& scored) {
    log_softmax(scored.logits, log_p_);
    const double nll = -log_p_[static_cast<size_t>(scored.token)];
    if (!std::isfinite(nll)) {
      return fail(Code::corrupt, "the logits for position " + std::to_string(scored.position) + " are not finite");
    }
    tally_.nll.push_back(nll);
    if (nll_file_) {
      std::array<char, 400> line;  // a double's digits at most, and two numbers
      const int n = std::snprintf(line.data(), line.size(), "%ld\t%d\t%.6f\n", static_cast<long>(scored.position),
                                  scored.token, nll);
      QR_TRY_VOID(nll_file_->write(line.data(), static_cast<size_t>(n)));
    }
    if (writer_) QR_TRY_VOID(writer_->add(log_p_));
    if (!reader_) return {};
    QR_TRY_VOID(reader_->next(base_));
    tally_.base_nll.push_back(-base_[static_cast<size_t>(scored.token)]);
    tally_.kl.push_back(kl_divergence(base_, log_p_));
    tally_.n_same_top += top_of(base_) == top_of(log_p_) ? 1 : 0;
    return {};
  }

  Tally tally_;
  std::vector<double> log_p_, base_;
  std::unique_ptr<BaseReader> reader_;
  std::unique_ptr<BaseWriter> writer_;
  std::unique_ptr<OutputFile> nll_file_;
};

Json result_of(const Tally& tally, size_t n_tokens, const Windows& windows) {
  const Perplexity ppl = perplexity_of(tally.nll);
  Json out(Json::Object{});
  out.set("tokens", static_cast<int64_t>(n_tokens));
  out.set("scored", ppl.n);
  out.set("ctx", windows.ctx);
  out.set("stride", windows.stride);
  if (windows.n_prompt > 0) out.set("prompt", windows.n_prompt);
  if (windows.kv_budget > 0) out.set("kv_budget", windows.kv_budget);
  out.set("windows_begin_with_bos", windows.bos >= 0);
  out.set("nll", ppl.mean_nll);
  out.set("perplexity", ppl.value());
  out.set("perplexity_error", ppl.value() * ppl.error);
  if (tally.kl.empty()) return out;
  const Perplexity kl = perplexity_of(tally.kl);
  out.set("base_perplexity", perplexity_of(tally.base_nll).value());
  out.set("kl_mean", kl.mean_nll);
  out.set("kl_mean_error", kl.error);
  out.set("kl_median", quantile(tally.kl, 0.5));
  out.set("kl_p99", quantile(tally.kl, 0.99));
  out.set("kl_max", quantile(tally.kl, 1.0));
  out.set("same_top", static_cast<double>(tally.n_same_top) / static_cast<double>(tally.kl.size()));
  return out;
}

void print(const Json& result) {
  const auto number = [&](std::string_view key) { return result.find(key)->number(); };
  std::printf("perplexity %.4f ± %.4f over %.0f tokens\n", number("perplexity"), number("perplexity_error"),
              number("scored"));
  std::printf("windows    of %.0f tokens, every %.0f, %s\n", number("ctx"), number("stride"),
              *result.find("windows_begin_with_bos")->as_bool() ? "each begins with BOS" : "no BOS but the text's own");
  if (result.find("kl_mean") == nullptr) return;
  std::printf("base       %.4f, ratio %.5f\n", number("base_perplexity"),
              number("perplexity") / number("base_perplexity"));
  std::printf("KL         mean %.6f ± %.6f, median %.6f, 99 %% %.6f, largest %.6f\n", number("kl_mean"),
              number("kl_mean_error"), number("kl_median"), number("kl_p99"), number("kl_max"));
  std::printf("same top   %.2f %%\n", 100 * number("same_top"));
}

// None of what is written takes the place of what is read, or of the other.
Status check_outputs(const Args& args) {
  const std::string read[] = {args.text, args.kl_base};
  for (const auto& [said_as, out] :
       {std::pair("--nll", &args.nll_out), std::pair("--kl-base-out", &args.kl_base_out)}) {
    QR_TRY_VOID(check_not_read(said_as, *out, read));
    QR_TRY_VOID(check_not_model(said_as, *out, args.model.model));
  }
  if (!args.nll_out.empty() && args.nll_out == args.kl_base_out)
    return fail(Code::invalid, "--nll and --kl-base-out name one file, " + args.nll_out);
  return {};
}

Status run(Args& args) {
  if (args.text.empty() == args.tokens.empty()) return fail(Code::invalid, "give either --text or --tokens");
  QR_TRY_VOID(find_model(args.model));
  QR_TRY_VOID(check_outputs(args));
  args.model.ctx = args.ctx;
  QR_TRY(const LoadedModel loaded, load(args.model));
  QR_TRY(const std::vector<Token> tokens, read_tokens(args, loaded));
  QR_TRY(const Windows windows, windows_of(args, loaded, tokens));
  QR_TRY(const Tally tally, Scorer().run(args, loaded, tokens, windows));
  const Json result = result_of(tally, tokens.size(), windows);
  if (args.json) {
    std::printf("%s\n", result.dump().c_str());
  } else {
    print(result);
  }
  return {};
}

QR_REGISTER(Command,
            "perplexity",
            Command{"say how well a model foretells a text", false, [](CommandLine& line) -> std::function<int()> {
                      auto args = std::make_shared<Args>();
                      declare_model_options(line, args->model);
                      declare_shift_option(line, args->model);
                      line.option("--text", args->text, "the file with the text");
                      line.option("--tokens", args->tokens, kTokenIds, "token ids instead, separated by commas");
                      line.option("--ctx", args->ctx, {2, kMostContext, 0},
                                  "tokens of a window, 0 for 512 or what the model has");
                      line.option("--stride", args->stride, {0, kMostContext},
                                  "tokens from one window to the next, 0 for --ctx; fewer give each token more past");
                      line.option("--prompt", args->prompt, {0, kMostContext},
                                  "score what comes behind so many tokens of each window alone, 0: all of it");
                      line.option("--kv-budget", args->kv_budget, {0, kMostContext},
                                  "tokens of the prompt that are kept behind it, 0: all");
                      line.option("--nll", args->nll_out, "write position, token and -ln p of each scored token");
                      line.option("--kl-base-out", args->kl_base_out, "write every distribution, to compare with");
                      line.option("--kl-base", args->kl_base, "compare with distributions that were written so");
                      line.flag("--json", args->json, "print one JSON object");
                      return [args] { return exit_code(run(*args)); };
                    }});

}  // namespace
}  // namespace quire
