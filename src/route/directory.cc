#include "route/directory.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/nanoseconds.h"
#include "base/thread.h"

namespace quire {
namespace {

constexpr int kIdleMs = 1'000;

int64_t now_ns() { return SystemClock().now_ns(); }

std::string key_of(const Hash128& session) { return "quire:session:" + to_hex(session); }

uint64_t worker_in(const std::string& text) {
  uint64_t worker = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), worker, 16);
  return error == std::errc() && end == text.data() + text.size() ? worker : 0;
}

std::string hex(uint64_t value) {
  std::array<char, 16> digits{};
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value, 16).ptr};
}

bool read_number(std::string_view text, int lo, int hi, int& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && out >= lo && out <= hi;
}

tl::unexpected<Error> bad(const char* what) {
  return fail(Code::invalid, std::string("a directory is redis://[:PASSWORD@]HOST[:PORT][/DATABASE]: ") + what);
}

}  // namespace

Result<DirectoryOptions> parse_directory(const std::string& url) {
  DirectoryOptions out;
  std::string_view rest(url);
  constexpr std::string_view kScheme = "redis://";
  if (!rest.starts_with(kScheme)) return bad("the scheme is another (rediss is not spoken)");
  rest.remove_prefix(kScheme.size());
  if (const size_t at = rest.rfind('@'); at != std::string_view::npos) {
    if (!rest.starts_with(':')) return bad("there are no users, only a password behind ':'");
    out.password = rest.substr(1, at - 1);
    rest.remove_prefix(at + 1);
  }
  if (const size_t slash = rest.find('/'); slash != std::string_view::npos) {
    if (slash + 1 < rest.size() && !read_number(rest.substr(slash + 1), 0, 1'000'000, out.database))
      return bad("the database is no number");
    rest = rest.substr(0, slash);
  }
  if (const size_t colon = rest.rfind(':'); colon != std::string_view::npos && !rest.ends_with(']')) {
    if (!read_number(rest.substr(colon + 1), 1, 65535, out.port)) return bad("the port must be 1 to 65535");
    rest = rest.substr(0, colon);
  }
  if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
  if (rest.empty()) return bad("there is no host");
  out.host = rest;
  return out;
}

Directory::Directory(DirectoryOptions options, Metrics& m)
    : options_(std::move(options)),
      questions_(m.counter("quire_directory_questions_total", "Sessions that the directory was asked for.")),
      found_(m.counter("quire_directory_found_total", "Of them, known there.")),
      late_(m.counter("quire_directory_late_total", "Of them, not answered in time.")),
      errors_(m.counter("quire_directory_errors_total", "Replies that were errors, and connections that failed.")),
      dropped_(m.counter("quire_directory_dropped_total", "Notes and questions while too many were under way.")),
      up_gauge_(m.gauge("quire_directory_up", "Whether the directory is connected.")),
      wake_fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  QR_CHECK(wake_fd_ >= 0, "no descriptor left to start with");
  thread_ = std::thread([this] { run(); });
}

Directory::~Directory() {
  ending_ = true;
  wake();
  thread_.join();
  lookup_.reset();  // whose thread would wake a descriptor that is another's
  ::close(wake_fd_);
}

void Directory::wake() const {
  const uint64_t one = 1;
  static_cast<void>(::write(wake_fd_, &one, sizeof one));
}

// False: it was not taken.
bool Directory::enter(Command&& command) {
  {
    const std::lock_guard lock(mu_);
    if (!up_ || ending_) return false;
    if (fresh_.size() >= options_.most_pending) {
      dropped_.add();
      return false;
    }
    fresh_.push_back(std::move(command));
  }
  wake();
  return true;
}

void Directory::find(const Hash128& session, const Found& found) {
  questions_.add();
  const std::array<std::string, 2> words{"GET", key_of(session)};
  if (!enter({redis_command(words), false, found, now_ns() + options_.deadline_ms * kNsPerMs, 0})) found(0);
}

void Directory::note(const Hash128& session, uint64_t worker) {
  if (!up_) return;
  const std::array<std::string, 5> words{"SET", key_of(session), hex(worker), "EX", std::to_string(options_.keep_s)};
  enter({redis_command(words), false, nullptr, 0, 0});
}

void Directory::run() {
  set_thread_name("quire-directory");
  while (!ending_) {
    if (fd_ < 0 && !looking_up_ && now_ns() >= retry_at_ns_) look_up();
    wait();
    take_answer();
    take_commands();
    if (fd_ >= 0 && !connecting_) send_some();
    answer_late(now_ns());
  }
  give_up("");
}

void Directory::look_up() {
  looking_up_ = true;
  lookup_->find(options_.host, options_.port, [this](const std::vector<HostAddress>& found, const std::string& error) {
    {
      const std::lock_guard lock(mu_);
      answer_ = HostAnswer{found, error};
    }
    wake();
  });
}

// Of several addresses another one each time.
void Directory::take_answer() {
  std::optional<HostAnswer> answer;
  {
    const std::lock_guard lock(mu_);
    answer.swap(answer_);
  }
  if (!answer) return;
  looking_up_ = false;
  if (answer->found.empty()) return give_up(answer->error);
  connect(answer->found[n_connects_++ % answer->found.size()]);
}

void Directory::connect(const HostAddress& to) {
  fd_ = ::socket(to.bytes.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd_ < 0) return give_up(std::strerror(errno));
  const int on = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd_, IPPROTO_TCP, TCP_USER_TIMEOUT, &options_.stall_ms, sizeof options_.stall_ms);
  if (::connect(fd_, reinterpret_cast<const sockaddr*>(&to.bytes), to.n_bytes) != 0 && errno != EINPROGRESS)
    return give_up(std::strerror(errno));
  connecting_ = true;
  retry_at_ns_ = now_ns() + options_.stall_ms * kNsPerMs;  // while connecting: until when
}

