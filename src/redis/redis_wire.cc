#include "redis/redis_wire.h"

#include <hiredis/hiredis.h>
#include <hiredis/read.h>

#include <new>
#include <vector>

namespace quire {
namespace {

RedisReply::Kind kind_of(int type) {
  if (type == REDIS_REPLY_STATUS) return RedisReply::Kind::status;
  return type == REDIS_REPLY_ERROR ? RedisReply::Kind::error : RedisReply::Kind::string;
}

// A reply of ours for hiredis to hand back; null, for want of memory or because it is nested, is an error to it.
void* make(RedisReply::Kind kind, std::string_view text) {
  try {
    return std::make_unique<RedisReply>(RedisReply{kind, std::string(text)}).release();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

redisReplyObjectFunctions functions = {
    .createString =
        [](const redisReadTask* task, char* bytes, size_t n) { return make(kind_of(task->type), {bytes, n}); },
    .createArray = [](const redisReadTask*, int) -> void* { return nullptr; },
    .createInteger = [](const redisReadTask*,
                        long long value) { return make(RedisReply::Kind::integer, std::to_string(value)); },
    .createNil = [](const redisReadTask*) { return make(RedisReply::Kind::nil, ""); },
    .freeObject = [](void* reply) { delete static_cast<RedisReply*>(reply); },
};

}  // namespace

std::string redis_command(std::span<const std::string> words) {
  std::vector<const char*> texts;
  std::vector<size_t> sizes;
  for (const std::string& word : words) {
    texts.push_back(word.data());
    sizes.push_back(word.size());
  }
  char* bytes = nullptr;
  const int n = redisFormatCommandArgv(&bytes, static_cast<int>(words.size()), texts.data(), sizes.data());
  if (n < 0) throw std::bad_alloc();  // all that can happen there
  const std::unique_ptr<char, void (*)(char*)> owner(bytes, redisFreeCommand);
  return std::string(bytes, static_cast<size_t>(n));
}

void RedisReader::Free::operator()(redisReader* reader) const { redisReaderFree(reader); }

RedisReader::RedisReader(size_t most_reply_bytes)
    : reader_(redisReaderCreateWithFunctions(&functions)),
      most_reply_bytes_(most_reply_bytes),
      failed_(reader_ == nullptr) {}

bool RedisReader::feed(std::string_view bytes) {
  n_waiting_ += bytes.size();
  if (failed_ || redisReaderFeed(reader_.get(), bytes.data(), bytes.size()) != REDIS_OK) failed_ = true;
  return !failed_;
}

std::unique_ptr<RedisReply> RedisReader::next() {
  void* reply = nullptr;
  if (!failed_ && redisReaderGetReply(reader_.get(), &reply) != REDIS_OK) failed_ = true;
  std::unique_ptr<RedisReply> out(static_cast<RedisReply*>(reply));
  if (out != nullptr)
    n_waiting_ = reader_->len - reader_->pos;
  else if (n_waiting_ > most_reply_bytes_)
    failed_ = true;
  return failed_ ? nullptr : std::move(out);
}

}  // namespace quire
