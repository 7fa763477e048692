// quire imatrix: which inputs of a model's layers matter over a text, for quire quantize --imatrix.
#include "app/imatrix.h"

#include <cstdio>
#include <filesystem>

#include "app/output_file.h"
#include "app/text_tokens.h"
#include "engine/option_ranges.h"

namespace quire {
namespace {

constexpr int kDefaultWindow = 512;

struct Args {
  ModelOptions model;
  std::string text, out;
  std::vector<std::string> in;
  std::vector<int> tokens;
  int ctx = 0;
};

// Every window begins as a text does: a model that knows texts with BOS alone computes something else without.
void begin_windows(const LoadedModel& loaded, int window, std::vector<Token>& tokens) {
  const Token bos = begin_of_text(loaded);
  for (size_t at = 0; bos >= 0 && at < tokens.size(); at += static_cast<size_t>(window)) tokens[at] = bos;
}

Status read_text(Args& args, Imatrix& sums) {
  args.model.ctx = args.ctx;
  QR_TRY(const LoadedModel loaded, load(args.model, watch_inputs));
  QR_TRY(std::vector<Token> tokens, text_tokens(args.text, loaded));
  tokens.insert(tokens.end(), args.tokens.begin(), args.tokens.end());
  QR_TRY_VOID(check_ids(tokens, loaded));
  if (tokens.empty()) return fail(Code::invalid, "the text has no tokens");
  const int n_ctx = loaded.model->info().n_ctx;
  const int window = args.ctx != 0 ? args.ctx : std::min(kDefaultWindow, n_ctx);
  if (window < 1 || window > n_ctx) {
    return fail(Code::invalid,
                "--ctx must be 1 to " + std::to_string(n_ctx) + " for this model, got " + std::to_string(window));
  }
  if (!args.text.empty()) begin_windows(loaded, window, tokens);
  QR_TRY_VOID(add_text(loaded, tokens, window, sums));
  if (!args.text.empty()) {
    Imatrix named;
    named.datasets = {std::filesystem::path(args.text).filename().string()};
    QR_TRY_VOID(sums.add(named));
  }
  return {};
}

Status run(Args& args) {
  const bool has_text = !args.text.empty() || !args.tokens.empty();
  if (args.out.empty()) return fail(Code::invalid, "--out must name the file to write");
  if (!args.text.empty() && !args.tokens.empty()) return fail(Code::invalid, "give either --text or --tokens");
  if (!has_text && args.in.empty()) return fail(Code::invalid, "give --text, --tokens, or files to add up with --in");
  std::vector<std::string> read = args.in;
  read.push_back(args.text);
  QR_TRY_VOID(check_not_read("--out", args.out, read));
  QR_TRY_VOID(check_may_be_replaced("--out", args.out));
  if (has_text) {
    QR_TRY_VOID(find_model(args.model));
    QR_TRY_VOID(check_not_model("--out", args.out, args.model.model));
  }
  Imatrix sums;
  for (const std::string& path : args.in) {
    QR_TRY(const Imatrix one, Imatrix::open(path));
    const Status added = sums.add(one);
    if (!added) return fail(added.error().code, path + ": " + added.error().message);
  }
  if (has_text) QR_TRY_VOID(read_text(args, sums));
  QR_TRY_VOID(sums.write(args.out));
  std::printf("%s: %zu weights, %ld windows of up to %ld tokens\n", args.out.c_str(), sums.weights.size(),
              static_cast<long>(sums.n_chunks), static_cast<long>(sums.chunk_tokens));
  return {};
}

QR_REGISTER(Command,
            "imatrix",
            Command{"find which inputs matter, for quantize", false, [](CommandLine& line) -> std::function<int()> {
                      auto args = std::make_shared<Args>();
                      declare_model_options(line, args->model);
                      line.option("--text", args->text, "the file with the text that the model reads");
                      line.option("--tokens", args->tokens, kTokenIds, "token ids instead, separated by commas");
                      line.option("--ctx", args->ctx, {1, kMostContext, 0},
                                  "tokens of a window; 0 for 512, or all that the model has");
                      line.option("--in", args->in, "a file made before whose sums are added; may be repeated");
                      line.option("--out", args->out, "the file to write");
                      return [args] {
                        const Status done = run(*args);
                        return done ? kExitDone : report(done.error());
                      };
                    }});

}  // namespace
}  // namespace quire