void Directory::set_up() {
  connecting_ = false;
  reader_ = std::make_unique<RedisReader>();
  const auto enter_setup = [this](std::vector<std::string> words) {
    pending_.push_back({"", true, nullptr, 0, now_ns()});
    out_ += redis_command(words);
  };
  if (!options_.password.empty()) enter_setup({"AUTH", options_.password});
  enter_setup({"SELECT", std::to_string(options_.database)});
}

void Directory::take_commands() {
  std::vector<Command> fresh;
  {
    const std::lock_guard lock(mu_);
    fresh.swap(fresh_);
  }
  for (Command& command : fresh) {
    if (!up_ || pending_.size() >= options_.most_pending) {
      dropped_.add();
      if (command.found) command.found(0);
      continue;
    }
    out_ += std::exchange(command.bytes, "");
    command.sent_ns = now_ns();
    pending_.push_back(std::move(command));
  }
}

void Directory::send_some() {
  while (!out_.empty()) {
    const ssize_t n = ::send(fd_, out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0)
      out_.erase(0, static_cast<size_t>(n));
    else if (errno == EAGAIN)
      return;
    else if (errno != EINTR)
      return give_up(std::strerror(errno));
  }
}

void Directory::read_some() {
  std::array<char, 16 << 10> bytes;
  const ssize_t n = ::recv(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) return give_up(n == 0 ? "it closed the connection" : std::strerror(errno));
  if (!reader_->feed({bytes.data(), static_cast<size_t>(n)})) return give_up("its reply cannot be read");
  while (fd_ >= 0 && take_reply()) {
  }
}

bool Directory::take_reply() {
  const auto reply = reader_->next();
  if (reader_->failed() || (reply != nullptr && pending_.empty())) return give_up("its reply cannot be read"), false;
  if (reply == nullptr) return false;
  const Command command = std::move(pending_.front());
  pending_.pop_front();
  const bool is_error = reply->kind == RedisReply::Kind::error;
  if (is_error) errors_.add();
  if (command.is_setup && is_error) return give_up("it refuses: " + reply->text.substr(0, 100)), false;
  if (command.is_setup && (pending_.empty() || !pending_.front().is_setup)) {
    log_info("route: the directory at " + options_.host + " is up");
    last_failure_.clear();
    up_gauge_.set(1);
    up_ = true;
  }
  if (!command.found) return true;
  const uint64_t worker = reply->kind == RedisReply::Kind::string ? worker_in(reply->text) : 0;
  if (worker != 0) found_.add();
  command.found(worker);
  return true;
}

// What waits hears that nobody knows.
void Directory::give_up(const std::string& why) {
  if (!why.empty() && why != last_failure_) log_warn("route: the directory at " + options_.host + ": " + why);
  if (!why.empty()) errors_.add();
  last_failure_ = why;
  {
    const std::lock_guard lock(mu_);  // so that nothing enters behind this
    up_ = false;
    for (Command& command : fresh_) pending_.push_back(std::move(command));
    fresh_.clear();
  }
  up_gauge_.set(0);
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  connecting_ = false;
  out_.clear();
  retry_at_ns_ = now_ns() + options_.retry_ms * kNsPerMs;
  std::deque<Command> unanswered;
  unanswered.swap(pending_);
  for (const Command& command : unanswered)
    if (command.found) command.found(0);
}

void Directory::answer_late(int64_t now) {
  for (Command& command : pending_) {
    if (!command.found) continue;
    if (command.due_ns > now) break;  // who came later is due later
    late_.add();
    std::exchange(command.found, nullptr)(0);
  }
  const bool stalled = !pending_.empty() && now - pending_.front().sent_ns > options_.stall_ms * kNsPerMs;
  if (stalled) give_up("no reply for " + std::to_string(options_.stall_ms) + " ms");
  if (connecting_ && now >= retry_at_ns_) give_up("no connection for " + std::to_string(options_.stall_ms) + " ms");
}

int Directory::poll_ms(int64_t now) const {
  int64_t until = now + kIdleMs * kNsPerMs;
  if ((fd_ < 0 && !looking_up_) || connecting_) until = std::min(until, retry_at_ns_);
  for (const Command& command : pending_) {
    if (!command.found) continue;
    until = std::min(until, command.due_ns);
    break;
  }
  return static_cast<int>(std::clamp<int64_t>((until - now + kNsPerMs - 1) / kNsPerMs, 0, kIdleMs));
}

void Directory::wait() {
  const bool writes = connecting_ || !out_.empty();
  std::array<pollfd, 2> fds{pollfd{wake_fd_, POLLIN, 0}, pollfd{fd_,
                                                                static_cast<short>(connecting_ ? POLLOUT
                                                                                   : writes    ? POLLIN | POLLOUT
                                                                                               : POLLIN),
                                                                0}};
  if (::poll(fds.data(), fd_ >= 0 ? 2 : 1, poll_ms(now_ns())) <= 0) return;
  if (fds[0].revents != 0) {
    uint64_t n = 0;
    static_cast<void>(::read(wake_fd_, &n, sizeof n));
  }
  if (fd_ < 0 || fds[1].revents == 0) return;
  if (!connecting_) return (fds[1].revents & ~POLLOUT) != 0 ? read_some() : void();
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return give_up(std::strerror(error));
  set_up();
}

}  // namespace quire
