#include "io/gguf_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <system_error>

#include "base/bounded_reader.h"
#include "base/check.h"
#include "io/ggml_types.h"
#include "io/gguf.h"
#include "io/in_quotes.h"

namespace quire {
namespace {

constexpr auto kAlignment = static_cast<int64_t>(kDefaultAlignment);
constexpr int64_t kMaxDataBytes = std::numeric_limits<int64_t>::max() / 4;  // room for headers and padding
enum ValueType : uint32_t { u8 = 0, u32 = 4, i32 = 5, f32 = 6, boolean = 7, string = 8, array = 9, u64 = 10 };

template <class T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_text(std::string& out, std::string_view text) {
  append(out, uint64_t{text.size()});
  out += text;
}

template <class T>
void append_array(std::string& out, uint32_t type, std::span<const T> values) {
  append(out, type);
  append(out, uint64_t{values.size()});
  out.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

// What a tensor takes, at most kMaxDataBytes.
Result<int64_t> tensor_bytes(uint32_t type, const std::vector<int64_t>& shape) {
  const GgmlType* known = find_ggml_type(type);
  if (known == nullptr) return fail(Code::invalid, "type " + std::to_string(type) + " is unknown");
  if (shape.empty() || shape.size() > size_t{kMaxTensorDims}) {
    return fail(Code::invalid,
                std::to_string(shape.size()) + " dimensions, must be 1 to " + std::to_string(kMaxTensorDims));
  }
  if (shape.back() % known->block != 0) {
    return fail(Code::invalid, "rows must be whole blocks of " + std::to_string(known->block));
  }
  uint64_t n_elements = 1;
  for (const int64_t extent : shape) {
    if (extent < 1 || !checked_mul(n_elements, static_cast<uint64_t>(extent), n_elements)) {
      return fail(Code::invalid, "dimension " + std::to_string(extent) + ", too small or too large");
    }
  }
  uint64_t bytes = 0;
  const uint64_t n_blocks = n_elements / static_cast<uint64_t>(known->block);
  if (!checked_mul(n_blocks, static_cast<uint64_t>(known->bytes), bytes) || bytes > uint64_t{kMaxDataBytes}) {
    return fail(Code::invalid, "more bytes than a file can hold");
  }
  return static_cast<int64_t>(bytes);
}

int64_t padding(int64_t bytes) { return (kAlignment - bytes % kAlignment) % kAlignment; }

}  // namespace

GgufWriter::GgufWriter(std::string path, Existing existing) : path_(std::move(path)), existing_(existing) {
  temporary_ = path_ + "." + std::to_string(getpid()) + ".tmp";
}

GgufWriter::~GgufWriter() {
  if (fd_ < 0) return;
  close(fd_);
  if (!finished_) unlink(temporary_.c_str());
}

std::string& GgufWriter::begin_fact(std::string_view key, uint32_t type) {
  QR_CHECK(fd_ < 0, "a fact after the first write");
  QR_CHECK(!key.empty() && key.size() <= kMaxKeyBytes && key != "general.alignment", std::string(key));
  QR_CHECK(std::find(keys_.begin(), keys_.end(), key) == keys_.end(), "twice: " + std::string(key));
  keys_.emplace_back(key);
  append_text(facts_, key);
  append(facts_, type);
  return facts_;
}

void GgufWriter::add_bool(std::string_view key, bool value) { append(begin_fact(key, boolean), uint8_t{value}); }
void GgufWriter::add_u32(std::string_view key, uint32_t value) { append(begin_fact(key, u32), value); }
void GgufWriter::add_i32(std::string_view key, int32_t value) { append(begin_fact(key, i32), value); }
void GgufWriter::add_u64(std::string_view key, uint64_t value) { append(begin_fact(key, u64), value); }
void GgufWriter::add_f32(std::string_view key, float value) { append(begin_fact(key, f32), value); }
void GgufWriter::add_string(std::string_view key, std::string_view value) {
  append_text(begin_fact(key, string), value);
}

void GgufWriter::add_strings(std::string_view key, std::span<const std::string> values) {
  std::string& out = begin_fact(key, array);
  append(out, uint32_t{string});
  append(out, uint64_t{values.size()});
  for (const std::string& value : values) append_text(out, value);
}

void GgufWriter::add_i32s(std::string_view key, std::span<const int32_t> values) {
  append_array(begin_fact(key, array), i32, values);
}
void GgufWriter::add_f32s(std::string_view key, std::span<const float> values) {
  append_array(begin_fact(key, array), f32, values);
}
void GgufWriter::add_bytes(std::string_view key, std::span<const uint8_t> values) {
  append_array(begin_fact(key, array), u8, values);
}

void GgufWriter::add_raw(std::string_view key, std::span<const std::byte> value) {
  uint32_t type = 0;
  QR_CHECK(value.size() >= sizeof type, std::string(key));
  std::memcpy(&type, value.data(), sizeof type);
  begin_fact(key, type).append(reinterpret_cast<const char*>(value.data()) + sizeof type, value.size() - sizeof type);
}

Status GgufWriter::add_tensor(std::string_view name, uint32_t type, const std::vector<int64_t>& shape) {
  QR_CHECK(fd_ < 0, "a tensor after the first write");
  const std::string subject = path_ + ": tensor " + in_quotes(name);
  if (name.empty() || name.size() > kMaxTensorNameBytes) {
    return fail(Code::invalid, subject + ": the name must have 1 to " + std::to_string(kMaxTensorNameBytes) + " bytes");
  }
  if (std::any_of(tensors_.begin(), tensors_.end(), [&](const Entry& e) { return e.name == name; })) {
    return fail(Code::invalid, subject + ": is declared twice");
  }
  const auto bytes = tensor_bytes(type, shape);
  if (!bytes) return error_within(subject, bytes.error());
  if (*bytes > kMaxDataBytes - data_bytes_) return fail(Code::invalid, subject + ": more bytes than a file can hold");

  append_text(table_, name);
  append(table_, static_cast<uint32_t>(shape.size()));
  for (auto extent = shape.rbegin(); extent != shape.rend(); ++extent) append(table_, static_cast<uint64_t>(*extent));
  append(table_, type);
  append(table_, static_cast<uint64_t>(data_bytes_));
  tensors_.push_back({std::string(name), *bytes});
  data_bytes_ += *bytes + padding(*bytes);
  return {};
}

Status GgufWriter::system_error(const char* step) const {
  return fail(Code::io, path_ + ": " + step + ": " + std::generic_category().message(errno));
}

Status GgufWriter::put(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("write");
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

Status GgufWriter::open() {
  unfinished_.emplace(temporary_);
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd_ < 0) return system_error("create");
  std::string head = "GGUF";
  append(head, uint32_t{3});
  append(head, uint64_t{tensors_.size()});
  append(head, uint64_t{keys_.size()});
  head += facts_;
  head += table_;
  head.append(static_cast<size_t>(padding(static_cast<int64_t>(head.size()))), '\0');
  return put(std::as_bytes(std::span(head)));
}

Status GgufWriter::write(std::span<const std::byte> piece) {
  if (fd_ < 0) QR_TRY_VOID(open());
  QR_CHECK(!finished_ && current_ < tensors_.size(), "more data than tensors");
  const Entry& tensor = tensors_[current_];
  const auto piece_bytes = static_cast<int64_t>(piece.size());
  QR_CHECK(piece_bytes <= tensor.bytes - written_, "more data than the tensor takes: " + tensor.name);
  QR_TRY_VOID(put(piece));
  written_ += piece_bytes;
  if (written_ < tensor.bytes) return {};
  constexpr std::array<std::byte, kAlignment> kZeros{};
  QR_TRY_VOID(put(std::span(kZeros).first(static_cast<size_t>(padding(tensor.bytes)))));
  ++current_;
  written_ = 0;
  return {};
}

Status GgufWriter::take_name() {
  const unsigned flags = existing_ == Existing::kept ? RENAME_NOREPLACE : 0;
  if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), flags) == 0) return {};
  // A file system without such a rename: whoever makes the file in this very moment loses it.
  const bool may_plainly = errno == EINVAL && ::access(path_.c_str(), F_OK) != 0;
  if (may_plainly && std::rename(temporary_.c_str(), path_.c_str()) == 0) return {};
  return system_error("rename");
}

Status GgufWriter::finish() {
  QR_CHECK(!finished_, "finished twice");
  if (fd_ < 0) QR_TRY_VOID(open());
  if (current_ < tensors_.size()) {
    return fail(Code::invalid, path_ + ": tensor " + in_quotes(tensors_[current_].name) + ": " +
                                   std::to_string(written_) + " of " + std::to_string(tensors_[current_].bytes) +
                                   " bytes were written");
  }
  if (fsync(fd_) != 0) return system_error("fsync");
  QR_TRY_VOID(take_name());
  finished_ = true;
  unfinished_.reset();
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  const int folder_fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_fd < 0) return system_error("open the folder");
  const bool synced = fsync(folder_fd) == 0;  // makes the new name last through a power cut
  const Status status = synced ? Status{} : system_error("fsync the folder");
  close(folder_fd);
  return status;
}

}  // namespace quire
