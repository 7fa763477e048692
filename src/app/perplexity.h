// How well a model foretells a text: the surprise of each token, and how far the distributions of two models lie apart.
// Long texts are read in windows of `ctx` tokens that begin every `stride` tokens; a token is scored in the first
// window that has it, so it has at least ctx − stride tokens before it but in the first. (The strided evaluation of
// Hugging Face's documentation; with stride = ctx the windows share nothing.) A model that knows only texts that begin
// with BOS gets it in place of every window's first token, which is never scored. One thread.
#pragma once
#include <cstdio>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "app/forward.h"
#include "app/output_file.h"
#include "base/result.h"

namespace quire {

inline constexpr int kWindowBlock = 16;  // tokens of a block of the Forward that reads windows

struct Windows {
  int ctx = 512, stride = 512;
  Token bos = -1;  // stands for the first token of every window; -1: that token itself
  // > 0: the first n_prompt tokens of a window, and the one that their last row foretells, are not scored. With a
  // budget (0: none) what comes behind them sees what that keeps (Forward::bound). stride = ctx then.
  int n_prompt = 0, kv_budget = 0;
  PromptBudget budget() const { return {kv_budget, n_prompt, kWindowBlock}; }
};

// A scored token: its place in the text, and the logits for it [n_vocab].
struct Scored {
  int64_t position;
  Token token;
  std::span<const float> logits;
};

inline constexpr int kScoredRows = 512;  // of one pass: logits of a long window at once would be gigabytes

// Calls `see` for each scored token in order; an error of it ends the pass. REQUIRES 2 ≤ ctx, 1 ≤ stride ≤ ctx,
// n_prompt < ctx, a Forward with room for ctx tokens and for kScoredRows, or ctx if fewer, in one pass, ids (bos among
// them) in range.
Status score_text(Forward& forward,
                  std::span<const Token> tokens,
                  const Windows& windows,
                  const std::function<Status(const Scored&)>& see);

// ln p of every id, in double. The natural logarithm throughout.
void log_softmax(std::span<const float> logits, std::vector<double>& out);

// Every distribution over a text, as another model's are compared with: a header that names the text and its windows,
// then for each scored token ln p of all ids in 16 bits each, evenly between the largest and kDepth below it (what is
// less likely than e^−kDepth of the likeliest counts as that). An error of 24/65535/2 = 0.0002 in ln p at most.
class BaseWriter {
 public:
  // Errors, here and of the others, as OutputFile's: nothing stays of a file that was not finished.
  static Result<BaseWriter> create(const std::string& path,
                                   std::span<const Token> tokens,
                                   const Windows& windows,
                                   int n_vocab);
  Status add(std::span<const double> log_p);
  Status finish();

 private:
  std::unique_ptr<OutputFile> file_;
  std::vector<uint16_t> row_;
};

class BaseReader {
 public:
  // Code::invalid where the file is of another text, other windows or another vocabulary; Code::corrupt where it is
  // none.
  static Result<BaseReader> open(const std::string& path,
                                 std::span<const Token> tokens,
                                 const Windows& windows,
                                 int n_vocab);
  // The next token's ln p of all ids. Code::corrupt at the end of a file that was cut off.
  Status next(std::vector<double>& log_p);

 private:
  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_{nullptr, &std::fclose};
  std::vector<uint16_t> row_;
};

struct Perplexity {
  int64_t n = 0;
  double mean_nll = 0, error = 0;  // the mean's standard error
  double value() const;            // e^mean_nll
};
Perplexity perplexity_of(std::span<const double> nll);

// Σ p (ln p − ln q) in double; 0 where p is 0.
double kl_divergence(std::span<const double> log_p, std::span<const double> log_q);
// The value at rank q of n − 1, between neighbours in proportion. REQUIRES values, 0 ≤ q ≤ 1.
double quantile(std::vector<double> values, double q);

}  // namespace quire
