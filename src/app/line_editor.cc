#include "app/line_editor.h"

#include <histedit.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <filesystem>
#include <iostream>
#include <utility>

#include "base/check.h"

namespace quire {
namespace {

constexpr int kHistoryLines = 1000;

// What a signal handler may touch. libedit's own reading of keys goes on after a signal, so that Ctrl-C would take
// effect at the next key: here a handler leaves word in `events` and wakes the reader through `wake_fd`.
enum : unsigned { kInterrupted = 1, kResized = 2, kContinued = 4 };
std::atomic<unsigned> events{0};
std::atomic<int> wake_fd{-1};
termios outside = {}, inside = {};  // the terminal as it was found, and as it is between two lines

void wake(unsigned event) {
  const int error = errno;
  events |= event;
  const uint64_t one = 1;
  const int fd = wake_fd;
  if (fd >= 0) [[maybe_unused]]
    const ssize_t written = ::write(fd, &one, sizeof(one));
  errno = error;
}

void on_stop_or_end(int signal) {
  const int error = errno;
  tcsetattr(STDIN_FILENO, TCSANOW, &outside);
  ::signal(signal, SIG_DFL);
  raise(signal);  // takes effect when this handler returns
  errno = error;
}

void on_resize(int) { wake(kResized); }

void handle(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

void on_continue(int) {
  const int error = errno;
  tcsetattr(STDIN_FILENO, TCSANOW, &inside);  // whoever ran meanwhile left it as it liked
  handle(SIGTSTP, on_stop_or_end);
  wake(kContinued);
  errno = error;
}

// Takes the signals that concern a terminal, but those that whoever started the program wants ignored (nohup).
class Signals {
 public:
  Signals() {
    for (size_t i = 0; i < kTaken.size(); i++) {
      sigaction(kTaken[i].first, nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) handle(kTaken[i].first, kTaken[i].second);
    }
  }
  ~Signals() {
    for (size_t i = 0; i < kTaken.size(); i++) sigaction(kTaken[i].first, &before_[i], nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

 private:
  static constexpr std::array<std::pair<int, void (*)(int)>, 6> kTaken = {{{SIGTERM, on_stop_or_end},
                                                                           {SIGHUP, on_stop_or_end},
                                                                           {SIGQUIT, on_stop_or_end},
                                                                           {SIGTSTP, on_stop_or_end},
                                                                           {SIGCONT, on_continue},
                                                                           {SIGWINCH, on_resize}}};
  std::array<struct sigaction, kTaken.size()> before_ = {};
};

}  // namespace

struct LineEditor::Terminal {
  explicit Terminal(std::string history_file);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  std::optional<std::string> read(const std::string& text);
  bool interrupted = false;  // the last read

 private:
  static Terminal& of(EditLine* edit);
  static char* prompt_of(EditLine* edit) { return of(edit).prompt_.data(); }
  static int next_key(EditLine* edit, wchar_t* key) { return of(edit).next_key(*key); }
  void configure();
  int next_key(wchar_t& key);
  bool take_events();

  std::string file_, prompt_;
  std::optional<Signals> signals_;
  locale_t utf8_, before_;
  EditLine* edit_;
  History* past_;
};

LineEditor::Terminal& LineEditor::Terminal::of(EditLine* edit) {
  void* self = nullptr;
  el_get(edit, EL_CLIENTDATA, &self);
  return *static_cast<Terminal*>(self);
}

LineEditor::Terminal::Terminal(std::string history_file) : file_(std::move(history_file)) {
  QR_CHECK(wake_fd < 0);
  tcgetattr(STDIN_FILENO, &outside);
  wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  QR_CHECK(wake_fd >= 0);
  // What is typed is UTF-8, as models take it, whatever the environment says; this thread's libedit alone is told.
  utf8_ = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  before_ = uselocale(utf8_);
  edit_ = el_init("quire", stdin, stdout, stderr);
  past_ = history_init();
  QR_CHECK(edit_ != nullptr && past_ != nullptr);
  configure();
  signals_.emplace();
}

void LineEditor::Terminal::configure() {
  el_set(edit_, EL_CLIENTDATA, this);
  // From here on also between lines. libedit calls this the execute mode and would leave lines and echo to the kernel.
  el_set(edit_, EL_SETTY, "-x", "-icanon", "-echo", nullptr);
  tcgetattr(STDIN_FILENO, &inside);
  el_set(edit_, EL_SIGNAL, 0);
  el_set(edit_, EL_GETCFN, static_cast<int (*)(EditLine*, wchar_t*)>(next_key));
  el_set(edit_, EL_PROMPT, prompt_of);
  el_set(edit_, EL_EDITOR, "emacs");
  constexpr std::array<std::pair<const char*, const char*>, 13> kKeys = {{{"\t", "ed-insert"},  // no names of files
                                                                          {"\x12", "em-inc-search-prev"},
                                                                          {"\\e[1~", "ed-move-to-beg"},
                                                                          {"\\e[4~", "ed-move-to-end"},
                                                                          {"\\e[7~", "ed-move-to-beg"},
                                                                          {"\\e[8~", "ed-move-to-end"},
                                                                          {"\\e[H", "ed-move-to-beg"},
                                                                          {"\\e[F", "ed-move-to-end"},
                                                                          {"\\eOH", "ed-move-to-beg"},
                                                                          {"\\eOF", "ed-move-to-end"},
                                                                          {"\\e[3~", "ed-delete-next-char"},
                                                                          {"\\e[1;5C", "em-next-word"},
                                                                          {"\\e[1;5D", "ed-prev-word"}}};
  for (const auto& [key, action] : kKeys) el_set(edit_, EL_BIND, key, action, nullptr);
  HistEvent event;
  history(past_, &event, H_SETSIZE, kHistoryLines);
  el_set(edit_, EL_HIST, history, past_);
  el_source(edit_, nullptr);  // ~/.editrc, which has the last word
  if (!file_.empty()) history(past_, &event, H_LOAD, file_.c_str());
}

LineEditor::Terminal::~Terminal() {
  if (!file_.empty()) {
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::path(file_).parent_path(), error);
    const mode_t mask = umask(0077);  // what somebody asked is nobody else's to read
    HistEvent event;
    history(past_, &event, H_SAVE, file_.c_str());
    umask(mask);
  }
  history_end(past_);
  el_end(edit_);
  tcsetattr(STDIN_FILENO, TCSADRAIN, &outside);
  signals_.reset();
  ::close(wake_fd.exchange(-1));
  uselocale(before_);
  freelocale(utf8_);
}

std::optional<std::string> LineEditor::Terminal::read(const std::string& text) {
  prompt_ = text;
  interrupted = false;
  events &= ~kInterrupted;  // what came between two lines was not meant for the next
  int n = 0;
  const char* typed = el_gets(edit_, &n);
  if (typed == nullptr || n <= 0) return std::nullopt;
  std::string line(typed, static_cast<size_t>(n));
  if (line.ends_with('\n')) line.pop_back();
  HistEvent event;
  if (!line.empty()) history(past_, &event, H_ENTER, line.c_str());
  return line;
}

// False: the line is over.
bool LineEditor::Terminal::take_events() {
  uint64_t n = 0;
  [[maybe_unused]] const ssize_t got = ::read(wake_fd, &n, sizeof(n));
  const unsigned what = events.exchange(0);
  if ((what & kContinued) != 0) {
    el_set(edit_, EL_PREP_TERM, 0);
    el_set(edit_, EL_PREP_TERM, 1);
    el_set(edit_, EL_REFRESH);
  }
  if ((what & kResized) != 0) el_resize(edit_);
  interrupted = (what & kInterrupted) != 0;
  return !interrupted;
}

// As libedit wants it: 1 and a key, 0 at the end of the input, -1 when it failed.
int LineEditor::Terminal::next_key(wchar_t& key) {
  std::array<pollfd, 2> waits = {pollfd{wake_fd, POLLIN, 0}, pollfd{STDIN_FILENO, POLLIN, 0}};
  mbstate_t state = {};
  while (true) {
    if (poll(waits.data(), waits.size(), -1) < 0) {
      if (errno == EINTR) continue;
      return -1;
    }
    if (waits[0].revents != 0 && !take_events()) return -1;
    if (waits[1].revents == 0) continue;
    char byte = 0;
    const ssize_t n = ::read(STDIN_FILENO, &byte, 1);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return static_cast<int>(n);
    const size_t length = std::mbrtowc(&key, &byte, 1, &state);
    if (length == static_cast<size_t>(-2)) continue;
    if (length != static_cast<size_t>(-1)) return 1;
    state = {};  // not UTF-8: the byte is left out
  }
}

std::string history_path(const std::string& name) {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  if (state != nullptr && *state != '\0') return std::string(state) + "/quire/" + name;
  if (home != nullptr && *home != '\0') return std::string(home) + "/.local/state/quire/" + name;
  return "";
}

LineEditor::LineEditor(std::string history)
    : terminal_(isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0 ? std::make_unique<Terminal>(std::move(history))
                                                                        : nullptr) {}

LineEditor::~LineEditor() = default;

bool LineEditor::interrupted() const { return terminal_ != nullptr && terminal_->interrupted; }

void LineEditor::interrupt() { wake(kInterrupted); }

std::optional<std::string> LineEditor::read(const std::string& prompt) {
  if (terminal_ != nullptr) return terminal_->read(prompt);
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

}  // namespace quire
