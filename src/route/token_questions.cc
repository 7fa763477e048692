#include "route/token_questions.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <new>
#include <thread>
#include <utility>

#include "base/nanoseconds.h"
#include "base/thread.h"

namespace quire {
namespace {

constexpr uint32_t kMostUnsaid = 3;                                  // in a row; then it is not asked for
constexpr int64_t kLeastSilenceMs = 1'000, kMostSilenceMs = 60'000;  // so long, twice as long each time
constexpr uint32_t kMostDoublings = 6;
constexpr int64_t kMostAnswerBytes = 8 << 20;  // what is longer is not read

struct RenderPath {
  std::string_view path, render;
};
constexpr std::array kRenderPaths = {
    RenderPath{"/v1/chat/completions", "/v1/chat/completions/render"},
    RenderPath{"/chat/completions", "/v1/chat/completions/render"},
    RenderPath{"/v1/completions", "/v1/completions/render"},
};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// The numbers of a list that begins at `at`, all of them or none.
std::vector<Token> numbers_from(std::string_view text, size_t at) {
  const auto skip_blanks = [&] {
    while (at < text.size() && is_blank(text[at])) ++at;
  };
  skip_blanks();
  if (at >= text.size() || text[at] != '[') return {};
  std::vector<Token> out;
  for (++at; at < text.size(); ++at) {
    skip_blanks();
    Token token = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), token);
    if (error != std::errc() || token < 0) return {};
    out.push_back(token);
    at = static_cast<size_t>(end - text.data());
    skip_blanks();
    if (at < text.size() && text[at] == ']') return out;
    if (at >= text.size() || text[at] != ',') return {};
  }
  return {};
}

}  // namespace

std::string_view render_path(std::string_view path) {
  for (const RenderPath& one : kRenderPaths)
    if (one.path == path) return one.render;
  return {};
}

std::vector<Token> tokens_in_prompt(std::string_view written) { return numbers_from(written, 0); }

std::vector<Token> tokens_in_answer(std::string_view body) {
  constexpr std::string_view kName = "\"token_ids\"";  // within a string its quotes would be escaped
  const size_t at = body.find(kName);
  if (at == std::string_view::npos) return {};
  const size_t colon = body.find_first_not_of(" \t\r\n", at + kName.size());
  return colon != std::string_view::npos && body[colon] == ':' ? numbers_from(body, colon + 1) : std::vector<Token>();
}

class TokenQuestions::Question final : public UpstreamEvents, public std::enable_shared_from_this<Question> {
 public:
  Question(TokenQuestions& owner,
           std::shared_ptr<Worker> worker,
           ReplyPtr reply,
           std::shared_ptr<ByteAccount> account,
           Found found)
      : owner_(owner),
        worker_(std::move(worker)),
        reply_(std::move(reply)),
        lease_(std::move(account)),
        found_(std::move(found)) {}

  void on_head(UpstreamHead&& head) override { status_ = head.status; }
  bool on_body(std::string_view bytes) override {
    const auto n = std::ssize(body_) + std::ssize(bytes);
    is_too_large_ = is_too_large_ || n > kMostAnswerBytes || !lease_.resize(n);
    if (!is_too_large_) body_ += bytes;
    return true;
  }
  void on_end(const UpstreamError* error) override {
    upstream_ = nullptr;
    const bool well = error == nullptr && status_ == 200 && !is_too_large_;
    finish(well ? tokens_in_answer(body_) : std::vector<Token>());
  }

  // Any thread.
  // False where there is no memory for it.
  bool be_late() try {
    reply_->post([self = shared_from_this()] { self->finish({}); });
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
  void drop() {
    found_ = nullptr;
    if (const auto upstream = std::exchange(upstream_, nullptr)) upstream->cancel();
  }
  void set(std::shared_ptr<Upstream> upstream) { upstream_ = std::move(upstream); }

 private:
  void finish(std::vector<Token>&& tokens) {
    if (!found_) return;
    const Found found = std::exchange(found_, nullptr);
    if (tokens.empty())
      note_unsaid();
    else
      worker_->n_unsaid.store(0);
    drop();
    found(std::move(tokens));
  }

  // Who does not know the path is not asked soon; what was the client's fault says nothing of it.
  void note_unsaid() {
    owner_.n_unsaid_.add();
    const bool is_unknown = status_ == 404 || status_ == 405 || status_ == 501;
    if (status_ >= 400 && status_ < 500 && !is_unknown) return;
    const uint32_t n = worker_->n_unsaid.fetch_add(1) + 1;
    if (n < kMostUnsaid && !is_unknown) return;
    const int64_t ms = is_unknown ? kMostSilenceMs : kLeastSilenceMs << std::min(n - kMostUnsaid, kMostDoublings);
    worker_->silent_until_ns.store(owner_.clock_.now_ns() + std::min(ms, kMostSilenceMs) * kNsPerMs);
  }

  TokenQuestions& owner_;
  const std::shared_ptr<Worker> worker_;
  const ReplyPtr reply_;
  ByteLease lease_;
  Found found_;  // empty: it was called, or nobody waits
  int status_ = 0;
  bool is_too_large_ = false;
  std::string body_;
  std::shared_ptr<Upstream> upstream_;
};

TokenQuestions::TokenQuestions(int64_t deadline_ms, const UpstreamLimits& limits, Clock& clock, Metrics& metrics)
    : deadline_ms_(deadline_ms),
      limits_(limits),
      clock_(clock),
      n_asked_(metrics.counter("quire_route_tokens_asked_total", "Prompts whose tokens a worker was asked for.")),
      n_unsaid_(metrics.counter("quire_route_tokens_unsaid_total", "Of them, not told in time or not at all.")),
      thread_([this] { run(); }) {}

TokenQuestions::~TokenQuestions() {
  {
    const std::lock_guard lock(mu_);
    ending_ = true;
  }
  wakes_.notify_all();
  thread_.join();
}

std::shared_ptr<TokenQuestions::Question> TokenQuestions::ask(std::shared_ptr<Worker> worker,
                                                              UpstreamRequest request,
                                                              ReplyPtr reply,
                                                              std::shared_ptr<ByteAccount> account,
                                                              Found found) {
  n_asked_.add();
  auto question =
      std::make_shared<Question>(*this, std::move(worker), std::move(reply), std::move(account), std::move(found));
  question->set(ask_upstream(std::move(request), limits_, question));
  bool was_empty = false;
  {
    const std::lock_guard lock(mu_);
    was_empty = due_.empty();
    due_.push_back({std::chrono::steady_clock::now() + std::chrono::milliseconds(deadline_ms_), question});
  }
  if (was_empty) wakes_.notify_one();
  return question;
}

void TokenQuestions::drop(Question& question) { question.drop(); }

// All deadlines are as far away when they are made, so they come in order.
void TokenQuestions::run() {
  set_thread_name("qr-tokens");
  std::unique_lock lock(mu_);
  while (true) {
    wakes_.wait(lock, [this] { return ending_ || !due_.empty(); });
    if (ending_) return;
    const auto at = due_.front().at;
    if (wakes_.wait_until(lock, at, [this] { return ending_; })) return;
    const auto question = due_.front().question.lock();
    due_.pop_front();
    lock.unlock();
    // Without memory again until there is some: whoever asked waits for this.
    while (question != nullptr && !question->be_late()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    lock.lock();
  }
}

}  // namespace quire
