// For tests: builds GGUF files byte by byte, right or wrong in any field; and finds the real model and the shared test
// data.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace quire {

// Value types of GGUF.
enum Gt : uint32_t {
  gt_u8,
  gt_i8,
  gt_u16,
  gt_i16,
  gt_u32,
  gt_i32,
  gt_f32,
  gt_bool,
  gt_str,
  gt_arr,
  gt_u64,
  gt_i64,
  gt_f64
};

class GgufBytes {
 public:
  template <class T>
    requires std::is_arithmetic_v<T>
  GgufBytes& put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  GgufBytes& raw(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  GgufBytes& str(std::string_view text) { return put(uint64_t{text.size()}).raw(text); }
  GgufBytes& head(uint32_t version, uint64_t n_tensors, uint64_t n_facts) {
    return raw("GGUF").put(version).put(n_tensors).put(n_facts);
  }
  GgufBytes& key(std::string_view name, uint32_t type) { return str(name).put(type); }
  GgufBytes& fact(std::string_view name, std::string_view text) { return key(name, gt_str).str(text); }
  GgufBytes& strings(std::string_view name, const std::vector<std::string>& values) {
    key(name, gt_arr).put(uint32_t{gt_str}).put(uint64_t{values.size()});
    for (const std::string& value : values) str(value);
    return *this;
  }
  template <class T>
  GgufBytes& array(std::string_view name, uint32_t type, const std::vector<T>& values) {
    key(name, gt_arr).put(type).put(uint64_t{values.size()});
    for (const T value : values) put(value);
    return *this;
  }
  // Dimensions innermost first, as the file has them.
  GgufBytes& tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset) {
    str(name).put(static_cast<uint32_t>(dims.size()));
    for (const uint64_t extent : dims) put(extent);
    return put(type).put(offset);
  }
  GgufBytes& pad(size_t alignment, char with = 0) {
    while (bytes_.size() % alignment != 0) bytes_ += with;
    return *this;
  }
  GgufBytes& fill(size_t n, char with) {
    bytes_.append(n, with);
    return *this;
  }

  const std::string& text() const { return bytes_; }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(bytes_)); }

 private:
  std::string bytes_;
};

// A file in the system's temporary folder, gone with the object.
class TempFile {
 public:
  explicit TempFile(std::string_view content = {}) {
    std::string pattern = (std::filesystem::temp_directory_path() / "quire_io_XXXXXX").string();
    const int fd = mkstemp(pattern.data());
    EXPECT_GE(fd, 0);
    close(fd);
    path_ = pattern;
    write(content);
  }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  ~TempFile() { std::filesystem::remove(path_); }
  void write(std::string_view content) const {
    std::ofstream out(path_, std::ios::binary | std::ios::trunc);
    out.write(content.data(), static_cast<std::streamsize>(content.size()));
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::string read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A path under the shared test data, or empty when that is absent: then the test must GTEST_SKIP.
inline std::string shared_path(std::string_view relative) {
  const char* root = std::getenv("QUIRE_SHARED");
  const std::string path = std::string(root != nullptr ? root : "../shared") + "/" + std::string(relative);
  return std::filesystem::exists(path) ? path : std::string();
}

inline const char* const kBundledModelFile = "models/quill-q8_0.gguf";

// The trained model that tests run on: QUIRE_TEST_MODEL, else the bundled one (tests run in the project's folder), else
// a small one of the shared data, else empty: then the test must GTEST_SKIP.
inline std::string real_model_path() {
  if (const char* named = std::getenv("QUIRE_TEST_MODEL")) return named;
  if (std::filesystem::exists(kBundledModelFile)) return kBundledModelFile;
  return shared_path("data/models/stories260K/stories260K.gguf");
}

}  // namespace quire

#define QR_SHARED_OR_SKIP(name, relative)                  \
  const std::string name = ::quire::shared_path(relative); \
  if (name.empty()) GTEST_SKIP() << "no shared data: " << (relative)

#define QR_REAL_MODEL_OR_SKIP(name)                    \
  const std::string name = ::quire::real_model_path(); \
  if (name.empty()) GTEST_SKIP() << "no bundled model and no shared data"
