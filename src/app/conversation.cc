#include "app/conversation.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>

#include "app/line_editor.h"
#include "base/clock.h"

namespace quire {
namespace {

// What the handler of Ctrl-C may touch. While an answer comes, it shuts the answer's socket, which ends the wait for
// it; while a line is typed, it ends that line.
std::atomic<int> answering_fd{-1};
std::atomic<bool> interrupted{false};

void on_interrupt(int) {
  interrupted = true;
  const int fd = answering_fd;
  if (fd >= 0) ::shutdown(fd, SHUT_RDWR);
  LineEditor::interrupt();
}

// Without SA_RESTART, so that waiting for a line from a pipe ends too.
void catch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
}

constexpr const char* kHelp =
    "/system TEXT   set the system prompt and begin anew\n"
    "/reset         begin anew\n"
    "/retry         ask the last question again\n"
    "/save FILE     write the conversation as JSON messages\n"
    "/help          this list\n"
    "/exit          leave, as does Ctrl-D\n"
    "Ctrl-C stops an answer. A line that ends in \\ goes on in the next one.\n";

}  // namespace

class Conversation::Impl {
 public:
  Impl(const ConversationOptions& options, Remote remote, std::string model)
      : args_(options),
        remote_(std::move(remote)),
        client_(connect_to(remote_, kTimeoutMs)),
        editor_(options.history == "none" ? ""
                : options.history.empty() ? history_path("chat_history")
                                          : options.history),
        model_(std::move(model)),
        system_(options.system) {
    reset();
  }

  // Until the end of the input. Fails when an answer failed and nobody is there to see it.
  Status run() {
    if (editor_.interactive()) std::printf("%s. /help lists the commands, Ctrl-D leaves.\n", model_.c_str());
    while (true) {
      std::optional<std::string> line = read_question();
      if (!line && editor_.interrupted()) {
        std::printf("^C\n");
        continue;
      }
      if (!line || *line == "/exit" || *line == "/quit") break;
      if (line->find_first_not_of(" \t") == std::string::npos) continue;
      const Status done = line->front() == '/' ? command(*line) : question(*line);
      if (done) continue;
      if (!editor_.interactive()) return done;
      std::fprintf(stderr, "%s\n", done.error().message.c_str());
    }
    if (editor_.interactive()) std::printf("\n");
    return {};
  }

  Status ask_once(const std::string& text) { return question(text); }

 private:
  static constexpr int kTimeoutMs = 3600 * 1000;

  std::optional<std::string> read_question() {
    std::optional<std::string> line = editor_.read("> ");
    while (line && line->ends_with('\\')) {
      line->back() = '\n';
      const std::optional<std::string> more = editor_.read("… ");
      if (!more && editor_.interrupted()) return std::nullopt;
      if (!more) break;
      *line += *more;
    }
    return line;
  }

  void reset() {
    messages_.clear();
    if (!system_.empty()) add("system", system_);
    before_last_ = messages_.size();
  }
  void add(const char* role, const std::string& content) {
    Json message;
    message.set("role", role);
    message.set("content", content);
    messages_.push_back(std::move(message));
  }

  Status command(const std::string& line) {
    const size_t blank = std::min(line.find(' '), line.size());
    const std::string name = line.substr(0, blank);
    const size_t from = line.find_first_not_of(' ', blank);
    const std::string rest = from == std::string::npos ? "" : line.substr(from);
    if (name == "/help") {
      std::printf("%s", kHelp);
    } else if (name == "/reset") {
      last_question_.clear();
      reset();
    } else if (name == "/system") {
      system_ = rest;
      reset();
    } else if (name == "/save") {
      return save(rest);
    } else if (name == "/retry") {
      if (last_question_.empty()) return fail(Code::invalid, "there is no question to ask again");
      messages_.resize(before_last_);
      return question(last_question_);
    } else {
      return fail(Code::invalid, "no command " + name + "; /help lists them");
    }
    return {};
  }

