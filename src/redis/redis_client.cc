#include "redis/redis_client.h"

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
#include "http/tls.h"

namespace quire {
namespace {

constexpr int kIdleMs = 1'000;
constexpr int kReadsAtOnce = 16;  // before commands have their turn

int64_t now_ns() { return SystemClock().now_ns(); }

bool read_number(std::string_view text, int lo, int hi, int& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && out >= lo && out <= hi;
}

// Also where '@' and the host were forgotten: behind ':' only what looks like a port is none.
bool may_hold_password(std::string_view url) {
  if (url.find('@') != std::string_view::npos) return true;
  const size_t scheme = url.find("://");
  const size_t colon = url.find(':', scheme == std::string_view::npos ? 0 : scheme + 3);
  int port = 0;
  return colon != std::string_view::npos && !read_number(url.substr(colon + 1), 0, 99'999, port);
}

}  // namespace

Result<RedisOptions> parse_redis_url(const std::string& url, const std::string& what) {
  const auto bad = [&](const char* why) {
    const std::string got = may_hold_password(url) ? "" : ", got \"" + url + "\"";
    return fail(Code::invalid,
                what + " is redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE], or rediss:// over TLS: " + why + got);
  };
  RedisOptions out;
  std::string_view rest(url);
  constexpr std::string_view kPlain = "redis://", kOverTls = "rediss://";
  out.over_tls = rest.starts_with(kOverTls);
  if (!out.over_tls && !rest.starts_with(kPlain)) return bad("the scheme is another");
  rest.remove_prefix(out.over_tls ? kOverTls.size() : kPlain.size());
  if (const size_t at = rest.rfind('@'); at != std::string_view::npos) {
    const size_t colon = rest.find(':');
    if (colon >= at) return bad("before '@' there is no password behind ':'");
    out.user = rest.substr(0, colon);
    out.password = rest.substr(colon + 1, at - colon - 1);
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
  const auto is_plain = [](char c) {
    return c > ' ' && c < 0x7f && std::string_view("/?#[]").find(c) == std::string_view::npos;
  };
  if (!std::all_of(rest.begin(), rest.end(), is_plain)) return bad("the host has a character that has no place there");
  out.host = rest;
  return out;
}

RedisClient::RedisClient(RedisOptions options, Told told)
    : options_(std::move(options)),
      told_(std::move(told)),
      wake_fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      retry_ms_(options_.retry_ms) {
  QR_CHECK(!options_.over_tls || options_.trust != nullptr, "a connection over TLS that trusts nobody");
  QR_CHECK(wake_fd_ >= 0, "no descriptor left to start with");
  thread_ = std::thread([this] { run(); });
}

void RedisClient::stop() {
  if (!thread_.joinable()) return;
  ending_ = true;
  wake();
  thread_.join();
}

RedisClient::~RedisClient() {
  stop();
  lookup_.reset();  // whose thread would wake a descriptor that is another's
  ::close(wake_fd_);
}

void RedisClient::wake() const {
  const uint64_t one = 1;
  static_cast<void>(::write(wake_fd_, &one, sizeof one));
}

bool RedisClient::send(std::span<const std::string> words, Answer answer, int64_t due_ns) {
  if (!up_ || ending_) return false;
  Command command{redis_command(words), false, std::move(answer), due_ns, 0};
  {
    const std::lock_guard lock(mu_);
    if (!up_ || ending_) return false;
    if (fresh_.size() >= options_.most_pending) {
      if (told_.dropped) told_.dropped();
      return false;
    }
    fresh_.push_back(std::move(command));
  }
  wake();
  return true;
}

void RedisClient::run() {
  set_thread_name(options_.thread_name);
  while (!ending_) {
    try {
      take_turn();
    } catch (const std::bad_alloc&) {
      give_up("");  // a new connection may have better luck
    }
  }
  give_up("");
}

void RedisClient::take_turn() {
  if (fd_ < 0 && !looking_up_ && now_ns() >= retry_at_ns_) look_up();
  wait();
  take_answer();
  take_commands();
  if (fd_ >= 0 && (!connecting_ || tls_ != nullptr)) send_some();
  answer_late(now_ns());
}

void RedisClient::look_up() {
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
void RedisClient::take_answer() {
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

void RedisClient::connect(const HostAddress& to) {
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

void RedisClient::connected() {
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return give_up(std::strerror(error));
  options_.over_tls ? greet() : set_up();
}

void RedisClient::set_up() {
  connecting_ = false;
  reader_ = std::make_unique<RedisReader>(options_.most_reply_bytes);
  const auto enter_setup = [this](const std::vector<std::string>& words) {
    pending_.push_back({redis_command(words), true, nullptr, 0, now_ns()});
  };
  if (!options_.user.empty())
    enter_setup({"AUTH", options_.user, options_.password});
  else if (!options_.password.empty())
    enter_setup({"AUTH", options_.password});
  enter_setup({"SELECT", std::to_string(options_.database)});
}

void RedisClient::take_commands() {
  std::vector<Command> fresh;
  {
    const std::lock_guard lock(mu_);
    fresh.swap(fresh_);
  }
  for (Command& command : fresh) {
    if (up_ && pending_.size() < options_.most_pending && enter(command)) continue;
    if (told_.dropped) told_.dropped();
    if (command.answer) command.answer({RedisReply::Kind::lost, ""});
  }
}

// False: there is no memory for it.
bool RedisClient::enter(Command& command) {
  command.sent_ns = now_ns();
  try {
    pending_.push_back(std::move(command));
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

void RedisClient::send_some() {
  if (!flush()) return give_up(std::strerror(errno));
  while (n_sent_ < pending_.size()) {
    Command& next = pending_[n_sent_];
    const int64_t n = write_some(std::string_view(next.bytes).substr(n_sent_bytes_));
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return give_up(std::strerror(errno));
    next.sent_ns = now_ns();
    n_sent_bytes_ += static_cast<size_t>(n);
    if (n_sent_bytes_ < next.bytes.size()) continue;
    next.bytes = std::string();
    n_sent_bytes_ = 0;
    ++n_sent_;
  }
}

void RedisClient::read_some() {
  std::array<char, 64 << 10> bytes;
  std::string plain;
  for (int i = 0; i < kReadsAtOnce && fd_ >= 0; ++i) {
    const ssize_t n = ::recv(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) return give_up(n == 0 ? "it closed the connection" : std::strerror(errno));
    std::string_view said(bytes.data(), static_cast<size_t>(n));
    if (tls_ != nullptr) {
      plain.clear();
      if (!unseal(said, plain)) return;
      said = plain;
    }
    if (said.empty()) continue;
    if (!reader_->feed(said)) return give_up("its reply cannot be read");
    while (fd_ >= 0 && take_reply()) {
    }
  }
}

// A reply to what was not even sent is none.
bool RedisClient::take_reply() {
  const auto reply = reader_->next();
  if (reader_->failed() || (reply != nullptr && n_sent_ == 0)) return give_up("its reply cannot be read"), false;
  if (reply == nullptr) return false;
  replied_ns_ = now_ns();
  const Command command = std::move(pending_.front());
  pending_.pop_front();
  --n_sent_;
  const bool is_error = reply->kind == RedisReply::Kind::error;
  if (is_error && told_.error) told_.error();
  if (command.is_setup && is_error) return give_up("it refuses: " + reply->text.substr(0, 100)), false;
  if (command.is_setup && (pending_.empty() || !pending_.front().is_setup)) {
    if (!options_.quiet) log_info(options_.name + " at " + options_.host + " is up");
    last_failure_.clear();
    retry_ms_ = options_.retry_ms;
    if (told_.up) told_.up(true);
    up_ = true;
  }
  if (command.answer) command.answer(*reply);
  return true;
}

// What waits hears that it is lost; without a reason that takes no memory. One warning until it is up again; another
// reason meanwhile is only told.
void RedisClient::give_up(const std::string& why) {
  const bool first = last_failure_.empty();
  if (!why.empty() && why != last_failure_ && !options_.quiet)
    log(first ? LogLevel::warn : LogLevel::info, options_.name + " at " + options_.host + ": " + why);
  if (!why.empty() && told_.error) told_.error();
  if (!why.empty()) last_failure_ = why;
  std::vector<Command> fresh;
  {
    const std::lock_guard lock(mu_);  // so that nothing enters behind this
    up_ = false;
    fresh.swap(fresh_);
  }
  if (told_.up) told_.up(false);
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  tls_.reset();
  wire_ = std::string();
  connecting_ = false;
  n_sent_ = n_sent_bytes_ = 0;
  retry_at_ns_ = now_ns() + retry_ms_ * kNsPerMs;
  retry_ms_ = std::min(2 * retry_ms_, options_.most_retry_ms);
  for (; !pending_.empty(); pending_.pop_front()) {
    if (pending_.front().answer) pending_.front().answer({RedisReply::Kind::lost, ""});
  }
  for (const Command& command : fresh) {
    if (command.answer) command.answer({RedisReply::Kind::lost, ""});
  }
}

void RedisClient::answer_late(int64_t now) {
  for (Command& command : pending_) {
    if (!command.answer || command.due_ns == 0) continue;
    if (command.due_ns > now) break;  // who came later is due later
    std::exchange(command.answer, nullptr)({RedisReply::Kind::late, ""});
  }
  if (!pending_.empty() && now > stalls_at_ns()) give_up("no reply for " + std::to_string(options_.stall_ms) + " ms");
  if (connecting_ && now >= retry_at_ns_) give_up("no connection for " + std::to_string(options_.stall_ms) + " ms");
}

// The first reply that is due had its time from when the command was sent, or the reply before it came.
int64_t RedisClient::stalls_at_ns() const {
  return std::max(pending_.front().sent_ns, n_sent_ > 0 ? replied_ns_ : 0) + options_.stall_ms * kNsPerMs;
}

int RedisClient::poll_ms(int64_t now) const {
  int64_t until = now + kIdleMs * kNsPerMs;
  if ((fd_ < 0 && !looking_up_) || connecting_) until = std::min(until, retry_at_ns_);
  if (!pending_.empty()) until = std::min(until, stalls_at_ns() + kNsPerMs);
  for (const Command& command : pending_) {
    if (!command.answer || command.due_ns == 0) continue;
    until = std::min(until, command.due_ns);
    break;
  }
  return static_cast<int>(std::clamp<int64_t>((until - now + kNsPerMs - 1) / kNsPerMs, 0, kIdleMs));
}

void RedisClient::wait() {
  const bool connects = connecting_ && tls_ == nullptr;
  const bool writes = !wire_.empty() || n_sent_ < pending_.size();
  const int events = connects ? POLLOUT : writes ? POLLIN | POLLOUT : POLLIN;
  std::array<pollfd, 2> fds{pollfd{wake_fd_, POLLIN, 0}, pollfd{fd_, static_cast<short>(events), 0}};
  if (::poll(fds.data(), fd_ >= 0 ? 2 : 1, poll_ms(now_ns())) <= 0) return;
  if (fds[0].revents != 0) {
    uint64_t n = 0;
    static_cast<void>(::read(wake_fd_, &n, sizeof n));
  }
  if (fd_ < 0 || fds[1].revents == 0) return;
  if (connects)
    connected();
  else if ((fds[1].revents & ~POLLOUT) != 0)
    read_some();
}

}  // namespace quire
