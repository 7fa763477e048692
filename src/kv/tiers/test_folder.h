// For tests: a folder in memory that knows what a disk would have kept. Every change is an entry of a log; what is left
// after a crash is made from any beginning of it, with or without what was not synced, the last write cut at any byte.
// Calls fail when they are told to. Any thread.
#pragma once
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "kv/tiers/tier_folder.h"

namespace quire {

using TestFiles = std::map<std::string, std::vector<std::byte>>;

// What the folder and its files have in common, and what outlives them: the test's own.
struct TestDisk {
  enum class Op : uint8_t { create, write, sync, remove, sync_folder, read, open, list };
  struct Entry {
    Op op;
    std::string name;
    int64_t offset = 0;
    std::vector<std::byte> bytes;
  };

  // Asked before every call; a code fails it.
  std::function<bool(Op, const std::string& name)> fails;
  TestFiles files;
  std::vector<Entry> log;
  std::mutex mutex;

  Status enter(Op op, const std::string& name) {
    if (fails && fails(op, name)) return fail(Code::io, "told to fail");
    return {};
  }

  // How much of what was not synced a crash leaves.
  enum class Unsynced : uint8_t { lost, kept, zeros };
  // The files after a crash when the log had n entries, the last of which, if it is a write, had written so many bytes.
  TestFiles after_crash(size_t n, size_t n_last_bytes, Unsynced unsynced) const;
};

inline TestFiles TestDisk::after_crash(size_t n, size_t n_last_bytes, Unsynced unsynced) const {
  struct File {
    std::vector<std::byte> now, safe;
    bool safe_name = false;
  };
  std::map<std::string, File> all;
  const auto put = [](std::vector<std::byte>& to, const Entry& entry, size_t n_bytes, bool zeros) {
    const auto begin = static_cast<size_t>(entry.offset);
    if (to.size() < begin + n_bytes) to.resize(begin + n_bytes);
    if (n_bytes > 0 && !zeros) std::memcpy(to.data() + begin, entry.bytes.data(), n_bytes);
  };
  for (size_t i = 0; i < n; ++i) {
    const Entry& entry = log[i];
    if (entry.op == Op::create) all[entry.name];
    if (entry.op == Op::write) {
      const size_t n_bytes = i + 1 == n ? std::min(n_last_bytes, entry.bytes.size()) : entry.bytes.size();
      put(all[entry.name].now, entry, n_bytes, false);
    }
    if (entry.op == Op::sync) all[entry.name].safe = all[entry.name].now;
    if (entry.op == Op::remove) all.erase(entry.name);
    if (entry.op == Op::sync_folder) {
      for (auto& [name, file] : all) file.safe_name = true;
    }
  }
  TestFiles out;
  for (const auto& [name, file] : all) {
    if (unsynced == Unsynced::lost && !file.safe_name) continue;
    out[name] = unsynced == Unsynced::kept ? file.now : file.safe;
    if (unsynced == Unsynced::zeros) out[name].resize(file.now.size());
  }
  return out;
}

class TestFile final : public TierFile {
 public:
  TestFile(TestDisk& disk, std::string name) : disk_(disk), name_(std::move(name)) {}

  Status write(int64_t offset, std::span<const std::byte> bytes) override {
    const std::lock_guard lock(disk_.mutex);
    QR_TRY_VOID(disk_.enter(TestDisk::Op::write, name_));
    disk_.log.push_back({TestDisk::Op::write, name_, offset, {bytes.begin(), bytes.end()}});
    std::vector<std::byte>& to = disk_.files[name_];
    const auto end = static_cast<size_t>(offset) + bytes.size();
    if (to.size() < end) to.resize(end);
    std::copy(bytes.begin(), bytes.end(), to.begin() + offset);
    return {};
  }
  Result<size_t> read(int64_t offset, std::span<std::byte> out) const override {
    const std::lock_guard lock(disk_.mutex);
    QR_TRY_VOID(disk_.enter(TestDisk::Op::read, name_));
    const auto at = disk_.files.find(name_);
    if (at == disk_.files.end()) return fail(Code::io, "it is gone");
    const auto begin = std::min(static_cast<size_t>(offset), at->second.size());
    const size_t n = std::min(out.size(), at->second.size() - begin);
    std::copy_n(at->second.begin() + static_cast<std::ptrdiff_t>(begin), n, out.begin());
    return n;
  }
  Result<int64_t> size() const override {
    const std::lock_guard lock(disk_.mutex);
    return std::ssize(disk_.files[name_]);
  }
  Status sync() override {
    const std::lock_guard lock(disk_.mutex);
    QR_TRY_VOID(disk_.enter(TestDisk::Op::sync, name_));
    disk_.log.push_back({TestDisk::Op::sync, name_, 0, {}});
    return {};
  }

 private:
  TestDisk& disk_;
  std::string name_;
};

class TestFolder final : public TierFolder {
 public:
  // `disk` outlives it and its files.
  explicit TestFolder(TestDisk& disk) : disk_(disk) {}

  Result<std::vector<std::string>> names() const override {
    const std::lock_guard lock(disk_.mutex);
    QR_TRY_VOID(disk_.enter(TestDisk::Op::list, ""));
    std::vector<std::string> out;
    for (const auto& [name, bytes] : disk_.files) out.push_back(name);
    return out;
  }
  Result<std::shared_ptr<TierFile>> create(const std::string& name) override {
    const std::lock_guard lock(disk_.mutex);
    QR_TRY_VOID(disk_.enter(TestDisk::Op::create, name));
    if (disk_.files.contains(name)) return fail(Code::io, "it exists");
    disk_.files[name];
    disk_.log.push_back({TestDisk::Op::create, name, 0, {}});
    return std::make_shared<TestFile>(disk_, name);
  }
  Result<std::shared_ptr<TierFile>> open(const std::string& name) const override {
    const std::lock_guard lock(disk_.mutex);
    QR_TRY_VOID(disk_.enter(TestDisk::Op::open, name));
    return std::make_shared<TestFile>(disk_, name);
  }
  Status remove(const std::string& name) override {
    const std::lock_guard lock(disk_.mutex);
    QR_TRY_VOID(disk_.enter(TestDisk::Op::remove, name));
    disk_.files.erase(name);
    disk_.log.push_back({TestDisk::Op::remove, name, 0, {}});
    return {};
  }
  Status sync() override {
    const std::lock_guard lock(disk_.mutex);
    QR_TRY_VOID(disk_.enter(TestDisk::Op::sync_folder, ""));
    disk_.log.push_back({TestDisk::Op::sync_folder, "", 0, {}});
    return {};
  }

 private:
  TestDisk& disk_;
};

}  // namespace quire
