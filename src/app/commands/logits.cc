// quire logits: the door for comparison with reference implementations.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "app/forward.h"
#include "app/output_file.h"
#include "app/wire.h"
#include "base/json.h"
#include "engine/option_ranges.h"

namespace quire {
namespace {

struct Args {
  ModelOptions model;
  std::vector<int> tokens;
  std::string text, out;
  int chunk = 512, top = 0;
};

// NumPy's format 1.0: magic, header length, a Python dict padded to 64 bytes, then the data.
Status write_npy_header(OutputFile& file, int64_t rows, int64_t cols) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", " +
                       std::to_string(cols) + "), }";
  header.resize((10 + header.size() + 64) / 64 * 64 - 10, ' ');
  header.back() = '\n';
  const unsigned char head[] = {0x93,
                                'N',
                                'U',
                                'M',
                                'P',
                                'Y',
                                1,
                                0,
                                static_cast<unsigned char>(header.size() & 0xff),
                                static_cast<unsigned char>(header.size() >> 8)};
  QR_TRY_VOID(file.write(head, sizeof head));
  return file.write(header.data(), header.size());
}

Status write_logits(const Args& args, const LoadedModel& loaded, OutputFile& file) {
  const ModelInfo& info = loaded.model->info();
  const auto n = static_cast<int64_t>(args.tokens.size());
  QR_TRY_VOID(write_npy_header(file, n, info.n_vocab));
  QR_TRY(Forward forward, Forward::make(*loaded.model, *loaded.ops, static_cast<int>(n), args.chunk));
  for (int64_t at = 0; at < n; at += args.chunk) {
    const auto count = static_cast<size_t>(std::min<int64_t>(args.chunk, n - at));
    QR_TRY(const Tensor logits, forward.run(std::span(args.tokens).subspan(static_cast<size_t>(at), count)));
    QR_TRY_VOID(file.write(logits.data, static_cast<size_t>(logits.n_elements()) * sizeof(float)));
  }
  return file.finish();
}

// The logarithm of the sum of exponentials of a row.
double log_sum(const float* logits, int64_t n) {
  double most = logits[0], sum = 0;
  for (int64_t i = 1; i < n; ++i) most = std::max(most, static_cast<double>(logits[i]));
  for (int64_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(logits[i]) - most);
  return most + std::log(sum);
}

Json candidate(const LoadedModel& loaded, Token id, double logprob) {
  Json out;
  out.set("id", id);
  if (loaded.tokenizer && id < loaded.tokenizer->n_vocab()) {
    std::string text;
    loaded.tokenizer->append_bytes(id, true, text);
    out.set("token", text);
  }
  out.set("logprob", logprob);
  return out;
}

// The likeliest tokens after a position, ties to the lower id, and the token that follows there.
Json position(const Args& args, const LoadedModel& loaded, const float* logits, size_t at) {
  const int64_t n_vocab = loaded.model->info().n_vocab;
  const double total = log_sum(logits, n_vocab);
  std::vector<Token> order(static_cast<size_t>(n_vocab));
  std::iota(order.begin(), order.end(), 0);
  const auto n_top = std::min<int64_t>(args.top, n_vocab);
  std::partial_sort(order.begin(), order.begin() + n_top, order.end(),
                    [logits](Token a, Token b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  Json out;
  out.set("position", static_cast<int64_t>(at));
  out.set("id", args.tokens[at]);
  Json::Array top;
  for (int64_t i = 0; i < n_top; ++i) {
    const Token id = order[static_cast<size_t>(i)];
    top.push_back(candidate(loaded, id, static_cast<double>(logits[id]) - total));
  }
  out.set("top", std::move(top));
  if (at + 1 < args.tokens.size()) {
    const Token id = args.tokens[at + 1];
    out.set("next", candidate(loaded, id, static_cast<double>(logits[id]) - total));
  }
  return out;
}

Status print_top(const Args& args, const LoadedModel& loaded) {
  const auto n = static_cast<int64_t>(args.tokens.size());
  QR_TRY(Forward forward, Forward::make(*loaded.model, *loaded.ops, static_cast<int>(n), args.chunk));
  for (int64_t at = 0; at < n; at += args.chunk) {
    const auto count = static_cast<size_t>(std::min<int64_t>(args.chunk, n - at));
    QR_TRY(const Tensor logits, forward.run(std::span(args.tokens).subspan(static_cast<size_t>(at), count)));
    for (size_t i = 0; i < count; ++i) {
      const Json line = position(args, loaded, logits.row<float>(static_cast<int64_t>(i)), static_cast<size_t>(at) + i);
      std::printf("%s\n", line.dump().c_str());
    }
  }
  return {};
}

Status check_tokens(const Args& args, const ModelInfo& info) {
  if (args.tokens.empty()) return fail(Code::invalid, "no tokens: give --tokens (ids separated by commas) or --text");
  if (static_cast<int64_t>(args.tokens.size()) > info.n_ctx) {
    return fail(Code::invalid,
                std::to_string(args.tokens.size()) + " tokens, the model takes at most " + std::to_string(info.n_ctx));
  }
  for (int id : args.tokens) {
    if (id < 0 || id >= info.n_vocab) {
      return fail(Code::invalid,
                  "token id " + std::to_string(id) + " is not in 0 … " + std::to_string(info.n_vocab - 1));
    }
  }
  return {};
}

Status run(Args& args) {
  if (args.chunk < 1) return fail(Code::invalid, "--chunk must be at least 1, got " + std::to_string(args.chunk));
  if (args.top < 0 || args.top > 1 << 20)
    return fail(Code::invalid, "--top must be 0 to 1048576, got " + std::to_string(args.top));
  if (args.top == 0 && args.out.empty()) return fail(Code::invalid, "--out or --top says what to write");
  QR_TRY_VOID(find_model(args.model));
  QR_TRY_VOID(check_not_model("--out", args.out, args.model.model));
  QR_TRY(const LoadedModel loaded, load(args.model));
  if (!args.text.empty() && args.tokens.empty()) {
    if (!loaded.tokenizer) return fail(Code::not_found, loaded.path + " has no tokenizer: give --tokens");
    QR_TRY_VOID(loaded.tokenizer->encode(args.text, EncodeOptions{.add_special = true}, args.tokens));
  }
  QR_TRY_VOID(check_tokens(args, loaded.model->info()));
  if (args.top > 0) QR_TRY_VOID(print_top(args, loaded));
  if (args.out.empty()) return {};
  QR_TRY(const std::unique_ptr<OutputFile> file, OutputFile::create(args.out));
  return write_logits(args, loaded, *file);
}

QR_REGISTER(Command,
            "logits",
            Command{"the logits of every position: a NumPy file [n_tokens, n_vocab], or the likeliest as JSON", false,
                    [](CommandLine& line) -> std::function<int()> {
                      auto args = std::make_shared<Args>();
                      declare_model_options(line, args->model);
                      line.option("--tokens", args->tokens, kTokenIds, "token ids, separated by commas");
                      line.option("--text", args->text, "a text instead of --tokens; BOS is added as the model wants");
                      line.option("--out", args->out, "the .npy file to write");
                      line.option("--top", args->top, {0, kMostInt},
                                  "print a JSON object for each position with so many of the likeliest next tokens");
                      line.option("--ctx", args->model.ctx, {2, kMostContext, 0},
                                  "positions to load the model for, 0 for what it was trained for");
                      line.option("--chunk", args->chunk, {1, kMostStepTokens}, "tokens per forward pass");
                      return [args] { return exit_code(run(*args)); };
                    }});

}  // namespace
}  // namespace quire
