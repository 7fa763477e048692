#include "app/perplexity.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/check.h"

namespace quire {
namespace {

constexpr double kDepth = 24.0;
constexpr double kSteps = 65535.0;
constexpr std::array<char, 8> kMagic = {'Q', 'R', 'K', 'L', 'B', 'A', 'S', 'E'};

struct BaseHeader {
  std::array<char, 8> magic = kMagic;
  uint32_t version = 2;
  int32_t n_vocab = 0, ctx = 0, stride = 0, bos = -1, n_prompt = 0;
  int64_t n_tokens = 0;
};
static_assert(sizeof(BaseHeader) == 40);
const uint32_t kVersion = BaseHeader().version;

}  // namespace

Status score_text(Forward& forward,
                  std::span<const Token> tokens,
                  const Windows& windows,
                  const std::function<Status(const Scored&)>& see) {
  const auto n = static_cast<int64_t>(tokens.size());
  int64_t scored_until = 1;  // nothing stands before the first
  std::vector<Token> window;
  for (int64_t begin = 0; scored_until < n; begin += windows.stride) {
    const int64_t end = std::min<int64_t>(begin + windows.ctx, n);
    forward.bound(begin + windows.n_prompt < end ? windows.budget() : PromptBudget());
    window.assign(tokens.begin() + begin, tokens.begin() + end);
    if (windows.bos >= 0) window.front() = windows.bos;
    // A window's first token has no past in it; its last row foretells what is not in the window.
    for (int64_t first = begin, n_rows = 0; first < end; first += n_rows) {
      const int64_t behind = begin + windows.n_prompt;
      n_rows = std::min<int64_t>(kScoredRows, (first < behind ? std::min(behind, end) : end) - first);
      const auto rows = std::span<const Token>(window).subspan(static_cast<size_t>(first - begin));
      QR_TRY(const Tensor logits, forward.run(rows.first(static_cast<size_t>(n_rows))));  // [n_rows, n_vocab]
      const int64_t from = windows.n_prompt > 0 ? behind + 1 : scored_until;
      for (int64_t at = std::max(from, first + 1); at < std::min(end, first + n_rows + 1); ++at) {
        const float* row = logits.row<float>(at - 1 - first);
        const std::span<const float> values(row, static_cast<size_t>(logits.dim(1)));
        QR_TRY_VOID(see({at, tokens[static_cast<size_t>(at)], values}));
      }
    }
    scored_until = end;
  }
  return {};
}

void log_softmax(std::span<const float> logits, std::vector<double>& out) {
  const auto max = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - max);
  const double shift = max + std::log(sum);
  out.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) out[i] = static_cast<double>(logits[i]) - shift;
}

Result<BaseWriter> BaseWriter::create(const std::string& path,
                                      std::span<const Token> tokens,
                                      const Windows& windows,
                                      int n_vocab) {
  BaseWriter out;
  QR_TRY(out.file_, OutputFile::create(path));
  BaseHeader header;
  header.n_vocab = n_vocab;
  header.ctx = windows.ctx;
  header.stride = windows.stride;
  header.bos = windows.bos;
  header.n_prompt = windows.n_prompt;
  header.n_tokens = static_cast<int64_t>(tokens.size());
  QR_TRY_VOID(out.file_->write(&header, sizeof header));
  QR_TRY_VOID(out.file_->write(tokens.data(), tokens.size_bytes()));
  return out;
}

Status BaseWriter::add(std::span<const double> log_p) {
  const double max = *std::max_element(log_p.begin(), log_p.end());
  row_.resize(log_p.size());
  for (size_t i = 0; i < log_p.size(); ++i) {
    const double step = std::clamp((log_p[i] - max + kDepth) / kDepth, 0.0, 1.0) * kSteps;
    row_[i] = static_cast<uint16_t>(std::lround(step));
  }
  const auto top = static_cast<float>(max);
  QR_TRY_VOID(file_->write(&top, sizeof top));
  return file_->write(row_.data(), row_.size() * sizeof row_[0]);
}

