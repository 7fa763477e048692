#include "io/content_hash.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/mmap.h"

namespace quire {
namespace {

constexpr size_t kPart = size_t{4} << 20;
constexpr size_t kSample = 1024;
constexpr int64_t kYoungNs = 2'000'000'000;
constexpr std::string_view kFileName = "tensor-hashes";

class Words {
 public:
  void add(uint64_t word) { words_.push_back(word); }
  void add(const Hash128& hash) {
    add(hash.lo);
    add(hash.hi);
  }
  void add(std::string_view text) { add(hash128(text.data(), text.size(), 0)); }
  Hash128 hash() const { return hash128(words_.data(), words_.size() * sizeof(uint64_t), 0); }

 private:
  std::vector<uint64_t> words_;
};

// Parts are taken by whoever is free; their hashes are joined in order.
Hash128 hash_bytes(std::span<const std::byte> bytes, int n_threads) {
  const size_t n_parts = (bytes.size() + kPart - 1) / kPart;
  std::vector<Hash128> parts(n_parts);
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < n_parts; i = next++) {
      parts[i] = hash128(bytes.subspan(i * kPart, std::min(kPart, bytes.size() - i * kPart)), 0);
    }
  };
  std::vector<std::thread> threads;
  for (size_t t = 1; t < std::min(static_cast<size_t>(std::max(n_threads, 1)), n_parts); ++t)
    threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return hash128(parts.data(), parts.size() * sizeof(Hash128), bytes.size());
}

// Of a tensor's own bytes, or of all that it is made of.
Hash128 hash_stored(const HostWeight& weight, int n_threads) {
  if (weight.made == nullptr) return hash_bytes(weight.data, n_threads);
  Words words;
  for (const auto& part : weight.stored()) words.add(hash_bytes(part, n_threads));
  return words.hash();
}

void describe(const HostWeight& weight, Words& words) {
  words.add(weight.name);
  words.add(std::string_view(weight.format->name));
  words.add(weight.shape.size());
  for (const int64_t extent : weight.shape) words.add(static_cast<uint64_t>(extent));
  words.add(static_cast<uint64_t>(weight.stored_bytes()));
  if (weight.made != nullptr) words.add(std::string_view(weight.made->kind()));
}

// What a remembered hash belongs to: the files as they are, and how they are read as tensors, of which a sample tells.
Hash128 identity_of(const ModelFile& file) {
  Words words;
  for (const auto& map : file.maps) {
    const FileIdentity id = map->identity();
    for (const uint64_t word : {id.device, id.inode}) words.add(word);
    for (const int64_t word : {map->size(), id.modified_ns, id.changed_ns}) words.add(static_cast<uint64_t>(word));
  }
  for (const HostWeight& weight : file.tensors) {
    describe(weight, words);
    for (const auto& part : weight.stored()) words.add(hash128(part.first(std::min(part.size(), kSample)), 0));
  }
  return words.hash();
}

struct Line {
  Hash128 identity, content;
};

// Lines that are not what remember_hash() writes are passed over.
std::vector<Line> read_lines(const std::filesystem::path& path) {
  std::vector<Line> out;
  std::ifstream in(path);
  for (std::string text; out.size() < kMaxRemembered && std::getline(in, text);) {
    Line line;
    const std::string_view view = text;
    if (view.size() != 65 || view[32] != ' ') continue;
    if (from_hex(view.substr(0, 32), line.identity) && from_hex(view.substr(33), line.content)) out.push_back(line);
  }
  return out;
}

}  // namespace

std::optional<Hash128> remembered_hash(const std::string& folder, const ModelFile& file) {
  if (folder.empty()) return std::nullopt;
  const Hash128 identity = identity_of(file);
  for (const Line& line : read_lines(std::filesystem::path(folder) / kFileName)) {
    if (line.identity == identity) return line.content;
  }
  return std::nullopt;
}

void remember_hash(const std::string& folder, const ModelFile& file, const Hash128& hash, int64_t now_ns) {
  if (folder.empty() || file.maps.empty()) return;
  for (const auto& map : file.maps) {
    const FileIdentity id = map->identity();
    if (std::max(id.modified_ns, id.changed_ns) > now_ns - kYoungNs) return;
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::filesystem::path path = std::filesystem::path(folder) / kFileName;
  std::vector<Line> lines = read_lines(path);
  const Hash128 identity = identity_of(file);
  std::erase_if(lines, [&](const Line& line) { return line.identity == identity; });
  lines.insert(lines.begin(), {identity, hash});
  if (lines.size() > kMaxRemembered) lines.resize(kMaxRemembered);
  // Whole or not at all: another process reads the old file or the new one.
  const std::filesystem::path fresh = path.string() + "." + std::to_string(getpid());
  {
    std::ofstream out(fresh, std::ios::trunc);
    for (const Line& line : lines) out << to_hex(line.identity) << ' ' << to_hex(line.content) << '\n';
    if (!out.flush()) error = std::make_error_code(std::errc::io_error);
  }
  if (!error) std::filesystem::rename(fresh, path, error);
  if (error) std::filesystem::remove(fresh, error);
}

ContentHash::ContentHash(const ModelFile& file, std::string folder, int n_threads)
    : file_(file),
      folder_(std::move(folder)),
      n_threads_(n_threads),
      known_(remembered_hash(folder_, file)),
      tensors_(file.tensors.size()) {}

void ContentHash::add(const HostWeight& weight) {
  if (known_) return;
  auto& hash = tensors_[static_cast<size_t>(&weight - file_.tensors.data())];
  if (!hash) hash = hash_stored(weight, n_threads_);
}

Hash128 ContentHash::finish() {
  if (known_) return *known_;
  Words words;
  for (const HostWeight& weight : file_.tensors) {
    const bool was_read = tensors_[static_cast<size_t>(&weight - file_.tensors.data())].has_value();
    add(weight);
    if (!was_read) file_.release(weight);
    describe(weight, words);
    words.add(*tensors_[static_cast<size_t>(&weight - file_.tensors.data())]);
  }
  known_ = words.hash();
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  remember_hash(folder_, file_, *known_, std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  return *known_;
}

}  // namespace quire