  Status save(const std::string& path) const {
    if (path.empty()) return fail(Code::invalid, "/save needs the name of a file");
    std::ofstream out(path);
    out << Json(messages_).dump() << '\n';
    if (!out.flush()) return fail(Code::io, path + ": cannot write");
    std::fprintf(stderr, "%zu messages in %s\n", messages_.size(), path.c_str());
    return {};
  }

  Status question(const std::string& text) {
    interrupted = false;
    last_question_ = text;
    before_last_ = messages_.size();
    add("user", text);
    Ask what;
    what.body.set("model", model_);
    what.body.set("messages", messages_);
    set_fields(args_.sampling, what.body);
    if (args_.max_tokens > 0) what.body.set("max_tokens", args_.max_tokens);
    if (args_.seed > 0) what.body.set("seed", static_cast<int64_t>(args_.seed));
    what.on_text = [](std::string_view piece) {
      std::fwrite(piece.data(), 1, piece.size(), stdout);
      std::fflush(stdout);
      return !interrupted;
    };
    QR_TRY_VOID(client_.connect());  // before the answer, so that Ctrl-C knows the socket
    answering_fd = client_.fd();
    const int64_t start_ns = SystemClock().now_ns();
    const RemoteAnswer answer = ask(client_, remote_, what);
    answering_fd = -1;
    if (!answer.text.ends_with('\n')) std::printf("\n");
    std::fflush(stdout);
    if (interrupted) client_.close();
    if (!answer.failure.empty() && !interrupted) {
      messages_.pop_back();
      return fail(Code::io, answer.message);
    }
    add("assistant", answer.text);
    if (!args_.no_stats) print_stats(answer, start_ns);
    return {};
  }

  void print_stats(const RemoteAnswer& a, int64_t start_ns) const {
    const auto n = a.n_generated >= 0 ? a.n_generated : static_cast<int64_t>(a.piece_ns.size());
    if (a.piece_ns.empty()) return;
    const double first_s = static_cast<double>(a.piece_ns.front() - start_ns) * 1e-9;
    const double rest_s = static_cast<double>(a.piece_ns.back() - a.piece_ns.front()) * 1e-9;
    std::string cached;
    if (a.n_prompt >= 0 && a.n_cached >= 0)
      cached = ", " + std::to_string(a.n_cached) + " of " + std::to_string(a.n_prompt) + " prompt tokens cached";
    char rate[48] = "";  // none of one token, nor of an answer that came at once
    if (n > 1 && rest_s > 0) std::snprintf(rate, sizeof rate, ", %.1f tok/s", static_cast<double>(n - 1) / rest_s);
    std::fprintf(stderr, "[%ld tokens%s%s, first after %.2f s%s%s]\n", static_cast<long>(n),
                 a.n_generated < 0 ? " or more" : "", rate, first_s, cached.c_str(),
                 interrupted            ? ", stopped"
                 : a.finish == "length" ? ", cut at the limit"
                                        : "");
  }

  const ConversationOptions& args_;
  const Remote remote_;
  HttpClient client_;
  LineEditor editor_;
  const std::string model_;
  std::string system_, last_question_;
  size_t before_last_ = 0;
  Json::Array messages_;
};

void declare_conversation_options(CommandLine& line, ConversationOptions& options) {
  line.option("--system", options.system, "the system prompt");
  line.option("--max-tokens", options.max_tokens, {0, 1e9}, "of an answer at most, 0: until the context is full");
  declare_sampling_options(line, options.sampling);
  line.option("--seed", options.seed, kSeeds, "of the random draws, 0: another each time");
  line.option("--history", options.history,
              "file of the lines that were typed, or none; empty: quire/chat_history among the state files");
  line.flag("--no-stats", options.no_stats, "no line of figures after an answer");
}

Status check(const ConversationOptions& options) { return check(options.sampling); }

Conversation::Conversation(const ConversationOptions& options, Remote remote, std::string model)
    : impl_(std::make_unique<Impl>(options, std::move(remote), std::move(model))) {
  catch_interrupts();
}

Conversation::~Conversation() = default;

Status Conversation::run() { return impl_->run(); }

Status Conversation::ask_once(const std::string& question) { return impl_->ask_once(question); }

}  // namespace quire