Status BaseWriter::finish() { return file_->finish(); }

Result<BaseReader> BaseReader::open(const std::string& path,
                                    std::span<const Token> tokens,
                                    const Windows& windows,
                                    int n_vocab) {
  BaseReader out;
  out.path_ = path;
  out.file_.reset(std::fopen(path.c_str(), "rb"));
  if (!out.file_) return fail(Code::io, path + ": cannot be read: " + std::strerror(errno));
  BaseHeader header;
  if (std::fread(&header, sizeof header, 1, out.file_.get()) != 1 || header.magic != kMagic) {
    return fail(Code::corrupt, path + ": no file of base distributions");
  }
  if (header.version != kVersion) {
    return fail(Code::unsupported, path + ": version " + std::to_string(header.version) + " of such files; version " +
                                       std::to_string(kVersion) + " is read: write it again with --kl-base-out");
  }
  const auto same = [&](const char* what, int64_t theirs, int64_t ours) -> Status {
    if (theirs == ours) return {};
    return fail(Code::invalid,
                path + ": " + what + " is " + std::to_string(theirs) + " there, " + std::to_string(ours) + " here");
  };
  QR_TRY_VOID(same("the vocabulary", header.n_vocab, n_vocab));
  QR_TRY_VOID(same("--ctx", header.ctx, windows.ctx));
  QR_TRY_VOID(same("--stride", header.stride, windows.stride));
  QR_TRY_VOID(same("--prompt", header.n_prompt, windows.n_prompt));
  QR_TRY_VOID(same("the token that begins a window (-1: the text's own)", header.bos, windows.bos));
  QR_TRY_VOID(same("the number of tokens", header.n_tokens, static_cast<int64_t>(tokens.size())));
  std::vector<Token> theirs(tokens.size());
  if (std::fread(theirs.data(), sizeof(Token), theirs.size(), out.file_.get()) != theirs.size()) {
    return fail(Code::corrupt, path + ": ends within its tokens");
  }
  if (!std::equal(theirs.begin(), theirs.end(), tokens.begin())) {
    return fail(Code::invalid, path + ": its text is another one");
  }
  out.row_.resize(static_cast<size_t>(n_vocab));
  return out;
}

Status BaseReader::next(std::vector<double>& log_p) {
  float top = 0;
  if (std::fread(&top, sizeof top, 1, file_.get()) != 1 ||
      std::fread(row_.data(), sizeof row_[0], row_.size(), file_.get()) != row_.size() || !(top <= 0.0F)) {
    return fail(Code::corrupt, path_ + ": ends before its text does, or was changed");
  }
  log_p.resize(row_.size());
  for (size_t i = 0; i < row_.size(); ++i) log_p[i] = static_cast<double>(top) - kDepth + kDepth * row_[i] / kSteps;
  return {};
}

double Perplexity::value() const { return std::exp(mean_nll); }

Perplexity perplexity_of(std::span<const double> nll) {
  Perplexity out;
  out.n = static_cast<int64_t>(nll.size());
  if (nll.empty()) return out;
  const auto n = static_cast<double>(nll.size());
  out.mean_nll = std::accumulate(nll.begin(), nll.end(), 0.0) / n;
  double squares = 0;
  for (const double x : nll) squares += (x - out.mean_nll) * (x - out.mean_nll);
  if (nll.size() > 1) out.error = std::sqrt(squares / (n - 1) / n);
  return out;
}

double kl_divergence(std::span<const double> log_p, std::span<const double> log_q) {
  QR_CHECK(log_p.size() == log_q.size());
  double sum = 0;
  for (size_t i = 0; i < log_p.size(); ++i) {
    const double p = std::exp(log_p[i]);
    if (p > 0) sum += p * (log_p[i] - log_q[i]);
  }
  return sum;
}

double quantile(std::vector<double> values, double q) {
  QR_CHECK(!values.empty() && q >= 0 && q <= 1);
  std::sort(values.begin(), values.end());
  const double rank = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(rank);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (rank - static_cast<double>(below));
}

}  // namespace quire
