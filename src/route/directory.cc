#include "route/directory.h"

#include <array>
#include <charconv>
#include <utility>

#include "base/clock.h"
#include "base/nanoseconds.h"

namespace quire {
namespace {

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

}  // namespace

Result<DirectoryOptions> parse_directory(const std::string& url, const RedisTlsFiles& files) {
  DirectoryOptions out;
  QR_TRY(out.redis, parse_redis_url(url, "a directory"));
  QR_TRY_VOID(read_redis_tls(out.redis, files));
  out.redis.name = "route: the directory";
  out.redis.thread_name = "quire-directory";
  return out;
}

Directory::Directory(const DirectoryOptions& options, Metrics& m)
    : deadline_ms_(options.deadline_ms),
      keep_s_(options.keep_s),
      questions_(m.counter("quire_directory_questions_total", "Sessions that the directory was asked for.")),
      found_(m.counter("quire_directory_found_total", "Of them, known there.")),
      late_(m.counter("quire_directory_late_total", "Of them, not answered in time.")),
      errors_(m.counter("quire_directory_errors_total", "Replies that were errors, and connections that failed.")),
      dropped_(m.counter("quire_directory_dropped_total", "Notes and questions while too many were under way.")),
      up_gauge_(m.gauge("quire_directory_up", "Whether the directory is connected.")),
      redis_(options.redis,
             {[this](bool up) { up_gauge_.set(up ? 1 : 0); }, [this] { errors_.add(); }, [this] { dropped_.add(); }}) {}

void Directory::find(const Hash128& session, const Found& found) {
  questions_.add();
  const std::array<std::string, 2> words{"GET", key_of(session)};
  const auto answer = [this, found](const RedisReply& reply) {
    const uint64_t worker = reply.kind == RedisReply::Kind::string ? worker_in(reply.text) : 0;
    if (reply.kind == RedisReply::Kind::late) late_.add();
    if (worker != 0) found_.add();
    found(worker);
  };
  if (!redis_.send(words, answer, SystemClock().now_ns() + deadline_ms_ * kNsPerMs)) found(0);
}

void Directory::note(const Hash128& session, uint64_t worker) {
  if (!up()) return;
  const std::array<std::string, 5> words{"SET", key_of(session), hex(worker), "EX", std::to_string(keep_s_)};
  redis_.send(words, nullptr, 0);
}

}  // namespace quire
