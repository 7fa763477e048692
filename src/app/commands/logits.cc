// quire logits: the door for comparison with reference implementations.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "app/forward.h"
#include "app/wire.h"

namespace quire {
namespace {

struct Args {
  ModelOptions model;
  std::vector<int> tokens;
  std::string out;
  int chunk = 512;
};

// NumPy's format 1.0: magic, header length, a Python dict padded to 64 bytes, then the data.
Status write_npy_header(std::FILE* file, int64_t rows, int64_t cols) {
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
  if (std::fwrite(head, 1, sizeof head, file) != sizeof head ||
      std::fwrite(header.data(), 1, header.size(), file) != header.size()) {
    return fail(Code::io, std::string("cannot write: ") + std::strerror(errno));
  }
  return {};
}

Status write_logits(const Args& args, const LoadedModel& loaded, std::FILE* file) {
  const ModelInfo& info = loaded.model->info();
  const auto n = static_cast<int64_t>(args.tokens.size());
  QR_TRY_VOID(write_npy_header(file, n, info.n_vocab));
  QR_TRY(Forward forward, Forward::make(*loaded.model, *loaded.ops, static_cast<int>(n), args.chunk));
  for (int64_t at = 0; at < n; at += args.chunk) {
    const auto count = static_cast<size_t>(std::min<int64_t>(args.chunk, n - at));
    const Tensor logits = forward.run(std::span(args.tokens).subspan(static_cast<size_t>(at), count));
    const auto values = static_cast<size_t>(logits.n_elements());
    if (std::fwrite(logits.data, sizeof(float), values, file) != values) {
      return fail(Code::io, args.out + ": cannot write: " + std::strerror(errno));
    }
  }
  return {};
}

Status run(const Args& args) {
  QR_TRY(const LoadedModel loaded, load(args.model));
  const ModelInfo& info = loaded.model->info();
  if (args.tokens.empty()) return fail(Code::invalid, "--tokens is empty: give token ids separated by commas");
  if (args.chunk < 1) return fail(Code::invalid, "--chunk must be at least 1, got " + std::to_string(args.chunk));
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
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(args.out.c_str(), "wb"), &std::fclose);
  if (!file) return fail(Code::io, args.out + ": cannot create: " + std::strerror(errno));
  QR_TRY_VOID(write_logits(args, loaded, file.get()));
  if (std::fflush(file.get()) != 0) return fail(Code::io, args.out + ": cannot write: " + std::strerror(errno));
  return {};
}

QR_REGISTER(Command,
            "logits",
            Command{"write the logits of every position as a NumPy file [n_tokens, n_vocab]", false,
                    [](CommandLine& line) -> std::function<int()> {
                      auto args = std::make_shared<Args>();
                      declare_model_options(line, args->model);
                      line.option("--tokens", args->tokens, "token ids, separated by commas");
                      line.option("--out", args->out, "the .npy file to write");
                      line.option("--ctx", args->model.ctx,
                                  "positions to load the model for, 0 for what it was trained for");
                      line.option("--chunk", args->chunk, "tokens per forward pass");
                      return [args] {
                        const Status done = run(*args);
                        return done ? kExitDone : report(done.error());
                      };
                    }});

}  // namespace
}  // namespace quire
