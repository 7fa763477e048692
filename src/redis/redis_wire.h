// Commands to Redis as bytes, and its replies from bytes in any cuts. hiredis does both, behind this header. Replies
// are the simple ones (status, error, integer, string, nil): what is nested, or larger than was said, is a fault.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct redisReader;

namespace quire {

inline constexpr size_t kUsualReplyBytes = 64 << 10;

std::string redis_command(std::span<const std::string> words);

struct RedisReply {
  // The last two are none: no reply came in time; the connection ended before one.
  enum class Kind : unsigned char { status, error, integer, string, nil, late, lost };
  Kind kind = Kind::nil;
  std::string text;
};

// One thread at a time.
class RedisReader {
 public:
  explicit RedisReader(size_t most_reply_bytes = kUsualReplyBytes);
  // False: no more can be read, ever.
  bool feed(std::string_view bytes);
  // The next reply; null: it is not whole yet, or failed().
  std::unique_ptr<RedisReply> next();
  bool failed() const { return failed_; }

 private:
  struct Free {
    void operator()(redisReader* reader) const;
  };
  std::unique_ptr<redisReader, Free> reader_;
  const size_t most_reply_bytes_;
  size_t n_waiting_ = 0;  // bytes fed since the last whole reply
  bool failed_ = false;
};

}  // namespace quire
